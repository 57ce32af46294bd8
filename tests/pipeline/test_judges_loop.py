"""The judges' event loop: where it cannot be opened, or is closed, nothing else waits for it."""

from __future__ import annotations

import os
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
        return True

    yield mine
    registry.forget("mine")


def ask(request):
    with llmeval.workflow("answer", request=request) as span:
        span.annotate(response="slate")


def ask_until_judged(seen):
    deadline = time.monotonic() + 60
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


def stopped_and_closed(loop):
    """Have a loop end as if somebody had stopped and closed it."""
    loop.run_forever = loop.close
    loop.call_soon_threadsafe(loop.stop)


def closed_with_its_files(loop):
    """Close what a daemon closes when it begins."""
    os.close(loop._selector.fileno())
    loop._write_to_self()


@pytest.mark.parametrize("close", [stopped_and_closed, closed_with_its_files])
def test_a_loop_that_somebody_closes_is_replaced(mine, monkeypatch, close):
    """What ran on it is counted, and later records are judged."""
    loops = []

    def new_loop():
        loops.append(DaemonLoop())
        return loops[-1]

    monkeypatch.setattr(judging, "DaemonLoop", new_loop)
    options = {"evaluators": [mine], "sampling_rules": [llmeval.SamplingRule(1)]}
    with capture(raise_again=False, **options) as seen:
        ask("first")
        seen.drain()
        before = llmeval.stats().judged["mine"]
        close(loops[0])
        deadline = time.monotonic() + 60
        while len(loops) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        while llmeval.stats().judged["mine"] <= before and time.monotonic() < deadline:
            ask("again")
            seen.drain()
        assert len(loops) == 2
        assert llmeval.stats().judged["mine"] > before
