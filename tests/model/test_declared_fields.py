"""A field that is declared is on every path a span takes; one that is forgotten fails here."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest

from llmeval_sdk.cli import main
from llmeval_sdk.exporters.redaction import Redactor
from llmeval_sdk.model import (
    Batch,
    Chunk,
    Evaluation,
    Extraction,
    Failure,
    Prompt,
    SpanData,
    Target,
    Usage,
)
from llmeval_sdk.model.records import PROMPTED
from llmeval_sdk.model.span_fields import DATA_FIELDS, SPAN_FIELDS, STORED_FIELDS, Form
from llmeval_sdk.offline.data.spans import read_span
from llmeval_sdk.pipeline.dispatcher import Privacy
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.writer import StoreWriter
from llmeval_sdk.tracing import Span, _finished
from llmeval_sdk.tracing._span import Spec
from llmeval_sdk.tracing.internals import adopted, from_plain, span_data, to_plain


CHUNKS = (Chunk("A roof.", "doc", "c1", 0.5, 3, "bm25", {"lang": "nl"}),)
LIBRARY = object()
SAMPLES = {
    Form.TEXT: lambda field: f"some {field.name}",
    Form.NUMBER: lambda field: 7 + len(field.name),
    Form.CHANCE: lambda field: 0.25,
    Form.FLAG: lambda field: True,
    Form.VALUE: lambda field: {"any": [field.name, 1, None]},
    Form.MAPPING: lambda field: {field.name: 0.5},
    Form.FAILURE: lambda field: Failure("KeyError", "no roof"),
    Form.USAGE: lambda field: Usage(5, 2, 7, 0.25),
    Form.LINKS: lambda field: (Target("ab" * 16, "cd" * 8, "judged", "workflow"),),
    Form.PROMPT: lambda field: Prompt("id", "3", "{context}?", variables={"context": "roof"}),
    Form.EXPECTED: lambda field: {
        "expected_facts": ("slate",),
        "expected_retrieved_context": CHUNKS,
    },
    Form.EXTRACTIONS: lambda field: (Extraction("slate", 1, 0.8, "a slate roof"),),
    Form.CHUNKS: lambda field: CHUNKS,
    Form.EVALUATIONS: lambda field: (Evaluation("score", 0.5, explanation="why"),),
    Form.OBJECT: lambda field: {"library": LIBRARY},
}
EXACT = {"trace_id": "ab" * 16, "span_id": "cd" * 8, "parent_id": "ef" * 8, "kind": "llm"}
LIVE_ONLY = {"_perf_ns", "fate", "held", "live", "owner", "parent", "record", "room", "scored_for"}
"""Slots that mean something while the span is open, or to the process that made it."""


def full():
    """Return a span with something in every declared field."""
    values = {field.name: SAMPLES[field.form](field) for field in DATA_FIELDS}
    return SpanData(**{**values, **EXACT})


def same(one, other, *, but=()):
    """Compare field by field, so that a failure names the field that was forgotten."""
    lost = {
        field.name: (getattr(one, field.name), getattr(other, field.name))
        for field in DATA_FIELDS
        if field.name not in but and getattr(one, field.name) != getattr(other, field.name)
    }
    assert lost == {}


def live():
    """Return the live span of which `full` is the data."""
    data = full()
    span = adopted(data, evaluators=("one",))
    span.scored, span.context = list(data.evaluations), data.context
    return span


def test_the_declaration_the_data_and_the_live_span_name_the_same_fields():
    """`SpanData` has each declared field and no other, and so has the live span."""
    assert {field.name for field in DATA_FIELDS} == {field.name for field in fields(SpanData)}
    read_from_fate = {"inclusion_probability"}
    slots = {field.slot for field in SPAN_FIELDS} - read_from_fate
    assert slots == set(Span.__slots__) - LIVE_ONLY


def test_every_field_goes_from_the_live_span_to_the_exporters():
    """What is declared as content, and only that, stays behind where content is not captured."""
    span = live()
    same(span_data(span), full())
    bare, empty = span_data(span, content=False), SpanData("", "", None, "", "task", 0, 0)
    for field in DATA_FIELDS:
        if field.is_content:
            assert getattr(bare, field.name) == getattr(empty, field.name), field.name
        elif field.form not in (Form.FAILURE, Form.CHUNKS, Form.EVALUATIONS):  # these are trimmed
            assert getattr(bare, field.name) == getattr(full(), field.name), field.name


def test_every_field_survives_the_portable_form():
    """Spool files hold all but links and live objects, which belong to the process."""
    back = from_plain(to_plain(live()))
    same(span_data(back), full(), but=("links", "context"))


def test_every_field_survives_a_redaction():
    """What the app's own function leaves alone arrives as it was."""
    span = live()
    changed, done = Privacy(
        Redactor(custom=lambda text: text.replace("roof", "house")), content=True
    ).redact(span)
    assert done
    assert changed is not span
    assert "house" in str(changed.error)
    mentions = [f.name for f in DATA_FIELDS if "roof" in str(getattr(full(), f.name))]
    same(span_data(changed), full(), but=mentions)


