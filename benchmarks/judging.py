"""What judging costs, beside a bare ``AsyncOpenAI`` loop against the same server in the same run.

The server (`benchmarks.loopback`) runs in a process of its own and answers after 50 ms. First it
prints what the vendor's client costs: its import, and a request. Prints one
row per figure with the bar it has to clear, and exits 1 if one is missed.

    python -m benchmarks.judging [--quick]
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import openai

import llmeval_sdk as llmeval
from benchmarks.loopback import running
from benchmarks.measures import Table, latencies, quantile
from llmeval_sdk import registry
from llmeval_sdk.judges.models import OpenAILLM
from llmeval_sdk.judges.prompt import YES_NO
from llmeval_sdk.model import Completion, Message, Record
from llmeval_sdk.model.protocols import LLM
from llmeval_sdk.pipeline import runtime


CONCURRENCY = 32
TEXT = "The mill at the river was built in 1786 and its wheel is made of oak. " * 7


class Verdicts:
    """An exporter that counts the verdicts of one kind and says when there are enough."""

    name = "verdicts"

    def __init__(self, kind="judge"):
        self.kind = kind
        self.count = self.failed = self.last_ns = 0
        self.awaited = 0
        self.enough = threading.Event()

    def export(self, batch):
        for event in batch.evaluations:
            if event.evaluation.evaluator_kind == self.kind:
                self.count += 1
                self.failed += event.evaluation.error is not None
                self.last_ns = max(self.last_ns, event.timestamp_ns)
        if self.count >= self.awaited:
            self.enough.set()

    def flush(self, timeout):
        pass

    def close(self, timeout):
        pass


class Keep(LLM):
    """Keeps the messages of one judgement, so that the bare loop sends what judges send."""

    model = "keep"

    async def complete(self, messages, /, *, schema=None, max_tokens=4096):
        self.messages = messages
        return Completion('{"rationale": "kept", "rating": "yes"}')


def request(number):
    """One request of an app: an answer with five chunks of 490 characters; no two are alike."""
    with llmeval.workflow("answer", request=f"When was mill {number} built?") as span:
        span.retrieved_context = [{"content": f"{number}/{n} {TEXT}"} for n in range(5)]
        span.response = f"Mill {number} was built in 1786."


def record(number):
    """Make the record of such a request."""
    return Record(
        request=f"When was mill {number} built?",
        response=f"Mill {number} was built in 1786.",
        retrieved_context=tuple(llmeval.Chunk(f"{number}/{n} {TEXT}") for n in range(5)),
    )


def messages_of(number):
    keep = Keep()
    asyncio.run(registry.evaluator("groundedness").evaluate(record(number), keep))
    return [{"role": turn.role, "content": turn.content} for turn in keep.messages]


class Bare:
    """As many workers as judgements may run, each calling the client: the least one can do."""

    def __init__(self, url, count):
        self.url = url
        self.prompts = [messages_of(number) for number in range(count)]
        self.form = {
            "type": "json_schema",
            "json_schema": {"name": "verdict", "strict": True, "schema": YES_NO.schema},
        }

    def run(self):
        """Return calls a second and CPU seconds a call."""
        return asyncio.run(self._run())

    async def _run(self):
        async with openai.AsyncOpenAI(base_url=self.url, api_key="k", max_retries=0) as client:

            async def work(waiting):
                for messages in waiting:
                    await client.chat.completions.create(
                        model="loopback",
                        messages=messages,
                        response_format=self.form,
                        max_tokens=1024,
                        temperature=0,
                    )

            async def all_of(prompts):
                waiting = iter(prompts)
                await asyncio.gather(*(work(waiting) for _ in range(CONCURRENCY)))

            await all_of(self.prompts[: 2 * CONCURRENCY])
            begun, cpu = time.perf_counter(), time.process_time()
            await all_of(self.prompts)
            took, cpu = time.perf_counter() - begun, time.process_time() - cpu
        return len(self.prompts) / took, cpu / len(self.prompts)


class Ours:
    """The same judgements from traced calls to exported verdicts, through the whole pipeline."""

    def __init__(self, url, folder):
        self.verdicts = Verdicts()
        self.number = 0
        llmeval.configure(
            exporters=[self.verdicts],
            evaluators=["groundedness"],
            escalations=[],
            llm=OpenAILLM("loopback", base_url=url, api_key="k"),
            budget=llmeval.Budget(
                calls_per_minute=10**6, usd_per_day=None, concurrency=CONCURRENCY
            ),
            heuristics="off",
            store=str(Path(folder) / "store.db"),
        )
        self.run(2 * CONCURRENCY)

    def begin(self, count):
        """Queue so many records."""
        self.verdicts.awaited = self.verdicts.count + count
        self.verdicts.enough.clear()
        for _ in range(count):
            self.number += 1
            request(self.number)

    def end(self):
        if not self.verdicts.enough.wait(60):
            raise SystemExit(f"verdicts are missing: {llmeval.stats()}")

    def run(self, count):
        """Return judgements a second and CPU seconds a judgement."""
        begun, cpu = time.time_ns(), time.process_time()
        self.begin(count)
        self.end()
        cpu = time.process_time() - cpu
        return count / (self.verdicts.last_ns - begun) * 1e9, cpu / count


def resident():
    """Return the resident memory of this process in MB."""
    gc.collect()
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def throughput(table, bare, ours, count, rounds):
    rates, costs = [], []
    for _ in range(rounds):
        one, other = bare.run(), ours.run(count)
        rates.append((one[0], other[0]))
        costs.append((one[1], other[1]))
    share = statistics.median(other / one for one, other in rates)
    more = statistics.median(other - one for one, other in costs) * 1e3
    bare_rate, our_rate = (statistics.median(pair[i] for pair in rates) for i in (0, 1))
    bare_cpu, our_cpu = (statistics.median(pair[i] for pair in costs) * 1e3 for i in (0, 1))
    table.row("bare AsyncOpenAI loop", f"{bare_rate:.0f}/s, {bare_cpu:.2f} ms CPU")
    table.row("judgements through the pipeline", f"{our_rate:.0f}/s, {our_cpu:.2f} ms CPU")
    table.row("share of the bare loop's rate", f"{share:.1%}", ">= 95%", ok=share >= 0.95)
    table.row("CPU per judgement on top of the client's", f"{more:.2f} ms", "< 1 ms", ok=more < 1)


def app_latency(table, ours, count, rounds):
    """Time the app's own calls while nothing and while everything is judged."""

    @llmeval.task
    def traced(question):
        return question

    found = {"idle": [], "judging": []}
    for _ in range(rounds):
        for state, p99s in found.items():
            if state == "judging":
                ours.begin(count)
            p99s.append(quantile(latencies(traced, "question", 2 * count), 0.99))
            ours.end()
            llmeval.flush(30)
    idle, judging = (statistics.median(each) for each in found.values())
    table.row("p99 of a traced call, nothing judged", f"{idle:.1f} us")
    table.row(
        "p99 of a traced call, 32 judgements at a time",
        f"{judging:.1f} us",
        f"<= {idle + 10:.1f} us",
        ok=judging <= idle + 10,
    )


