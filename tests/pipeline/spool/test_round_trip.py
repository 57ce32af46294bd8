"""A span that went through the spool is exported and evaluated as if it had not."""

import dataclasses
import marshal

import numpy as np
import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import Chunk, Extraction, Prompt
from llmeval_sdk.exporters.redaction import Redactor
from llmeval_sdk.model import Evaluation, EvaluationEvent, Failure, Target
from llmeval_sdk.model.protocols import BaseExporter, LiveSpans
from llmeval_sdk.model.records import record_of
from llmeval_sdk.pipeline.dispatcher import Privacy
from llmeval_sdk.testing import capture
from llmeval_sdk.tracing.internals import span_data


class Keep(BaseExporter, LiveSpans):
    """A recorder's far end that keeps the live spans."""

    name = "keep"

    def __init__(self):
        self.spans = []
        self.live = self

    def on_end(self, span):
        self.spans.append(span)

    def export(self, batch):
        pass


def finished():
    """Make spans that have something in every field."""
    keep = Keep()
    with capture(exporters=[keep]) as seen:
        with (
            pytest.raises(KeyError),
            llmeval.workflow("extract", session_id="s1", evaluators=["context_precision"]) as span,
        ):
            with llmeval.retrieval("search", request="where?") as step:
                step.retrieved_context = [
                    Chunk("roof", "doc://1", "a", 0.5, 3, "bm25", {"lang": "nl"}),
                    Chunk("wall", score=None, page="iv"),
                ]
            with llmeval.llm("ask", model_name="m", model_provider="p") as step:
                step.annotate(
                    request={"messages": [{"role": "user", "content": "hé \ud800"}]},
                    response="slate",
                    metrics={"input_tokens": 5, "output_tokens": 2},
                    prompt=Prompt("id", "3", "{context}?", variables={"context": "roof"}),
                )
            span.annotate(
                request={"query": "roof?", "history": []},
                response={"answer": "slate"},
                extractions=[Extraction("slate", 1, "HIGH", "of slate"), Extraction(None)],
                value="slate",
                confidence="LOW",
                field_config={"name": "roof", "format": "^s"},
                retrieval={"limits": {"bm25": 2}, "total_before_filter": 9},
                expected_facts=["slate"],
                expected_retrieved_context=[{"doc_uri": "doc://1"}],
                metadata={"deep": [{"a": None, "b": True, "c": 1.5, "d": 1 << 60}]},
                tags={"env": "test"},
            )
            raise KeyError("no roof")
        seen.drain()
    return keep.spans


def through(item, privacy=None):
    privacy = privacy or Privacy(Redactor(), content=True)
    return privacy.unpack(privacy.pack(item))


@pytest.mark.parametrize("index", [0, 1, 2])
def test_every_field_of_a_span_survives(index):
    """Exporters and evaluators get the same SpanData and Record on both sides."""
    span = finished()[index]
    back = through(span)
    assert dataclasses.asdict(span_data(back)) == dataclasses.asdict(span_data(span))
    assert record_of(back, back.gathered) == record_of(span, span.gathered)
    assert record_of(back, back.gathered, retrieved="all") == record_of(
        span, span.gathered, retrieved="all"
    )
    assert back.is_evaluated == span.is_evaluated
    assert back.spec.evaluators == span.spec.evaluators
    assert back.session_id == span.session_id


def test_a_span_without_content_still_says_what_ran_and_how_it_scored():
    """Ids, names, times, tokens, error types and scores stay; no text does."""
    span = finished()[-1]
    record = Privacy(Redactor(), content=False).pack(span)
    back = span_data(Privacy(Redactor(), content=False).unpack(record))
    for text in (b"roof", b"slate", b"doc://", b"no roof", b"s1"):
        assert text not in record
    whole = span_data(span)
    assert (back.span_id, back.name, back.start_ns, back.end_ns, back.usage) == (
        whole.span_id, whole.name, whole.start_ns, whole.end_ns, whole.usage,
    )  # fmt: skip
    assert back.error == Failure("KeyError", "")
    assert [(each.name, each.value) for each in back.evaluations] == [
        (each.name, each.value) for each in whole.evaluations
    ]
    assert back.evaluations


def test_a_submitted_evaluation_keeps_its_id():
    """Delivered twice, it is the same to every backend that takes ids."""
    evaluation = Evaluation("mine", True, "pass", "because", metadata={"n": 1, "tags": {"a": "b"}})
    event = EvaluationEvent("id-1", Target("t", "s", "n", "llm"), evaluation, 42)
    assert through(event) == event


def test_metadata_that_marshal_cannot_write_is_kept_as_far_as_it_goes():
    """An evaluator's own objects leave their type's name, subclasses of builtins their value."""

    class Text(str):
        __slots__ = ()

    metadata = {"text": Text("x"), "object": object(), "ratio": 0.5, "list": [Text("y"), {1}]}
    event = EvaluationEvent("id", Target(), Evaluation("mine", 1.0, metadata=metadata), 0)
    assert through(event).evaluation.metadata == {
        "text": "x", "object": "<object>", "ratio": 0.5, "list": ["y", "<set>"],
    }  # fmt: skip


def test_evaluators_given_as_objects_are_kept_by_name():
    """The process that takes over finds them by the name they are registered under."""

    @llmeval.heuristic
    def short(record):
        return len(record.response) < 9

    keep = Keep()
    with capture(exporters=[keep]):
        with llmeval.workflow("w", evaluators=[short]) as span:
            span.response = "yes"
    assert through(keep.spans[0]).spec.evaluators == ("short",)


@pytest.mark.parametrize("junk", [b"", b"junk", marshal.dumps((1, 2)), marshal.dumps((9, (), ()))])
def test_what_is_no_record_raises(junk):
    """The reader counts it as torn; it never becomes half a span."""
    with pytest.raises(Exception):  # noqa: B017
        Privacy(Redactor(), content=True).unpack(junk)


def test_numbers_of_numpy_do_not_break_it():
    """They are plain numbers once captured."""
    keep = Keep()
    with capture(exporters=[keep]):
        with llmeval.workflow("w") as span:
            span.annotate(metadata={"score": np.float32(0.5), "n": np.int64(3)})
    assert span_data(through(keep.spans[0])).attributes == {"score": 0.5, "n": 3}


def test_a_probability_survives():
    """That of an evaluation an app submitted, and that of one a span was scored with."""
    evaluation = Evaluation("polite", "yes", inclusion_probability=0.5, probability=0.875)
    event = EvaluationEvent("id", Target("t", "s"), evaluation, 5)
    privacy = Privacy(Redactor(), content=True)
    assert privacy.unpack(privacy.pack(event)) == event
    span = finished()[0]
    span.scored = [evaluation]
    (again,) = privacy.unpack(privacy.pack(span)).scored
    assert again == evaluation
