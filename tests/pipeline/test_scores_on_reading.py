"""Inline scores are made when the app reads them, else by the worker: the same, and once."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import registry, testing
from llmeval_sdk.heuristics import agreement
from llmeval_sdk.model.protocols import BaseExporter, LiveSpans
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.pipeline.intake import IntakePlan
from llmeval_sdk.pipeline.span_processor import SpanProcessor
from llmeval_sdk.tracing.internals import state


PASSAGES = [
    {"content": "a slate roof", "chunk_id": "1", "score": 0.5},
    {"content": "a tiled roof", "chunk_id": "2", "score": 0.7},
]
AT_ONCE = {"context_relevance", "context_precision", "aggregated_confidence"}


@contextmanager
def no_worker():
    """Take spans in on this thread, with nobody behind it."""
    with testing.capture():
        plan = runtime.pipeline().plan
        state.recorder = SpanProcessor(IntakePlan.of(plan), lambda: True, plan.find)
        yield


@pytest.fixture
def no_tables(monkeypatch):
    """Let this process not have read the tables by which values are compared."""
    monkeypatch.setattr(agreement, "_has_tables", False)


@pytest.fixture
def declare():
    """Declare inline heuristics of the app for the test."""
    names = []

    def make(function):
        names.append(function.__name__)
        return llmeval.heuristic(inline=True)(function)

    yield make
    for name in names:
        registry.forget(name)


def request(*values, passages=PASSAGES):
    with llmeval.workflow("look up", request="roof?") as span:
        with llmeval.retrieval("find") as found:
            found.retrieved_context = passages
        span.annotate(
            response="slate",
            extractions=[
                {"value": value, "chunk_number": number, "confidence": "HIGH"}
                for number, value in enumerate(values or ("slate",), 1)
            ],
        )
    return span, found


def plain(evaluations):
    return {item.name: (item.value, item.label, dict(item.metadata)) for item in evaluations}


def test_nothing_is_scored_on_the_app_s_thread_before_it_is_read():
    """A call that nobody reads scores of costs its thread none."""
    with no_worker():
        span, found = request()
        assert (span.scored, found.scored, span.record) == (None, None, None)
        assert set(span.evaluations) >= AT_ONCE
        assert set(found.evaluations) == {"context_relevance"}


def test_a_retrieval_can_be_read_as_soon_as_it_has_ended():
    """By the span around it, which is open, and by its own."""
    with no_worker(), llmeval.workflow("look up") as span:
        assert not span.evaluations
        with llmeval.retrieval("find") as found:
            found.retrieved_context = PASSAGES
        assert span.evaluations["context_relevance"].value == pytest.approx(0.3)
        assert found.evaluations == span.evaluations


def test_the_captured_values_count_and_not_what_the_app_made_of_them_since():
    """Objects of the app may change, or be large and gone, when somebody reads."""
    passages = [dict(passage) for passage in PASSAGES]
    with no_worker():
        span, found = request(passages=passages)
        for passage in passages:
            passage["score"] = 0.0
        passages.clear()
        assert span.evaluations["context_relevance"].value == pytest.approx(0.3)
        assert found.evaluations["context_relevance"].value == pytest.approx(0.3)


def test_scores_are_made_once():
    """As long as the span lives, whoever reads them gets the same objects."""
    with no_worker():
        span, found = request()
        first, of_retrieval = span.evaluations, found.evaluations
        assert all(span.evaluations[name] is score for name, score in first.items())
        assert all(found.evaluations[name] is score for name, score in of_retrieval.items())


@pytest.mark.parametrize("reads", ["before", "after", "never"])
def test_the_worker_delivers_each_score_once_whoever_made_it(reads):
    """What the app reads is what is delivered, whichever of the two was first."""
    with testing.capture(escalations=[]) as seen:
        span, _ = request("slate", "slate")
        shown = plain(span.evaluations.values()) if reads == "before" else None
        seen.drain()
        shown = plain(span.evaluations.values()) if reads == "after" else shown
        events = [event for event in seen.evaluations if event.target.span_id == span.span_id]
        delivered = plain(event.evaluation for event in events)
        ids = [event.id for event in events]
        (data,) = (data for data in seen.spans if data.span_id == span.span_id)
    assert len(ids) == len(set(ids))
    assert set(delivered) >= AT_ONCE
    assert plain(data.evaluations).keys() <= delivered.keys()
    assert {item.name for item in data.evaluations} >= AT_ONCE
    if shown is not None:
        assert shown == {name: delivered[name] for name in shown}
        assert set(shown) >= AT_ONCE


def test_readers_beside_the_worker_agree_with_it():
    """However many threads read while the worker scores, each score is delivered once."""
    with testing.capture(escalations=[]) as seen:
        spans, read = [], []

        def look():
            read.extend((span.span_id, plain(span.evaluations.values())) for span in list(spans))

        for _ in range(50):
            spans.append(request("slate", "slate")[0])
            threads = [threading.Thread(target=look) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        seen.drain()
        ids = [event.id for event in seen.evaluations]
        delivered = {}
        for event in seen.evaluations:
            delivered.setdefault(event.target.span_id, []).append(event.evaluation)
    assert len(ids) == len(set(ids))
    for span_id, shown in read:
        assert shown.items() <= plain(delivered[span_id]).items()


@pytest.mark.usefixtures("no_tables")
def test_what_needs_tables_is_pending_until_the_worker_has_made_it():
    """The app does not wait 70 ms for them; a pending score is never delivered as such."""
    with no_worker():
        span, _ = request("1,234.50", "1.234,50 EUR")
        shown = span.evaluations["multi_source_agreement"]
        assert (shown.value, shown.label) == (None, "pending")
    with testing.capture(escalations=[]) as seen:
        span, _ = request("1,234.50", "1.234,50 EUR")
        assert span.evaluations
        seen.drain()
        assert span.evaluations["multi_source_agreement"].value == 1.0
        events = [event for event in seen.evaluations if event.target.span_id == span.span_id]
    names = [event.evaluation.name for event in events]
    assert names.count("multi_source_agreement") == names.count("agreement_pattern") == 1
    assert "pending" not in [event.evaluation.label for event in events]


@pytest.mark.usefixtures("no_tables")
def test_the_first_records_that_need_tables_are_all_scored():
    """Also those that ended before the worker had read them."""
    with testing.capture(escalations=[]) as seen:
        spans = [request("1,234.50", "1.234,50 EUR")[0] for _ in range(20)]
        seen.drain()
        scored = [
            event.target.span_id
            for event in seen.evaluations
            if event.evaluation.name == "multi_source_agreement"
        ]
    assert sorted(scored) == sorted(span.span_id for span in spans)


@pytest.mark.usefixtures("no_tables")
@pytest.mark.parametrize("value", [0.5, None])
def test_a_heuristic_of_the_app_runs_on_its_thread_and_once(declare, value):
    """When the span ends, as ever: also where it has nothing to say, or another score waits."""
    threads = []

    def mine(record):
        threads.append(threading.get_ident())
        return value

    declare(mine)
    with testing.capture(escalations=[]) as seen:
        span, _ = request("1,234.50", "1.234,50 EUR")
        assert threads == [threading.get_ident()]
        assert ("mine" in span.evaluations) is (value is not None)
        seen.drain()
        assert ("mine" in seen.scores("look up")) is (value is not None)
        assert seen.scores("look up")["multi_source_agreement"].value == 1.0
    assert len(threads) == 1


def test_values_that_redaction_makes_alike_still_differ():
    """The worker scores what was captured, and redacts the scores with the span."""
    with testing.capture(escalations=[], redact="email") as seen:
        request("ann@example.org", "bob@example.org")
        seen.drain()
        (data,) = (data for data in seen.spans if data.name == "look up")
        assert seen.scores("look up")["multi_source_agreement"].value == 0.5
    assert "ann@example.org" not in str(data.extractions)


def test_a_live_exporter_can_read_the_scores():
    """They are there when it is told that a span has ended."""
    read = {}

    class Live(BaseExporter, LiveSpans):
        name = "live"

        def __init__(self):
            self.live = self

        def on_end(self, span):
            read[span.name] = set(span.evaluations)

        def export(self, batch):
            pass

    @llmeval.retrieval(name="find")
    def find():
        return PASSAGES

    with testing.capture(exporters=[Live()]):
        with llmeval.workflow("look up") as span:
            find()
            span.annotate(extractions=[{"value": "slate", "chunk_number": 1}])
    assert read["find"] == {"context_relevance"}
    assert read["look up"] >= AT_ONCE


def test_a_span_without_its_texts_in_the_spool_is_scored_when_it_ends(tmp_path):
    """A redaction function of the app keeps them out, so that nobody could score it later."""
    with runtime.isolated():
        llmeval.configure(exporters=["memory"], spool=str(tmp_path), worker="off", redact=str.strip)
        kept, _ = request()
        assert {evaluation.name for evaluation in kept.scored} >= AT_ONCE