def memory(table, ours, count, rounds):
    ours.run(count)
    before = resident()
    for _ in range(rounds):
        ours.run(count)
    growth = resident() - before
    table.row(
        f"growth over {rounds * count} judgements", f"{growth:+.1f} MB", "< 2 MB", ok=growth < 2
    )


IMPORT = """
import asyncio, json, sys, threading, time
from llmeval_sdk.judges.models import OpenAILLM

gaps, ended = [], False

def app():
    last = time.perf_counter()
    while not ended:
        time.sleep(0.0005)
        now = time.perf_counter()
        gaps.append((now - last - 0.0005) * 1e3)
        last = now

def judge():
    begun = time.thread_time()
    asyncio.run(OpenAILLM("m", base_url=sys.argv[1]).warm())
    found["cpu_ms"] = (time.thread_time() - begun) * 1e3

found = {}
threading.Thread(target=app, daemon=True).start()
time.sleep(0.5)
found["before_ms"], first = max(gaps), len(gaps)
thread = threading.Thread(target=judge)
thread.start()
thread.join()
during, ended = sorted(gaps[first:]), True
found["longest_ms"], found["p99_ms"] = during[-1], during[int(len(during) * 0.99)]
assert "openai" in sys.modules
print(json.dumps(found))
"""
"""How long a thread of the app that wakes every half millisecond sleeps too long meanwhile."""


def first_client(table, url, rounds):
    """Print what the import of the vendor's client, on the judge's thread, costs the app."""
    runs = []
    for _ in range(rounds):
        command = [sys.executable, "-c", IMPORT, url]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        runs.append(json.loads(done.stdout))
    median = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    table.row("first judgement: import of the client, CPU", f"{median['cpu_ms']:.0f} ms")
    table.row("… longest pause of an app's thread meanwhile", f"{median['longest_ms']:.1f} ms")
    table.row("… p99 of its pauses meanwhile", f"{median['p99_ms']:.1f} ms")
    table.row("… longest pause before", f"{median['before_ms']:.1f} ms")


def one_request(table, url, count):
    """Print the CPU of one request: by HTTP alone, through a judge model, and by the client."""
    found = asyncio.run(_one_request(url, messages_of(0), count))
    for name, costs in found.items():
        table.row(f"CPU of a request, {name}", f"{statistics.median(costs):.0f} µs")


async def _one_request(url, messages, count):
    import httpx2

    body = {"model": "loopback", "messages": messages, "max_tokens": 1024, "temperature": 0}
    turns = [Message(turn["role"], turn["content"]) for turn in messages]
    llm = OpenAILLM("loopback", base_url=url, api_key="k")
    async with (
        openai.AsyncOpenAI(base_url=url, api_key="k", max_retries=0) as client,
        httpx2.AsyncClient() as http,
    ):
        ways = {
            "HTTP alone": lambda: http.post(f"{url}/chat/completions", json=body),
            "OpenAILLM": lambda: llm.complete(turns),
            "chat.completions.create": lambda: client.chat.completions.create(**body),
        }
        found = {name: [] for name in ways}
        for _ in range(8):  # in turns, so that a busy machine slows all of them
            for name, call in ways.items():
                begun = time.process_time()
                for _ in range(count):
                    await call()
                found[name].append((time.process_time() - begun) / count * 1e6)
    return {name: costs[1:] for name, costs in found.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    count, rounds = (300, 3) if quick else (1_000, 5)
    table = Table()
    with running(delay=0) as url:
        first_client(table, url, rounds)
        one_request(table, url, count // 20)
    with running() as url, tempfile.TemporaryDirectory() as folder, runtime.isolated():
        bare, ours = Bare(url, count), Ours(url, folder)
        throughput(table, bare, ours, count, rounds)
        app_latency(table, ours, count, rounds)
        memory(table, ours, count, rounds)
        table.row(
            "judgements that failed", str(ours.verdicts.failed), "0", ok=not ours.verdicts.failed
        )
    sys.exit(1 if table.missed else 0)


if __name__ == "__main__":
    main()
