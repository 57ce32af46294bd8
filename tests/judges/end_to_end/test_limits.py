"""What judges may use at most holds at the server's door, whoever asks and whatever goes wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time

import llmeval_sdk as llmeval


PROCESS = """
import json, sys
import llmeval_sdk as llmeval
from llmeval_sdk.judges.models import OpenAILLM

url, store, first = sys.argv[1:]
llmeval.configure(
    llm=OpenAILLM("stand-in", base_url=url, api_key="k"), evaluators=["groundedness"],
    escalations=[], heuristics="off", exporters=["memory"], store=store,
    budget=llmeval.Budget(calls_per_minute=25),
)
for number in range(int(first), int(first) + 20):
    with llmeval.workflow("answer", request=f"When was mill {number} built?") as span:
        span.retrieved_context = [{"content": f"Mill {number} was built in 1786."}]
        span.response = "In 1786."
done = llmeval.flush(20)
print(json.dumps({"judged": done.judged, "not_run": {n: dict(r) for n, r in done.not_run.items()}}))
"""


def test_several_processes_share_the_budget_exactly(serve, tmp_path):
    """Of 40 judgements by two processes at once, 25 calls arrive and 15 are over_budget."""
    server = serve()
    store = str(tmp_path / "shared" / "llmeval.db")
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, server.base_url, store, str(first)],
            stdout=subprocess.PIPE,
            text=True,
            env=dict(os.environ),
        )
        for first in (0, 100)
    ]
    told = [json.loads(process.communicate(timeout=50)[0]) for process in running]
    judged = sum(each["judged"].get("groundedness", 0) for each in told)
    refused = sum(each["not_run"].get("groundedness", {}).get("over_budget", 0) for each in told)
    assert (server.calls, judged, refused) == (25, 25, 15)


def test_attempts_are_calls_too(serve, judging, answer):
    """A failing server gets no more requests than the budget has calls, retries included."""
    server = serve(default="unavailable")
    budget = llmeval.Budget(calls_per_minute=7, concurrency=4)
    with judging(server, attempts=3, budget=budget) as seen:
        for number in range(10):
            answer(number)
        stats = seen.drain()
    assert server.calls == 7
    assert sum(stats.not_run["groundedness"].values()) == 10
    assert stats.not_run["groundedness"]["over_budget"] >= 7


def test_steps_of_the_ladder_are_calls_too(serve, judging, answer):
    """A server that knows only text costs the four requests that finding it out took."""
    server = serve(default="text_only")
    with judging(server, budget=llmeval.Budget(calls_per_minute=4)) as seen:
        answer(1)
        seen.drain()
        answer(2)
        stats = seen.drain()
    assert server.calls == 4
    assert stats.judged == {"groundedness": 1}
    assert stats.not_run["groundedness"] == {"over_budget": 1}


def test_refusals_of_the_server_cost_no_tokens(serve, judging, answer):
    """429 is a call, and the tokens reserved for it are free again at once."""
    server = serve(script=["rate_limited"] * 3, retry_after=0.01)
    budget = llmeval.Budget(calls_per_minute=100, tokens_per_minute=8_000)
    with judging(server, attempts=1, budget=budget) as seen:
        for number in range(4):
            answer(number)
            stats = seen.drain()
    assert stats.judged == {"groundedness": 1}
    assert stats.not_run["groundedness"] == {"error": 3}


class Crowd:
    """Answers after a moment and knows how many requests were there at once."""

    def __init__(self):
        self.here = self.peak = 0
        self.lock = threading.Lock()

    def __call__(self, request):
        with self.lock:
            self.here += 1
            self.peak = max(self.peak, self.here)
        time.sleep(0.03)  # the work of a model
        with self.lock:
            self.here -= 1
        return {"rationale": "It is there.", "rating": "yes"}


def test_concurrency_backs_off_on_429_and_recovers(serve, judging, answer):
    """Eight at a time, half of it after a 429 (though its retry succeeded), eight again later."""
    crowd = Crowd()
    server = serve(crowd, retry_after=0.01)
    budget = llmeval.Budget(calls_per_minute=10_000, concurrency=8)
    numbers = iter(range(10_000))

    def peak_of(count, seen):
        crowd.peak = 0
        for _ in range(count):
            answer(next(numbers))
        seen.drain()
        return crowd.peak

    with judging(server, budget=budget) as seen:
        peak_of(1, seen)
        assert peak_of(40, seen) == 8
        server.script.append("rate_limited")
        peak_of(1, seen)
        assert peak_of(6, seen) <= 5  # four at first, five after four successes
        deadline = time.monotonic() + 60
        while (peak := peak_of(20, seen)) < 8 and time.monotonic() < deadline:
            pass
        assert peak == 8
        assert seen.drain().not_run == {}


def test_a_dead_server_is_left_alone_and_probed(serve, judging, answer):
    """After five failures in a row nobody calls, and what is not judged says circuit_open."""
    server = serve(default="error")
    budget = llmeval.Budget(calls_per_minute=10_000, concurrency=1)
    with judging(server, attempts=1, budget=budget) as seen:
        for number in range(20):
            answer(number)
        stats = seen.drain()
    assert stats.not_run["groundedness"] == {"error": 5, "circuit_open": 15}


def test_the_cap_on_money_holds(serve, judging, answer):
    """With prices, a day's money refuses what might not fit, before it is called."""
    server = serve()
    budget = llmeval.Budget(calls_per_minute=None, usd_per_day=0.02, concurrency=1)
    # A call may use 1,024 tokens out: USD 0.01024 are reserved, and about 0.0005 used.
    with judging(server, budget=budget, prices={"stand-in": (0.0, 10.0)}) as seen:
        for number in range(40):
            answer(number)
        stats = seen.drain()
    spent = stats.judge_usage.cost_usd
    assert 0 < spent <= 0.02
    assert stats.not_run.get("groundedness", {}).keys() <= {"over_budget"}


def test_no_judgement_is_left_behind():
    """With one place, what comes in just as the last judgement ends is judged as well."""
    from llmeval_sdk.testing import FakeLLM, capture

    budget = llmeval.Budget(calls_per_minute=10_000, concurrency=1)
    with capture(
        llm=FakeLLM(), evaluators=["relevance_to_query"], heuristics="off", budget=budget
    ) as seen:
        for number in range(300):
            with llmeval.workflow("answer", request=f"question {number}") as span:
                span.response = "an answer"
            if number % 7 == 0:
                time.sleep(number % 3 * 0.001)  # so that some come one by one
        stats = seen.drain(20)
    assert stats.judged == {"relevance_to_query": 300}
