"""What an app's evaluator, or the app itself, says with a score is bounded and counted."""

from __future__ import annotations

import threading
import time

import pytest
from plans import change_plan

import llmeval_sdk as llmeval
from llmeval_sdk import registry, testing


def doubled(leaf):
    """Return a value of forty lists that unfolds into a million millions of items."""
    for _ in range(40):
        leaf = [leaf, leaf]
    return leaf


@pytest.mark.parametrize("leaf", [1.5, "x", {}, {"a": None}])
@pytest.mark.parametrize("kind", ["inline", "background", "judge"])
def test_metadata_that_unfold_are_left_out(kind, leaf):
    """The score stays, and the metadata say what was left out."""
    score = llmeval.Evaluation("mine", 0.5, metadata={"value": doubled(leaf)})
    if kind == "judge":

        @llmeval.judge(name="mine")
        async def mine(record, llm):
            return score
    else:

        @llmeval.heuristic(name="mine", inline=kind == "inline")
        def mine(record):
            return score

    try:
        with testing.capture(evaluators=[mine], sampling_rules=[llmeval.SamplingRule(1)]) as seen:
            with llmeval.workflow("answer", request="roof?") as span:
                span.annotate(response="slate")
            seen.drain()
        evaluation = seen.scores("answer")["mine"]
    finally:
        registry.forget("mine")
    assert evaluation.value == 0.5
    assert "metadata, of more than" in evaluation.metadata["left_out"]


def test_what_waits_is_bounded_by_its_size():
    """Large metadata count with their size while an exporter takes nothing; the rest is dropped."""
    release = threading.Event()

    class Stuck:
        name = "stuck"

        def export(self, batch):
            release.wait(30)

        def flush(self, timeout):
            pass

        def close(self, timeout):
            pass

    @llmeval.heuristic
    def mine(record):
        return llmeval.Evaluation("mine", 0.5, metadata={"value": "x" * 500_000})

    def stuck_drops():
        return llmeval.stats().exporters["stuck"].dropped.get("exporter_full", 0)

    try:
        with testing.capture(exporters=[Stuck()], escalations=[]) as seen:
            change_plan(queue_bytes=4_000_000)
            for _ in range(40):
                with llmeval.workflow("answer", request="roof?") as span:
                    span.annotate(response="slate")
            deadline = time.monotonic() + 60
            while stuck_drops() < 20 and time.monotonic() < deadline:
                release.wait(0.01)
            release.set()
            account = seen.drain().exporters["stuck"]
    finally:
        registry.forget("mine")
    assert account.dropped["exporter_full"] >= 20
    assert account.balanced


LONG = 5_000_000


def test_long_texts_of_an_evaluator_are_cut():
    """Explanation, label and value of an app's evaluator keep 131,072 characters and say so."""

    @llmeval.heuristic
    def mine(record):
        return llmeval.Evaluation("mine", "v" * LONG, label="l" * LONG, explanation="e" * LONG)

    try:
        with testing.capture(evaluators=[mine]) as seen:
            with llmeval.workflow("answer", request="roof?") as span:
                span.annotate(response="slate")
            seen.drain()
        score = seen.scores("answer")["mine"]
    finally:
        registry.forget("mine")
    for text in (score.value, score.label, score.explanation):
        assert text.endswith(f"<truncated {LONG - (1 << 17)} characters>")
        assert len(text) < (1 << 17) + 50


def test_long_texts_of_feedback_are_cut():
    """A person's words, which anybody may send, are captured as the texts of a span are."""
    with testing.capture() as seen:
        with llmeval.workflow("answer", request="roof?") as span:
            span.annotate(response="slate")
        llmeval.submit_feedback(
            label="mine", value="v" * LONG, span=span, reasoning="r" * LONG, assessment="a" * LONG,
            metadata={"more": ["m" * 100_000] * 100},
        )  # fmt: skip
        seen.drain()
    said = seen.scores("answer")["mine"]
    texts = [said.value, said.label, said.explanation, *said.metadata["more"]]
    assert all("<truncated" in text for text in (said.value, said.label, said.explanation))
    assert sum(map(len, texts)) < (1 << 20) + 10_000


def test_scores_of_the_app_wait_with_their_size():
    """The bound of what may wait is one of bytes: four hundred large ones do not fit."""
    entered, release = threading.Event(), threading.Event()

    @llmeval.heuristic
    def slow(record):
        entered.set()
        release.wait(30)
        return 1.0

    def ask():
        with llmeval.workflow("answer", request="roof?") as span:
            span.annotate(response="slate")
        return span

    try:
        with testing.capture(evaluators=[slow]) as seen:
            span = ask()
            assert entered.wait(30)  # the worker is held up from here on
            words = "r " * (1 << 16)
            for _ in range(400):
                llmeval.submit_feedback(label="mine", value=1.0, span=span, reasoning=words)
            dropped = llmeval.stats().dropped["queue_full"]
            release.set()
            seen.drain()
    finally:
        registry.forget("slow")
    assert dropped >= 400 - 256  # so many of 128 KB are 32 MB
