"""What an invocation of a serverless function pays for the delivery of its records.

A handler that traces one call with its retrieval runs in a process of its own with and without
`lambda_handler`, in turn. The far end is a collector that answers at once, over a connection that is
kept. Of ten rounds the one with the quickest median counts: it is the one in which the machine did
least for others. ``python -m benchmarks.reach`` prints the rows.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

from benchmarks.measures import quantile
from benchmarks.otel_cpu import collector


BAR_MS = 5.0
ROUNDS = 10
PAUSE_SECONDS = 0.01
"""Between two invocations, as a function has it."""


def wrapper(table, count):
    """Measure some invocations, and print what the decorator adds to one."""
    with collector() as url:
        command = [sys.executable, "-m", "benchmarks.serverless", url, str(count)]
        shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    figures = json.loads(shown)
    bare, wrapped = figures["bare"], figures["wrapped"]
    added = wrapped["p50"] - bare["p50"]
    table.row("An invocation that leaves its records waiting: p50 / p99", milliseconds(bare))
    table.row("An invocation with lambda_handler: p50 / p99", milliseconds(wrapped))
    table.row(
        "  what the decorator adds", f"{added:.2f} ms", f"<= {BAR_MS:.0f} ms", ok=added <= BAR_MS
    )
    table.row("  the first invocation of the process", f"{figures['first']:.0f} ms")


def milliseconds(figure):
    return f"{figure['p50']:.2f} / {figure['p99']:.2f} ms"


def measure(url, count):
    import llmeval_sdk as llmeval
    from llmeval_sdk.plugins.serverless import lambda_handler

    llmeval.configure(exporters=["otlp"], otlp_endpoint=url, mode="serverless")

    @llmeval.workflow
    def answer(question):
        llmeval.annotate(retrieved_context=["The survey of 1998 says that the roof is of slate."])
        return "The roof is made of slate."

    def bare(event, context):
        return answer(event["question"])

    wrapped = lambda_handler(bare)
    first = timed(wrapped)
    times = {"bare": [], "wrapped": []}
    for _ in range(count):
        times["wrapped"].append(timed(wrapped))
        times["bare"].append(timed(bare))
        assert llmeval.flush(10.0).complete
    stats = llmeval.stats()
    assert not stats.losses, stats.losses
    assert stats.spans == 2 * count + 1
    print(json.dumps({"first": first, **{name: quickest(all_) for name, all_ in times.items()}}))


def quickest(times):
    """Return the median and the 99th percentile of the round with the quickest median."""
    size = len(times) // ROUNDS
    rounds = [sorted(times[size * number : size * (number + 1)]) for number in range(ROUNDS)]
    p50, p99 = min((quantile(one, 0.5), quantile(one, 0.99)) for one in rounds)
    return {"p50": p50, "p99": p99}


def timed(handler):
    """Return how many milliseconds one invocation takes, after a pause."""
    time.sleep(PAUSE_SECONDS)
    begun = time.perf_counter()
    handler({"question": "What is the roof made of?"}, None)
    return (time.perf_counter() - begun) * 1_000


if __name__ == "__main__":
    measure(sys.argv[1], int(sys.argv[2]))
