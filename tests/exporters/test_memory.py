"""The memory exporter: what was exported, for notebooks and tests."""

import os
import threading

import pytest

from llmeval_sdk.exporters import memory
from llmeval_sdk.model import Batch, Evaluation, EvaluationEvent, NotRun, SpanData, Target
from llmeval_sdk.registry import exporter_factory


def span(number):
    return SpanData("ab" * 16, f"{number:016x}", None, "answer", "workflow", 1, 2)


SCORE = EvaluationEvent("x", Target(), Evaluation("p", 0.5), 3)
SKIPPED = NotRun("y", Target(), "safety", "not_sampled", "", 4)


@pytest.fixture(autouse=True)
def _forget():
    memory.clear()
    yield
    memory.clear()


def test_what_was_exported_is_there_in_order():
    """Spans, evaluations and judges that did not run, of all exporters of the process."""
    exporter_factory("memory")(None).export(Batch((span(1), span(2)), (SCORE,), (SKIPPED,)))
    memory.MemoryExporter().export(Batch((span(3),)))
    assert memory.spans() == (span(1), span(2), span(3))
    assert memory.evaluations() == (SCORE,)
    assert memory.not_run() == (SKIPPED,)


def test_clear_forgets():
    """A test starts with nothing."""
    memory.MemoryExporter().export(Batch((span(1),), (SCORE,), (SKIPPED,)))
    memory.clear()
    assert memory.spans() == memory.evaluations() == memory.not_run() == ()


def test_memory_is_bounded():
    """The latest records stay."""
    exporter = memory.MemoryExporter()
    for start in range(0, memory.MAX_RECORDS + 500, 500):
        exporter.export(Batch(tuple(span(start + n) for n in range(500))))
    kept = memory.spans()
    assert len(kept) == memory.MAX_RECORDS
    assert kept[-1] == span(memory.MAX_RECORDS + 499)


def test_reading_while_batches_arrive_is_safe():
    """A reader never sees a changing collection."""
    exporter = memory.MemoryExporter()
    ending = threading.Event()

    def export():
        while not ending.is_set():
            exporter.export(Batch((span(1),) * 50))

    thread = threading.Thread(target=export)
    thread.start()
    try:
        for _ in range(300):
            assert len(memory.spans()) % 50 == 0
    finally:
        ending.set()
        thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform cannot fork")
def test_a_child_starts_with_nothing():
    """What the parent received is the parent's."""
    exporter = memory.MemoryExporter()
    exporter.export(Batch((span(1),)))
    pid = os.fork()
    if pid == 0:
        exporter.after_fork()
        os._exit(len(memory.spans()))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert len(memory.spans()) == 1
