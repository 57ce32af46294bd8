"""What is written is what is read."""

from contextlib import closing
from dataclasses import fields

import pytest

from llmeval_sdk.model import (
    Batch,
    Chunk,
    Evaluation,
    Extraction,
    Failure,
    NotRun,
    Prompt,
    SpanData,
    Target,
    Usage,
)
from llmeval_sdk.store.reader import StoreReader


FULL = {
    "parent_id": "00000000000000aa",
    "kind": "llm",
    "request": {"messages": [{"role": "user", "content": "Which roof? 屋根 🏠"}]},
    "response": "tiled\n\x00and flat",
    "retrieved_context": (
        Chunk("a passage", "a.pdf", "a#1", 0.8, 3, "bm25", {"lang": "de"}),
        Chunk(doc_uri="b.pdf", page="iv"),
    ),
    "extractions": (Extraction("tiled", 1, "HIGH", "a tiled roof"), Extraction([1, None], 2, 0.4)),
    "error": Failure("ValueError", "no roof"),
    "attributes": {"retrieval": {"limits": {"bm25": 20}}, "deep": [[{"a": None}]], "n": 1e-300},
    "metrics": {"rows": 3.0},
    "tags": {"env": "prod"},
    "prompt": Prompt(
        "p1", "2", "{context} {q}", ({"role": "user", "content": "x"},), {"q": 1},
        ("context", "more"), ("q",), {"team": "a"},
    ),
    "usage": Usage(10, 20, 30, 0.001),
    "session_id": "s-1",
    "model_name": "m",
    "model_provider": "p",
    "links": (Target("ab" * 16, "cd" * 8, "answer", "workflow"), Target()),
    "trace_flags": 0,
    "expected": {
        "expected_facts": ("tiled", "red"),
        "expected_response": "a red tiled roof",
        "expected_retrieved_context": (Chunk("x", "a.pdf"), Chunk(doc_uri="b.pdf")),
    },
    "value": ["tiled", 3],
    "confidence": 0.8,
    "field_config": {"name": "roof", "format": "^t"},
    "retrieval": {"limits": {"bm25": 20}, "total_before_filter": 60},
    "outside_parent": True,
    "inclusion_probability": 0.25,
}  # fmt: skip


def read(writer):
    return closing(StoreReader(writer.path))


def test_every_field_of_a_span_comes_back(writer, make):
    """A span that has everything is read as it was written."""
    span = make.span(**FULL)
    given = {*FULL, "trace_id", "span_id", "name", "start_ns", "end_ns"}
    assert given == {each.name for each in fields(SpanData)} - {"evaluations", "context"}
    writer.write(Batch((span,)))
    with read(writer) as reader:
        assert reader.span(span.span_id) == span
        assert reader.trace(span.trace_id) == (span,)


def test_absent_and_empty_stay_apart(writer, make):
    """An empty list of chunks is not an absent one, and an empty answer is not none."""
    absent = make.span()
    empty = make.span(retrieved_context=(), extractions=(), request="", response={})
    writer.write(Batch((absent, empty)))
    with read(writer) as reader:
        assert reader.span(absent.span_id) == absent
        assert reader.span(empty.span_id) == empty


@pytest.mark.parametrize("value", [0.25, 0.0, True, False, "HIT_RETRIEVAL_LIMIT", "yes", "", None])
def test_every_kind_of_value_comes_back_as_its_own_type(writer, make, value):
    """Scores, booleans, categories and not-applicable stay what they were."""
    span = make.span()
    event = make.evaluation(span, value=value)
    writer.write(Batch(evaluations=(event,)))
    with read(writer) as reader:
        (found,) = reader.evaluations_of(span.span_id)
    assert found == event
    assert type(found.evaluation.value) is type(value)


def test_every_field_of_an_evaluation_comes_back(writer, make):
    """An evaluation that has everything is read as it was written."""
    event = make.evaluation(
        make.span(),
        value=None,
        label="good",
        explanation="because\nof it",
        error=Failure("malformed", "no JSON"),
        metadata={"ratings": ["yes", None], "flag": True},
        evaluator_kind="judge",
        evaluator_version="3",
        duration=0.25,
        usage=Usage(1, 2, 3),
        inclusion_probability=0.02,
        probability=0.75,
    )
    assert {
        f.name for f in fields(Evaluation) if getattr(event.evaluation, f.name) != f.default
    } == {f.name for f in fields(Evaluation)} - {"value"}
    writer.write(Batch(evaluations=(event,)))
    with read(writer) as reader:
        assert reader.evaluations_of(event.target.span_id) == (event,)


def test_a_judge_that_did_not_run_comes_back(writer, make):
    """Reason, detail and target of a judge that did not run are kept."""
    event = make.not_run(make.span(), reason="over_budget", detail="60 of 60 calls")
    writer.write(Batch(not_run=(event,)))
    with read(writer) as reader:
        assert reader.not_run_of(event.target.span_id) == (event,)
        assert isinstance(reader.not_run_of(event.target.span_id)[0], NotRun)


def test_what_people_said_stands_apart_from_what_evaluators_said(writer, make):
    """A human label goes to the feedback table and does not mix with scores."""
    span = make.span()
    label = make.evaluation(span, "helpful", True, evaluator_kind="human")
    writer.write(Batch((span,), (label,)))
    with read(writer) as reader:
        assert reader.feedback_of(span.span_id) == (label,)
        assert reader.evaluations_of(span.span_id) == ()
        assert reader.recent_scores("helpful") == []


def test_an_evaluation_outside_any_span_is_kept(writer, make):
    """An evaluation without a target is stored, and read with no target."""
    writer.write(Batch(evaluations=(make.evaluation(None, id="a"), make.evaluation(None, id="b"))))
    with read(writer) as reader:
        assert [event.id for event in reader.evaluations_of("")] == ["a", "b"]
        assert reader.evaluations_of("")[0].target == Target()


def test_a_batch_delivered_twice_stands_once(writer, make):
    """Delivery is at least once; the store holds each record once."""
    span = make.span()
    batch = Batch((span,), (make.evaluation(span),), (make.not_run(span),))
    writer.write(batch)
    writer.write(batch)
    with read(writer) as reader:
        counts = reader.counts()
    assert (counts.spans, counts.evaluations, counts.not_run) == (1, 1, 1)


def test_a_later_evaluation_of_the_same_id_replaces_the_earlier_one(writer, make):
    """An evaluation that is submitted again under its id is the one that stays."""
    span = make.span()
    writer.write(Batch(evaluations=(make.evaluation(span, value=0.1, id="x"),)))
    writer.write(Batch(evaluations=(make.evaluation(span, value=0.9, id="x"),)))
    with read(writer) as reader:
        assert [event.evaluation.value for event in reader.evaluations_of(span.span_id)] == [0.9]


def test_spans_of_one_id_in_two_traces_are_two(writer, make):
    """Spans are keyed by trace and span."""
    one, other = make.span(span_id="ab" * 8), make.span(span_id="ab" * 8)
    writer.write(Batch((one, other)))
    with read(writer) as reader:
        assert reader.span("ab" * 8) == other
        assert reader.span("ab" * 8, one.trace_id) == one


@pytest.mark.parametrize("size", [1, 7, 64, 127, 500, 501, 1_203])
def test_batches_of_any_size_are_written_whole(writer, make, size):
    """However many rows a statement takes, none is left out."""
    spans = tuple(make.span() for _ in range(size))
    writer.write(Batch(spans, tuple(make.evaluation(span) for span in spans)))
    with read(writer) as reader:
        assert reader.counts().spans == reader.counts().evaluations == size
