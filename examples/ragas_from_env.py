"""Ragas' evaluators by environment variables alone, as the guide of Datadog's describes them.

Started as a program, this file starts itself again under ``llmeval run`` with the variables of the
guide. Ragas judges in a child process; where it is not installed, each judgement is counted with
that reason and the app goes on. The judge model is a stand-in on the loopback interface.
"""

import json
import os
import subprocess
import sys

import llmeval_sdk as llmeval
from llmeval_sdk.testing.judge_server import JudgeServer


@llmeval.llm(model_name="demo")
def generate(messages: list[dict[str, str]]) -> str:
    """Stand for a call of a model."""
    return "The tower was finished in 1889."


def app() -> None:
    """Answer a question; nothing here mentions an evaluator."""
    prompt = llmeval.Prompt(
        variables={"context": "It was finished in 1889.", "question": "When was it finished?"},
        rag_context_variable_keys=["context"],
        rag_query_variable_keys=["question"],
    )
    with llmeval.annotation_context(prompt=prompt, name="generate_answer"):
        generate([{"role": "user", "content": "When was it finished?"}])
    stats = llmeval.flush(25)
    print("judged:", dict(stats.judged))
    print("not run:", {judge: dict(reasons) for judge, reasons in stats.not_run.items()})


def main() -> None:
    """Serve a judge model that finds every context useful, and start the app beside it."""
    judged = {"evaluator_label": "ragas_context_precision", "span_name": "generate_answer"}
    rules = [{"sample_rate": 1.0, **judged}, {"sample_rate": 0}]
    with JudgeServer(lambda _: {"reason": "it says so", "verdict": 1}) as model:
        variables = {
            "DD_LLMOBS_EVALUATORS": "ragas_faithfulness,ragas_context_precision",
            "DD_LLMOBS_EVALUATOR_SAMPLING_RULES": json.dumps(rules),
            "OPENAI_BASE_URL": model.base_url,
            "OPENAI_API_KEY": "none",
            "LLMEVAL_EXPORTERS": "memory",
        }
        command = [sys.executable, "-m", "llmeval_sdk", "run", sys.executable, __file__, "app"]
        subprocess.run(command, env={**os.environ, **variables}, check=True)  # noqa: S603, TID251


if __name__ == "__main__":
    app() if sys.argv[1:] == ["app"] else main()
