"""The judges' event loop: where it cannot be opened, or is closed, nothing else waits for it."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import registry
from llmeval_sdk.pipeline import judging
from llmeval_sdk.process.threads import DaemonLoop
from llmeval_sdk.testing import capture


@pytest.fixture
def mine(monkeypatch):
    """A judge of the app, and loops that are opened anew at once."""
    monkeypatch.setattr(judging, "BACKOFF_SECONDS", 0.001)

    @llmeval.judge(name="mine")
    async def mine(record, llm):
        if record.request == "close":
            asyncio.get_running_loop().stop()
        return True

    yield mine
    registry.forget("mine")


def ask(request):
    with llmeval.workflow("answer", request=request) as span:
        span.annotate(response="slate")


def ask_until_judged(seen):
    deadline = time.monotonic() + 30
    while not llmeval.stats().judged.get("mine") and time.monotonic() < deadline:
        ask("again")
        seen.drain()
    assert llmeval.stats().judged.get("mine")


@pytest.mark.parametrize(
    "error", [OSError(24, "Too many open files"), RuntimeError("no"), MemoryError()]
)
def test_a_loop_that_cannot_be_opened_is_tried_again(mine, monkeypatch, error):
    """Records are scored and delivered meanwhile, and no record waits for the loop."""
    opened = threading.Event()

    def new_loop():
        if not opened.is_set():
            raise error
        return DaemonLoop()

    monkeypatch.setattr(judging, "DaemonLoop", new_loop)
    monkeypatch.setattr(judging, "READY_SECONDS", 3_600.0)
    options = {"evaluators": [mine], "sampling_rules": [llmeval.SamplingRule(1)]}
    with capture(raise_again=False, **options) as seen:
        for number in range(20):
            ask(str(number))
        stats = seen.drain()
        assert stats.not_run["mine"] == {"no_worker": 20}
        opened.set()
        ask_until_judged(seen)


def test_a_loop_that_somebody_closes_is_replaced(mine, monkeypatch):
    """What ran on it is counted, and later records are judged."""
    loops = []

    def new_loop():
        loops.append(DaemonLoop())
        return loops[-1]

    monkeypatch.setattr(judging, "DaemonLoop", new_loop)
    with capture(evaluators=[mine], sampling_rules=[llmeval.SamplingRule(1)]) as seen:
        ask("first")
        seen.drain()
        before = llmeval.stats().judged["mine"]
        loop = loops[0]
        loop.call_soon_threadsafe(lambda: (loop.stop(), loop.call_soon(lambda: None)))
        run_forever = loop.run_forever
        loop.run_forever = lambda: (run_forever(), loop.close())
        ask("close")
        seen.drain()
        deadline = time.monotonic() + 30
        while llmeval.stats().judged["mine"] <= before + 1 and time.monotonic() < deadline:
            ask("again")
            seen.drain()
        assert len(loops) > 1
        assert llmeval.stats().judged["mine"] > before + 1