def test_a_span_of_an_older_release_is_read_and_a_shorter_one_is_none():
    """Plain values that were added since are absent; what never was a span still raises."""
    (known, *apart), content = to_plain(live())
    older = ((known[:8], *apart), (content[0][:10], *content[1:]))
    same(span_data(from_plain(older)), full(), but=("links", "context", *ADDED_SINCE))
    with pytest.raises(ValueError, match="no span"):
        from_plain(((known[:7], *apart), content))


ADDED_SINCE = [
    field.name
    for field in DATA_FIELDS
    if field.slot in (*_finished._KNOWN[8:], *_finished._CONTENT[10:])
]
"""Plain fields that were declared after the first release."""


@pytest.fixture
def path(tmp_path):
    writer = StoreWriter(tmp_path / "spans.db", max_days=0)
    writer.write(Batch((full(),)))
    writer.close()
    return tmp_path / "spans.db"


def test_every_field_survives_the_store(path):
    """All that is declared as stored comes back."""
    with StoreReader(path) as reader:
        (back,) = reader.trace(EXACT["trace_id"])
    same(back, full(), but=[f.name for f in DATA_FIELDS if f not in STORED_FIELDS])


def test_every_field_survives_an_export(path, tmp_path):
    """Exported rows are read back as the span; links are not evaluated, and stay text."""
    lines, table = tmp_path / "spans.jsonl", tmp_path / "spans.parquet"
    assert main(["export", "--store", str(path), "--out", str(lines)]) == 0
    row = json.loads(lines.read_text("utf-8"))
    assert row["links"]
    expected = {name: row[name] for name in ("expected_facts", "expected_retrieved_context")}
    left_out = [f.name for f in DATA_FIELDS if f not in STORED_FIELDS or f.form is Form.LINKS]
    same(read_span({**row, "expected": expected}), full(), but=left_out)
    pytest.importorskip("pyarrow")
    from pyarrow.parquet import read_table

    assert main(["export", "--store", str(path), "--out", str(table)]) == 0
    columns = read_table(table).to_pylist()[0]
    parts = {
        "error": "error_type", "usage": "input_tokens", "start_ns": "start_time",
        "end_ns": "duration_seconds",
    }  # fmt: skip
    missing = [
        field.name
        for field in STORED_FIELDS
        if columns.get(parts.get(field.name, field.name)) is None
        and field.name != "trace_flags"  # a bit of the protocol, which no analysis reads
    ]
    assert missing == []


def test_a_field_is_written_in_the_form_it_declares():
    """Samples differ from what an empty span has, or the tests above could not fail."""
    empty = SpanData("", "", None, "", "task", 0, 0)
    same_as_empty = [
        field.name
        for field in DATA_FIELDS
        if getattr(full(), field.name) == getattr(empty, field.name)
    ]
    assert same_as_empty == []


def test_a_prompt_that_a_call_left_goes_through_the_spool_as_its_passages():
    """The request above it is judged after a crash as it would have been before."""
    span = live()
    span.collect({PROMPTED: Prompt(variables={"context": ["A slate roof.", "A tin shed."]})})
    again = from_plain(json.loads(json.dumps(to_plain(span))))
    assert [chunk.content for chunk in again.gathered[0][PROMPTED]] == [
        "A slate roof.", "A tin shed.",
    ]  # fmt: skip


def test_a_chance_stands_at_every_span_of_its_trace():
    """What is decided for one of them is said of those that ended before, and of later ones."""
    spec = Spec("task", "step")
    root = Span(spec, None)
    step = Span(spec, root)
    root.fate.append(0.25)
    late, other = Span(spec, step), Span(spec, None)
    assert [span_data(span).inclusion_probability for span in (root, step, late)] == [0.25] * 3
    assert span_data(other).inclusion_probability is None


@pytest.mark.parametrize("chance", ["0.5", 0, 0.0, -1, 1.5, float("nan"), True, [0.5]])
def test_a_chance_that_is_none_is_not_read(chance):
    """Sums are divided by it, so that what a stranger wrote there has to be a chance."""
    assert read_span({"start_ns": 0, "inclusion_probability": chance}).inclusion_probability is None
