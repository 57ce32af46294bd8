"""What Ragas costs the app that is judged with it: in the child process, on a thread, bare.

    make bench-ragas

Needs Ragas beside the SDK, as the environment of that target has it. The judge model is a loopback
server in a process of its own that takes 50 ms for each answer.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import llmeval_sdk as llmeval
from llmeval_sdk.testing.judge_server import JudgeServer


MODEL_SECONDS = 0.05
RECORDS = 200
CONCURRENCY = 8
SAMPLES = 4_000
QUIET = {"RAGAS_DO_NOT_TRACK": "true", "OPENAI_API_KEY": "none"}
ANSWER = "The tower is old. The tower is high. The tower is green."
CONTEXTS = ["the tower is old. the tower is high."]


def verdicts(request: dict[str, Any]) -> dict[str, Any]:
    """Answer the two prompts of faithfulness."""
    text = "\n".join(str(turn["content"]) for turn in request["messages"])
    start = text.index("{", max(text.rfind("\ninput: "), text.rfind("\nInput: ")))
    given = json.JSONDecoder().raw_decode(text[start:])[0]
    if "statements" not in given:
        return {"statements": [f"{part}." for part in given["answer"].split(". ")]}
    return {
        "statements": [
            {"statement": each, "reason": "by rule", "verdict": int("green" not in each)}
            for each in given["statements"]
        ]
    }


def serve() -> None:
    """Be the judge model until the parent goes away."""
    with JudgeServer(verdicts, default="slow", delay=MODEL_SECONDS) as server:
        print(server.base_url, flush=True)
        sys.stdin.read()


@contextmanager
def model() -> Iterator[str]:
    """Run the judge model in a process of its own."""
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.ragas_isolation", "serve"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate()


@llmeval.llm(model_name="app")
def prompted(question: str) -> str:
    """Be an answer for Ragas to judge."""
    llmeval.annotate(prompt={"variables": {"question": question, "context": CONTEXTS}})
    return ANSWER


@llmeval.task
def step(text: str) -> str:
    """Be the traced call whose time counts."""
    return text


def configure(url: str, worker: str, **more: Any) -> None:
    """Judge faithfulness only, without a limit that would be felt."""
    llmeval.configure(
        evaluators=["ragas_faithfulness"], escalations=[], exporters=["memory"],
        judge_model="m", judge_base_url=url, judge_worker=worker, calls_per_minute=1e6,
        judge_concurrency=CONCURRENCY, judge_timeout=120.0, **more,
    )  # fmt: skip


def submit(count: int, name: str) -> None:
    """Hand over so many different answers."""
    for number in range(count):
        prompted(f"{name} {number}?")


def p99(samples: int = SAMPLES) -> tuple[float, float]:
    """Return p50 and p99, in microseconds, of a traced call every millisecond."""
    taken = []
    for _ in range(samples):
        time.sleep(0.001)
        begun = time.perf_counter_ns()
        step("x")
        taken.append(time.perf_counter_ns() - begun)
    taken.sort()
    return taken[len(taken) // 2] / 1e3, taken[int(len(taken) * 0.99)] / 1e3


def app(worker: str, url: str) -> None:
    """Be the app: print what its calls take at rest and while Ragas judges, and the pace."""
    folder = tempfile.mkdtemp()
    configure(url, worker, store=f"{folder}/x.db")
    submit(1, "first")
    llmeval.flush(120)
    p99(500)
    rest = p99()
    submit(900, "many")
    time.sleep(0.3)
    busy = p99()
    pending = llmeval.stats().pending_judgements
    llmeval.flush(240)
    begun = time.perf_counter()
    submit(RECORDS, "paced")
    llmeval.flush(240)
    pace = RECORDS / (time.perf_counter() - begun)
    stats = llmeval.stats()
    print(
        json.dumps(
            {
                "rest": rest,
                "busy": busy,
                "pace": pace,
                "pending": pending,
                "judged": stats.judged,
                "loaded": "ragas" in sys.modules,
            }
        )
    )


def ready() -> None:
    """Print how long a child takes until it can judge, and the mere import beside it."""
    from llmeval_sdk import config
    from llmeval_sdk.plugins.ragas.child import child
    from llmeval_sdk.plugins.ragas.runner import spec_of

    settings = config.from_environment(problems=[], store=f"{tempfile.mkdtemp()}/x.db")

    async def run() -> float:
        begun = time.perf_counter()
        await child(spec_of(settings)).about()
        return time.perf_counter() - begun

    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import ragas.metrics.collections"], check=True)
    imported = time.perf_counter() - begun
    print(json.dumps({"ready": asyncio.run(run()), "imported": imported}))


def bare(url: str) -> None:
    """Be Ragas without us: print its pace."""
    from openai import AsyncOpenAI
    from ragas.llms import llm_factory
    from ragas.metrics.collections import Faithfulness

    async def run() -> float:
        client = AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=60)
        metric = Faithfulness(llm=llm_factory("m", client=client, max_tokens=4096))
        places = asyncio.Semaphore(CONCURRENCY)

        async def one(name: str) -> None:
            async with places:
                await metric.ascore(user_input=name, response=ANSWER, retrieved_contexts=CONTEXTS)

        await one("first?")
        begun = time.perf_counter()
        await asyncio.gather(*(one(f"paced {number}?") for number in range(RECORDS)))
        return RECORDS / (time.perf_counter() - begun)

    print(json.dumps({"pace": asyncio.run(run())}))


def run(*arguments: str) -> dict[str, Any]:
    """Run one of the parts in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.ragas_isolation", *arguments],
        check=True, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent.parent,
        env={**os.environ, **QUIET},  # noqa: TID251
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    """Run every part three times, in turn, and print medians beside the bars; 1 if one is missed."""
    starts = [run("ready") for _ in range(3)]
    with model() as url:
        rounds = [
            (run("app", "process", url), run("app", "thread", url), run("bare", url))
            for _ in range(3)
        ]
    child, thread, alone = ([each[place] for each in rounds] for place in range(3))
    added = [each["busy"][1] - each["rest"][1] for each in child]
    print(
        f"{RECORDS} records, concurrency {CONCURRENCY}, {MODEL_SECONDS * 1e3:.0f} ms a call; medians of 3 rounds"
    )
    ready_in, imported = (median(each[what] for each in starts) for what in ("ready", "imported"))
    print(f"child ready                       {ready_in:6.2f} s      bar: < 4 s")
    print(f"  of which Python's import, alone {imported:6.2f} s")
    for name, rows in (("child", child), ("thread", thread)):
        for what in ("rest", "busy"):
            p50, top = (median(row[what][place] for row in rows) for place in (0, 1))
            print(f"traced call, {name:6} {what}         p50 {p50:6.1f}   p99 {top:8.1f} us")
    print(f"p99 added by judging in the child {median(added):6.1f} us     bar: <= 20 us")
    places = {"child": child, "thread": thread, "bare Ragas": alone}
    pace = {name: median(row["pace"] for row in rows) for name, rows in places.items()}
    for name, each in pace.items():
        share = f"{each / pace['bare Ragas']:5.0%} of bare"
        print(f"pace, {name:12}             {each:6.1f} records/s  {share}   bar: >= 95 %")
    print(f"app has loaded Ragas: child {child[0]['loaded']}, thread {thread[0]['loaded']}; "
          f"still judging when measured: {min(c['pending'] for c in child)} left")  # fmt: skip
    held = ready_in < 4 and median(added) <= 20 and pace["child"] >= 0.95 * pace["bare Ragas"]
    return 0 if held and not child[0]["loaded"] else 1


if __name__ == "__main__":
    parts = {"serve": serve, "app": app, "bare": bare, "ready": ready}
    if len(sys.argv) > 1:
        parts[sys.argv[1]](*sys.argv[2:])
    else:
        sys.exit(main())
