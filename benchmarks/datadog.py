"""What a traced call costs beside ddtrace's own decorator, and whether a burst arrives whole.

Needs ddtrace and Datadog's test agent (`make bench-datadog` has both). Prints one row per figure
with its bar, and exits 1 if one is missed.

    python -m benchmarks.datadog --agent .venv-datadog-agent/bin/ddapm-test-agent [--quick]
"""

import argparse
import base64
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path


QUIET = {
    "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
    "DD_REMOTE_CONFIGURATION_ENABLED": "false",
    "DD_CRASHTRACKING_ENABLED": "false",
    "DD_TRACE_STARTUP_LOGS": "false",
    "DD_LLMOBS_ML_APP": "bench",
}


def get(url):
    with urllib.request.urlopen(url, timeout=60) as reply:
        return reply.read()


def start_agent(program, port, folder):
    command = [
        program, "--host", "127.0.0.1", "--port", str(port), "--otlp-http-port", str(port + 1),
        "--otlp-grpc-port", str(port + 2), "--web-ui-port", str(port + 3), "--max-requests", "20000",
        "--disable-llmobs-data-forwarding", "--snapshot-dir", folder,
        "--vcr-cassettes-directory", folder, "--log-level", "ERROR",
    ]  # fmt: skip
    env = {key: value for key, value in os.environ.items() if not key.startswith("DD_")}  # noqa: TID251
    with (Path(folder) / "log").open("w") as log:
        process = subprocess.Popen(command, env=env, cwd=folder, stdout=log, stderr=log)
    for _ in range(200):
        try:
            get(f"http://127.0.0.1:{port}/info")
            return process  # noqa: TRY300
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the test agent did not start")


def received(port):
    """Count the spans and evaluations that the agent has, by id and by label and span."""
    requests = json.loads(get(f"http://127.0.0.1:{port}/test/session/requests"))
    spans, evaluations = set(), []
    for request in requests:
        path, body = request["url"].split("?")[0], base64.b64decode(request["body"])
        if body[:2] == b"\x1f\x8b":
            body = gzip.decompress(body)
        if path.endswith("api/v2/llmobs"):
            spans |= {s["span_id"] for envelope in json.loads(body) for s in envelope["spans"]}
        elif path.endswith("eval-metric"):
            for each in json.loads(body)["data"]["attributes"]["metrics"]:
                evaluations.append((each["label"], each["join_on"]["span"]["span_id"]))
    return spans, evaluations


# -- in processes of their own: ddtrace is configured once per process -------------------------------


def latencies(call, count):
    times, clock = [], time.perf_counter_ns
    for _ in range(count):
        begun = clock()
        call("What is the roof made of?")
        times.append((clock() - begun) / 1_000)
        time.sleep(0.001)
    return sorted(times)


def costs(count, repeat):
    import llmeval_sdk as llmeval

    llmeval.configure(exporters=["datadog"])
    from ddtrace.llmobs.decorators import task as their_task
    from ddtrace.llmobs.decorators import workflow as their_workflow

    @llmeval.workflow
    def ours(question):
        return question

    @their_workflow
    def theirs(question):
        return question

    @llmeval.task
    def our_step(question):
        return question

    @llmeval.workflow
    def our_nest(question):
        return our_step(question)

    @their_task
    def their_step(question):
        return question

    @their_workflow
    def their_nest(question):
        return their_step(question)

    calls = {"ours": ours, "theirs": theirs, "our nest": our_nest, "their nest": their_nest}
    found = {name: [] for name in calls}
    for _ in range(repeat):
        for name, call in calls.items():
            times = latencies(call, count)
            found[name].append((times[len(times) // 2], times[int(len(times) * 0.99)]))
        llmeval.flush(30)
    medians = {
        name: [statistics.median(pair[i] for pair in pairs) for i in (0, 1)]
        for name, pairs in found.items()
    }
    print(json.dumps(medians))


def burst(count, _):
    import llmeval_sdk as llmeval

    llmeval.configure(exporters=["datadog"], heuristics="off")

    @llmeval.workflow
    def call(number):
        llmeval.submit_evaluation(label="own", value=number / count)
        return number

    begun = time.perf_counter()
    for number in range(count):
        call(number)
    took = time.perf_counter() - begun
    stats = llmeval.flush(120)
    each = stats.exporters["datadog"]
    print(
        json.dumps(
            {
                "seconds": took,
                "flushed": time.perf_counter() - begun,
                "created": each.created,
                "delivered": each.delivered,
                "dropped": dict(each.dropped),
                "complete": stats.complete,
            }
        )
    )


def in_process(what, port, count, repeat, **extra):
    env = os.environ | QUIET | {"DD_TRACE_AGENT_URL": f"http://127.0.0.1:{port}"} | extra  # noqa: TID251
    command = [sys.executable, "-m", "benchmarks.datadog", "--run", what, str(count), str(repeat)]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def row(figure, shown, bar="", *, ok=True):
    print(f"{figure:<62}{shown:>26}{bar:>16}{'' if ok else '  MISSED'}", flush=True)
    return ok


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--agent", default=".venv-datadog-agent/bin/ddapm-test-agent")
    parser.add_argument("--port", type=int, default=19226)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        what, count, repeat = given.run
        return {"costs": costs, "burst": burst}[what](int(count), int(repeat))
    good = True
    with tempfile.TemporaryDirectory() as folder:
        agent = start_agent(str(Path(given.agent).absolute()), given.port, folder)
        try:
            good &= call_rows(given)
            for mode, extra in (
                ("agent", {}),
                ("APM off", {"DD_APM_TRACING_ENABLED": "false"}),
            ):
                get(f"http://127.0.0.1:{given.port}/test/session/clear")
                good &= burst_rows(given, mode, extra)
        finally:
            agent.terminate()
            agent.wait(20)
    return 0 if good else 1


def call_rows(given):
    count, repeat = (100, 3) if given.quick else (600, 7)
    found = in_process("costs", given.port, count, repeat)
    good = True
    for ours, theirs, what in (
        ("ours", "theirs", "one workflow"),
        ("our nest", "their nest", "workflow > task"),
    ):
        row(f"ddtrace's own decorators, {what}: p50 / p99", us(found[theirs]))
        row(f"ours on the caller's thread, {what}: p50 / p99", us(found[ours]))
        share = found[ours][0] / found[theirs][0]
        good &= row("  … as a share", f"{share:.2f}", "≤ 0.50", ok=share <= 0.5)
    return good


def burst_rows(given, mode, extra):
    count = 1_000 if given.quick else 10_000
    found = in_process("burst", given.port, count, 1, **extra)
    spans, evaluations = received(given.port)
    lost = (count - len(spans), count - len(set(evaluations)))
    name = f"{mode}: lost of {count:,} spans and {count:,} evaluations"
    good = row(name, f"{lost[0]} and {lost[1]}", "0 and 0", ok=lost == (0, 0))
    joined = sum(span in spans for _, span in evaluations)
    row("  … evaluations whose span arrived", f"{joined:,}", f"{count:,}", ok=joined == count)
    same = found["delivered"] == len(spans) + len(evaluations) == found["created"]
    good &= row("  … account equals what the agent received", str(same), "True", ok=same)
    row(
        "  … seconds until the app was done, and all was sent",
        f"{found['seconds']:.1f} / {found['flushed']:.1f} s",
    )
    return good


def us(pair):
    return f"{pair[0]:.0f} / {pair[1]:.0f} µs"


if __name__ == "__main__":
    sys.exit(main())
