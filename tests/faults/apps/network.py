"""Traces calls at a steady rate; tells at its end what they cost, what was logged, and the account.

Usage: network.py SECONDS MINUTE PER_SECOND [--wait]. MINUTE is what the log's rate limit takes for
one; with --wait, the app waits for its records before it ends.
"""

import atexit
import dataclasses
import json
import logging
import sys
import threading
import time

import llmeval_sdk as llmeval
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.process import shield


seconds, minute, per_second = map(float, sys.argv[1:4])
wait = "--wait" in sys.argv
text = "x" * 100
shield.INTERVAL_SECONDS = minute
told = {"raised": [], "lines": [], "wall": [], "cpu": []}


class Lines(logging.Handler):
    def emit(self, record):
        line = record.getMessage()
        told["lines"].append((time.monotonic() - begun, line))


logging.getLogger().addHandler(Lines(level=logging.WARNING))
threading.excepthook = lambda hook: told["raised"].append(f"{hook.thread}: {hook.exc_value!r}")
sys.unraisablehook = lambda hook: told["raised"].append(f"{hook.object!r}: {hook.exc_value!r}")


@atexit.register  # before ours, so it runs after it
def report():
    print(json.dumps({**told, "stats": dataclasses.asdict(llmeval.stats())}))


agrees = llmeval.LLMJudge("agrees", "Is this true?\n\n{response}")


@llmeval.workflow
def answer(question):
    llmeval.annotate(retrieved_context=[{"content": text, "score": 0.5}] * 3)
    llmeval.submit_evaluation(label="mine", value=0.5)
    return f"{text}{question}"


evaluators = []
if runtime.settings().judge_model:
    import openai  # noqa: F401 - an app that judges has it; half a second of processor time

    evaluators = [agrees]
begun = time.monotonic()
llmeval.configure(evaluators=evaluators)
answer(0)
for number in range(1, int(seconds * per_second)):
    time.sleep(max(0.0, begun + number / per_second - time.monotonic()))
    wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
    try:
        assert answer(number) == f"{text}{number}"
    except BaseException as error:
        told["raised"].append(repr(error))
    told["cpu"].append(time.thread_time_ns() - cpu)
    told["wall"].append(time.perf_counter_ns() - wall)
if wait:
    llmeval.flush(60)


def considered():
    stats = llmeval.stats()
    not_run = stats.not_run.get("agrees", {})
    return stats.pending_judgements + stats.judged.get("agrees", 0) + sum(not_run.values())


deadline = time.monotonic() + 60
while evaluators and considered() < len(told["wall"]) + 1 and time.monotonic() < deadline:
    time.sleep(0.01)
told |= {"begun": begun, "ended": time.monotonic()}
