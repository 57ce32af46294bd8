"""A ledger on a network disk that is dead: its calls do not come back, and the app goes on."""

import threading

import pytest
from services import eventually

import llmeval_sdk as llmeval
from llmeval_sdk.evaluation import limiter
from llmeval_sdk.evaluation.limiter import MemoryLedger
from llmeval_sdk.pipeline import planning, runtime
from llmeval_sdk.testing import FakeLLM


class NetworkDisk(MemoryLedger):
    """Stands in for a ledger on a disk of another machine: none of its calls ends while it is dead."""

    path = "/mnt/apps/llmeval.ledger"

    def __init__(self):
        super().__init__()
        self.is_alive = threading.Event()
        self.is_asked = threading.Event()

    def update(self, change, /):
        self.is_asked.set()
        self.is_alive.wait()
        return super().update(change)

    def close(self):
        self.is_alive.wait()


@pytest.fixture
def disk(monkeypatch, tmp_path):
    disk = NetworkDisk()
    monkeypatch.setattr(planning, "_ledger_of", lambda settings: disk)
    monkeypatch.setattr(limiter, "SILENT_SECONDS", 0.0)
    llmeval.configure(
        exporters=["memory"], store=str(tmp_path / "llmeval.db"), shutdown_timeout=0.1,
        llm=FakeLLM(), evaluators=["relevance_to_query"],
    )  # fmt: skip
    yield disk
    disk.is_alive.set()
    llmeval.shutdown()


def ask():
    with llmeval.workflow("ask", request="How heavy is it?") as span:
        span.annotate(response="It weighs 7 kg.")


def not_run():
    return runtime.stats().not_run.get("relevance_to_query", {})


def test_judgements_that_a_dead_ledger_cannot_pay_for_are_counted(disk):
    """They are counted as no_ledger, and the reason names the file, instead of waiting for ever."""
    ask()
    assert disk.is_asked.wait(30)

    def one_more():
        ask()
        return not_run().get("no_ledger")

    eventually(one_more)
    assert runtime.stats().pending_judgements >= 1  # the one that has asked the disk
    silence = runtime.pipeline().plan.limiter.silence
    assert silence.startswith("/mnt/apps/llmeval.ledger has not answered")


def test_a_process_ends_although_its_ledger_is_dead(disk):
    """The thread that ends the process never touches the ledger, and what waited is counted."""
    ask()
    assert disk.is_asked.wait(30)
    stats = llmeval.shutdown()
    assert not disk.is_alive.is_set()
    assert stats.not_run == {"relevance_to_query": {"shutdown": 1}}


def test_judging_goes_on_once_the_disk_answers(disk):
    """A ledger that answers again grants what had waited, and closes with the process."""
    ask()
    assert disk.is_asked.wait(30)
    disk.is_alive.set()
    assert llmeval.flush(30).judged == {"relevance_to_query": 1}
    assert llmeval.shutdown().complete
