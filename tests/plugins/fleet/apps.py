"""An app that asks a fleet, as the tests run it in a process of its own."""

import json
import os
import sys
import time

import llmeval_sdk as llmeval


def configure(**options):
    """Ask one judge about every request."""
    llmeval.configure(evaluators=["groundedness"], escalations=[], **options)


def ask(first, count):
    """Answer some questions."""
    for number in range(first, first + count):
        with llmeval.workflow("answer", request=f"What is roof {number} made of?") as span:
            span.response = f"Slate {number}."
            span.retrieved_context = [f"Roof {number} is made of slate."]


def say(**what):
    """Print what the test wants to know."""
    stats = llmeval.stats()
    print(json.dumps({"fleet": dict(stats.fleet), "judged": dict(stats.judged),
                      "not_run": {k: dict(v) for k, v in stats.not_run.items()},
                      "pending": stats.pending_judgements,
                      "problems": dict(stats.problems), **what}), flush=True)  # fmt: skip


def returned(count, seconds=60.0):
    """Wait until so many verdicts have returned."""
    deadline = time.monotonic() + seconds
    while llmeval.stats().fleet.get("returned", 0) < count and time.monotonic() < deadline:
        time.sleep(0.05)


if __name__ == "__main__":
    mode, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    configure()
    ask(first, count)
    begun = time.monotonic()
    complete = llmeval.flush(float(os.environ.get("FLUSH", "30"))).complete
    if mode == "wait":
        returned(
            int(os.environ.get("RETURNED", count)),
            float(os.environ.get("RETURNED_SECONDS", "60")),
        )
        llmeval.flush(10)
    say(complete=complete, seconds=time.monotonic() - begun)
