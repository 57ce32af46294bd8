"""What the app does after its first call, while the worker makes the plan of all the rest."""

import threading
from time import monotonic
from typing import NamedTuple

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.exporters import memory
from llmeval_sdk.pipeline import runtime


DEADLINE = 30


class Worker(NamedTuple):
    """The worker's thread, which makes no plan until it is released."""

    has_begun: threading.Event
    may_go_on: threading.Event

    def wait(self):
        """Wait until it has begun, before anybody else wants the plan."""
        assert self.has_begun.wait(DEADLINE)

    def release(self):
        self.wait()
        self.may_go_on.set()


@pytest.fixture
def worker(monkeypatch):
    """Set the SDK up by the environment; the worker waits before it makes the plan."""
    gate, begun, make = threading.Event(), threading.Event(), runtime._make_work_plan
    monkeypatch.setenv("LLMEVAL_EXPORTERS", "memory")

    def wait_and_make(*args):
        begun.set()
        assert gate.wait(DEADLINE)
        return make(*args)

    monkeypatch.setattr(runtime, "_make_work_plan", wait_and_make)
    memory.clear()
    with runtime.isolated():
        yield Worker(begun, gate)
        gate.set()


@llmeval.workflow
def answer(question):
    return "Slate."


def names():
    return [event.evaluation.name for event in memory.evaluations()]


@pytest.mark.parametrize("inline", [True, False])
def test_a_heuristic_that_is_declared_meanwhile_scores(worker, monkeypatch, inline):
    """It is too late for the plan's own look at what the app has declared."""
    make = runtime._make_work_plan

    def make_and_declare(*args):
        made = make(*args)

        @llmeval.heuristic(inline=inline)
        def declared_meanwhile(record):
            return 1.0

        return made

    monkeypatch.setattr(runtime, "_make_work_plan", make_and_declare)
    answer("q")
    worker.release()
    assert llmeval.flush(DEADLINE).complete
    answer("q")
    assert llmeval.flush(DEADLINE).complete
    assert "declared_meanwhile" in names()


def test_a_judge_that_a_rule_awaits_and_that_is_declared_meanwhile_is_asked(worker, monkeypatch):
    """The rule names it before it exists."""
    monkeypatch.setenv("LLMEVAL_JUDGE_MODEL", "gpt-4o")
    monkeypatch.setenv("OPENAI_API_KEY", "no-key")
    monkeypatch.setenv(
        "LLMEVAL_ESCALATIONS",
        '[{"judge": "awaited_meanwhile", "when": "retrieval_risk<2"}]',
    )
    make = runtime._make_work_plan

    def make_and_declare(*args):
        made = make(*args)

        @llmeval.judge
        def awaited_meanwhile(record, llm):
            return 1.0

        return made

    monkeypatch.setattr(runtime, "_make_work_plan", make_and_declare)
    answer("q")
    worker.release()
    assert llmeval.flush(DEADLINE).complete

    @llmeval.workflow
    def look_up(question):
        llmeval.annotate(retrieved_context=["The roof is made of slate."])
        return "Slate."

    look_up("What is the roof made of?")
    assert llmeval.flush(DEADLINE).complete
    assert "awaited_meanwhile" in names()


def test_what_waits_is_undelivered_although_nobody_named_an_exporter(worker, monkeypatch):
    """`flush` says what it leaves, and `stats` for which exporter."""
    monkeypatch.delenv("LLMEVAL_EXPORTERS")
    answer("q")
    stats = llmeval.stats()
    assert (stats.undelivered, list(stats.exporters)) == (1, ["local"])
    assert "1 record" in runtime.pipeline().left(stats)


def test_a_shutdown_that_ends_before_the_plan_is_there_counts_what_it_drops(worker):
    """The worker then finds that nobody waits any more, and delivers nothing."""
    answer("q")
    worker.wait()
    assert not llmeval.shutdown(0.1).complete
    worker.release()
    assert runtime.in_force.pipeline._thread.join(monotonic() + DEADLINE)
    stats = llmeval.stats()
    assert stats.dropped == {"shutdown": 1}
    assert all(account.balanced for account in stats.exporters.values())
    assert memory.spans() == ()


def test_a_span_that_ended_meanwhile_gets_the_scores_that_only_the_plan_knows(worker, monkeypatch):
    """However many spans wait, and whichever of them the app's thread has scored already."""
    monkeypatch.setenv("LLMEVAL_EVALUATORS", "token_f1,latency_seconds")
    for _ in range(3):
        with llmeval.workflow("early") as span:
            span.annotate(response="slate", expected_response="slate")
    worker.release()
    assert llmeval.flush(DEADLINE).complete
    scored = names()
    assert (scored.count("token_f1"), scored.count("latency_seconds")) == (3, 3)


def test_ids_are_hashed_before_anybody_sees_the_pipeline(worker, monkeypatch, tmp_path):
    """An id that a configuration hashes leaves this process in no other form."""
    monkeypatch.setenv("LLMEVAL_HASH_IDS", "1")
    seen = []
    make = runtime._identities

    def look(resolved):
        seen.append((runtime.in_force.pipeline, runtime.state.recorder))
        return make(resolved)

    monkeypatch.setattr(runtime, "_identities", look)
    answer("q")
    assert seen == [(None, None)]
    assert runtime.state.identities is not None
    worker.release()
