"""What a judgement costs this process, on top of what the client library costs anyway.

    python benchmarks/judges.py

CPU time of the calling process; the server (the stand-in) runs in a process of its own. Medians.
"""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import subprocess
import sys
import time

import openai

from llmeval_sdk import registry
from llmeval_sdk.judges import judge
from llmeval_sdk.judges.models import OpenAILLM
from llmeval_sdk.model import Chunk, Completion, Message, Record, Usage


REPLIES = {
    "context_recall_llm": {"rationale": "there", "score": 0.5},
    "groundedness": {"rationale": "there", "rating": "yes"},
}


class Instant:
    """A model that costs nothing."""

    model = "instant"

    def __init__(self, reply):
        self.completion = Completion(json.dumps(reply), "instant", Usage(1, 1, 2))

    async def complete(self, messages, /, *, schema=None, max_tokens=4096):
        return self.completion


def record(chunks, characters):
    text = ("The mill at the river was built in 1786 and has an oak wheel. " * 4000)[:characters]
    return Record(
        request="When was the mill built, and of what?",
        response="It was built in 1786; its wheel is of oak.",
        value="1786",
        retrieved_context=tuple(Chunk(f"{n} {text}") for n in range(chunks)),
    )


async def cpu(call, times=300, rounds=7):
    """Median CPU microseconds of one call."""
    found = []
    for _ in range(rounds):
        started = time.process_time()
        for _ in range(times):
            await call()
        found.append((time.process_time() - started) / times * 1e6)
    return statistics.median(found)


async def ours():
    print("CPU of a judgement with a model that costs nothing")
    for name, reply in REPLIES.items():
        for chunks, characters in ((5, 500), (10, 2000), (10, 16_000)):
            row, llm, one = record(chunks, characters), Instant(reply), registry.evaluator(name)
            took = await cpu(lambda o=one, r=row, m=llm: o.evaluate(r, m), times=100)
            print(f"  {name:20} {chunks:3} chunks of {characters:6} characters {took:8.0f} us")
    own = judge(name="benchmark")(_always)
    took = await cpu(lambda: own.evaluate(record(1, 10), Instant({})), times=100)
    print(f"  plain function on a daemon thread                    {took:8.0f} us")


def _always(record, llm):
    return True


async def client(base_url):
    print("CPU of one request over loopback HTTP, in this process")
    llm = OpenAILLM("stand-in", base_url=base_url, api_key="k")
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    turns = [Message("user", "hello " * 300)]
    raw = openai.AsyncOpenAI(base_url=base_url, api_key="k", max_retries=0)
    asked = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    told = [{"role": "user", "content": turns[0].content}]

    async def bare():
        await raw.chat.completions.create(model="m", messages=told, response_format=asked)

    async def through():
        await llm.complete(turns, schema=schema)

    await llm.warm()
    await bare()
    await through()
    bare_cost, our_cost = [], []
    for _ in range(7):  # in turns, so that a busy machine slows both
        bare_cost.append(await cpu(bare, times=60, rounds=1))
        our_cost.append(await cpu(through, times=60, rounds=1))
    bare_us, our_us = statistics.median(bare_cost), statistics.median(our_cost)
    print(f"  openai client alone {bare_us:8.0f} us")
    print(f"  OpenAILLM.complete  {our_us:8.0f} us (+{our_us - bare_us:.0f})")
    await raw.close()


def main():
    command = [sys.executable, "-m", "llmeval_sdk.testing.judge_server"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        base_url = re.search(r"http://\S+/v1", server.stdout.readline())[0]
        started = time.process_time()
        asyncio.run(OpenAILLM("m", base_url=base_url).warm())
        print(f"first client of a process: {(time.process_time() - started) * 1e3:.0f} ms CPU")
        asyncio.run(ours())
        asyncio.run(client(base_url))
        llm = OpenAILLM("m", base_url=base_url)
        llm.ask("x")
        started = time.process_time()
        for _ in range(20):
            llm.ask("x")
        print(f"ask() with a loop of its own: {(time.process_time() - started) / 20 * 1e3:.1f} ms")
    finally:
        server.terminate()


if __name__ == "__main__":
    main()
