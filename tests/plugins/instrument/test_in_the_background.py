"""A call is read in the background, unless somebody needs what it tells the moment a span ends."""

import threading

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import registry
from llmeval_sdk.testing import capture
from llmeval_sdk.tracing import _capture


@pytest.fixture(autouse=True)
def _instrumented():
    llmeval.instrument("openai")


@pytest.fixture
def reading_threads(monkeypatch):
    """The threads that copied the answer of a call."""
    threads, copy = set(), _capture.capture

    def capture_and_note(value, *args):
        if value == "Slate.":
            threads.add(threading.get_ident())
        return copy(value, *args)

    for module in ("llmeval_sdk.tracing._finished", "llmeval_sdk.tracing.foreign.reading"):
        monkeypatch.setattr(f"{module}.capture", capture_and_note)
    return threads


def answered(ask):
    with (
        llmeval.annotation_context(tags={"release": "v7"}),
        llmeval.workflow("request", request="Which roof?", session_id="s1") as span,
        llmeval.task("step") as step,
    ):
        ask()
    return span, step


def test_a_call_inside_a_workflow_is_read_in_the_background(ask, seen, records, reading_threads):
    """Its tokens, messages, tags and session are the same as if the app had waited for them."""
    _, step = answered(ask)
    seen.drain()
    call = seen.span("ChatCompletion")
    assert reading_threads
    assert threading.get_ident() not in reading_threads
    assert [record.usage.total_tokens for record in records] == [7]
    assert (call.parent_id, call.session_id, call.tags) == (step.span_id, "s1", {"release": "v7"})


def test_a_heuristic_that_runs_inline_sees_the_tokens_of_calls(ask):
    """What the app reads right after its workflow ended holds what the calls used."""

    @llmeval.heuristic(inline=True)
    def tokens(record: llmeval.Record) -> float:
        return record.usage.total_tokens

    try:
        with capture():
            span, _ = answered(ask)
            assert span.evaluations["tokens"].value == 7
    finally:
        registry.forget("tokens")


def test_a_score_that_the_app_asks_for_counts_the_calls_so_far(ask):
    """A call that still waits to be read is read before, and counted and exported once."""
    with capture() as seen:
        with llmeval.workflow("request", evaluators=["total_token_count"]) as span:
            ask()
            ask()
            assert span.evaluate("total_token_count").value == 14
            ask()
        seen.drain()
        assert [call.name for call in seen.spans].count("ChatCompletion") == 3
        assert seen.span("request").evaluations[0].value == 14


def test_a_step_that_is_evaluated_passes_tokens_on(ask, records):
    """They count for the step and for the request above it."""
    with capture() as seen:
        with llmeval.workflow("request"), llmeval.task("step", evaluators=["what_was_seen"]):
            ask()
        seen.drain()
        assert {record.span_name: record.usage.total_tokens for record in records} == {
            "request": 7,
            "step": 7,
        }


def test_the_spool_keeps_the_tokens_of_calls(ask, tmp_path):
    """A span is copied the moment it ends, so that what is below it is read before."""
    with capture(spool=str(tmp_path / "spool")) as seen:
        span, _ = answered(ask)
        assert span.gathered
        seen.drain()
        assert seen.span("ChatCompletion").usage.total_tokens == 7
