"""Metadata of an app's evaluator are bounded, however few objects they are made of."""

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
