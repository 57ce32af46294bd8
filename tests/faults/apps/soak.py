"""Runs an app for a while, in rounds; tells after each, when nothing waits, what the process holds.

Usage: soak.py ROUNDS SECONDS QUESTIONS. The last line it prints is the account. With few questions,
the bounded caches of words and verdicts are full after the warm-up.
"""

import asyncio
import dataclasses
import gc
import json
import os
import pathlib
import sys
import threading
import time

import llmeval_sdk as llmeval
from llmeval_sdk.model import Completion, Usage


PER_SECOND = 500
rounds, seconds, questions = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
page = os.sysconf("SC_PAGE_SIZE")


class Fake(llmeval.LLM):
    model = "fake"

    async def complete(self, messages, /, *, schema=None, max_tokens=4096):
        await asyncio.sleep(0.01)
        return Completion('{"rating": "yes", "rationale": "so it is"}', "fake", Usage(9, 9, 18))


@llmeval.retrieval
def search(question):
    return [{"content": f"{question} {number}", "score": 0.5} for number in range(3)]


@llmeval.workflow
def answer(question):
    return f"{question}: {len(search(question))}"


@llmeval.workflow
def stream(question):
    search(question)
    yield "one"
    yield "two"


@llmeval.workflow
async def stream_later(question):
    search(question)
    yield "one"
    yield "two"


async def abandon(question):
    async for _ in stream_later(question):
        return


def call(number, loop):
    question = f"q{number % questions}"
    if number % 50 == 0:
        loop.run_until_complete(abandon(question))
    elif number % 10 == 0:
        next(stream(question))
    else:
        answer(question)
        llmeval.submit_evaluation(label="mine", value=0.5)


def held():
    """Return what the process holds once everything is delivered."""
    complete = llmeval.flush(60).complete
    gc.collect()
    stats = llmeval.stats()
    resident = int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * page
    return {
        "complete": complete,
        "spans": stats.spans,
        "resident": resident,
        "blocks": sys.getallocatedblocks(),
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "files": len(os.listdir("/proc/self/fd")),
    }


llmeval.configure(
    llm=Fake(),
    evaluators=[llmeval.LLMJudge("agrees", "Is this true?\n\n{response}")],
    sampling_rules=[llmeval.SamplingRule(0.05, evaluator="agrees")],
    budget=llmeval.Budget(calls_per_minute=100_000),
)
loop = asyncio.new_event_loop()
number = 0
for _ in range(rounds):
    begun, first = time.monotonic(), number
    while number - first < seconds * PER_SECOND:
        time.sleep(max(0.0, begun + (number - first) / PER_SECOND - time.monotonic()))
        call(number, loop)
        number += 1
    print(json.dumps(held()), flush=True)
loop.run_until_complete(loop.shutdown_asyncgens())
loop.close()
print(json.dumps(dataclasses.asdict(llmeval.shutdown(10))))
