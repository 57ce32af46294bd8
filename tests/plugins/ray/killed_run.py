"""A driver for tests that kill it: evaluates a Parquet file on Ray with a judge over HTTP."""

import sys

import ray

import llmeval_sdk as llmeval
from llmeval_sdk.judges.models import OpenAILLM


def main(path, save, url, resume):
    """Run it; print what the report says."""
    ray.init(
        address="local", num_cpus=3, include_dashboard=False, object_store_memory=128 << 20,
        log_to_driver=False, logging_level="error", _node_ip_address="127.0.0.1",
    )  # fmt: skip
    report = llmeval.evaluate(
        path, engine="ray", workers=2, concurrency=4, evaluators=["correctness", "groundedness"],
        llm=OpenAILLM("stand-in", base_url=url, api_key="k"), cache=False, save=save,
        resume=resume == "resume", progress=False,
    )  # fmt: skip
    print(report.counts, len(report.rows), report.judge_usage.total_tokens)


if __name__ == "__main__":
    main(*sys.argv[1:])
