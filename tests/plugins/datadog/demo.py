"""Run the demo app into Datadog's test agent, and print what Datadog would show.

python tests/plugins/datadog/demo.py [--agent PROGRAM] [--limit N]
"""

import argparse
import base64
import gzip
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter, defaultdict
from pathlib import Path


QUIET = {
    "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
    "DD_REMOTE_CONFIGURATION_ENABLED": "false",
    "DD_CRASHTRACKING_ENABLED": "false",
    "DD_TRACE_STARTUP_LOGS": "false",
}


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def get(url):
    with urllib.request.urlopen(url, timeout=30) as reply:
        return reply.read()


def start_agent(program, folder):
    """Start the test agent, which forwards nothing; return its process and address."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    command = [
        program, "--host", "127.0.0.1", "--port", str(port), "--otlp-http-port", str(free_port()),
        "--otlp-grpc-port", str(free_port()), "--web-ui-port", str(free_port()),
        "--max-requests", "5000", "--disable-llmobs-data-forwarding", "--snapshot-dir", folder,
        "--vcr-cassettes-directory", folder, "--log-level", "ERROR",
    ]  # fmt: skip
    env = {key: value for key, value in os.environ.items() if not key.startswith("DD_")}
    with (Path(folder) / "log").open("w") as log:
        process = subprocess.Popen(command, env=env, cwd=folder, stdout=log, stderr=log)
    for _ in range(200):
        try:
            get(f"{url}/info")
            return process, url
        except OSError:
            time.sleep(0.1)
    process.kill()
    raise SystemExit("the test agent did not start")


def received(url):
    """Return the spans and evaluations that the agent has."""
    spans, evaluations = [], []
    for request in json.loads(get(f"{url}/test/session/requests")):
        path, body = request["url"].split("?")[0], base64.b64decode(request["body"])
        if body[:2] == b"\x1f\x8b":
            body = gzip.decompress(body)
        if path.endswith("api/v2/llmobs"):
            spans += [span for envelope in json.loads(body) for span in envelope["spans"]]
        elif path.endswith("eval-metric"):
            evaluations += json.loads(body)["data"]["attributes"]["metrics"]
    return spans, evaluations


def show(spans, evaluations):
    """Print what would stand in LLM Observability."""
    traces = {span["trace_id"] for span in spans}
    kinds = Counter(span["meta"]["span"]["kind"] for span in spans)
    print(f"\nDatadog received {len(spans)} spans in {len(traces)} traces:")
    print("  " + ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()))
    tokens = sum(span["metrics"].get("total_tokens", 0) for span in spans)
    errors = sum(span["status"] == "error" for span in spans)
    print(f"  {tokens:,} tokens, {errors} spans with an error")
    ids = {span["span_id"] for span in spans}
    joined = sum(each["join_on"]["span"]["span_id"] in ids for each in evaluations)
    print(f"\nand {len(evaluations)} evaluations, {joined} of them on one of these spans:")
    by_label = defaultdict(list)
    for each in evaluations:
        by_label[each["label"], each["metric_type"]].append(each[f"{each['metric_type']}_value"])
    for (label, kind), values in sorted(by_label.items()):
        said = (
            f"mean {statistics.mean(values):.2f}"
            if kind == "score"
            else ", ".join(f"{count} {value}" for value, count in Counter(values).most_common(4))
        )
        print(f"  {label:<28}{kind:<13}{len(values):>5}   {said}")
    root = next(s for s in spans if s["parent_id"] == "undefined" and _children(spans, s))
    print("\none trace:")
    _tree(spans, evaluations, root, 1)


def _children(spans, parent):
    found = [span for span in spans if span["parent_id"] == parent["span_id"]]
    return sorted(found, key=lambda span: span["start_ns"])


def _tree(spans, evaluations, span, depth):
    own = [e["label"] for e in evaluations if e["join_on"]["span"]["span_id"] == span["span_id"]]
    scores = f"  [{len(own)} evaluations]" if own else ""
    kind = span["meta"]["span"]["kind"]
    print(f"{'  ' * depth}{span['name']} ({kind}, {span['duration'] / 1e6:.1f} ms){scores}")
    for child in _children(spans, span):
        _tree(spans, evaluations, child, depth + 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agent", default=f"{sys.prefix}-agent/bin/ddapm-test-agent")
    parser.add_argument("--limit", default="20")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        process, url = start_agent(str(Path(given.agent).absolute()), folder)
        try:
            env = os.environ | QUIET | {"DD_TRACE_AGENT_URL": url, "DD_LLMOBS_ML_APP": "demo"}
            command = [sys.executable, "-m", "llmeval_sdk", "demo", "--exporters", "datadog"]
            command += ["--limit", given.limit, "--store", f"{folder}/demo.db"]
            subprocess.run(command, env=env, check=True)
            show(*received(url))
        finally:
            process.terminate()
            process.wait(10)
    return 0


if __name__ == "__main__":
    sys.exit(main())
