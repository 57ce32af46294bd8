"""Spans as the fields of a Record: from the local store, and from the JSON of a trace.

Traces of MLflow 2.x and 3.x, of OTLP and of our own are understood. The attributes of other
libraries are read by `llmeval_sdk.tracing.foreign`, which also reads them online.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

from llmeval_sdk.judges.models.prices import total
from llmeval_sdk.model import JUDGE_TAG, Chunk, Failure, Record, SpanData
from llmeval_sdk.model.chat import to_answer
from llmeval_sdk.model.fields import to_chance, to_chunks, to_extractions, to_prompt, to_usage
from llmeval_sdk.model.records import OWNERS, Spent, record_of, rolled_up, spent_by, with_steps
from llmeval_sdk.model.span_fields import DATA_FIELDS, Form
from llmeval_sdk.store.dump import DumpScope, dump
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.tracing.foreign import conventions, messages
from llmeval_sdk.tracing.foreign.files import Left, foreign, hung, mlflow_span, scoped, span_of
from llmeval_sdk.tracing.foreign.reading import (
    ForeignSpan,
    answered,
    contributions_to,
    naming_its_model,
)


_CHUNK = frozenset(field.name for field in fields(Chunk))


def own_chunks(value: object) -> tuple[Chunk, ...] | None:
    """Read chunks as `SpanData` has them; those of another shape as `to_chunks` reads them."""
    if isinstance(value, (list, tuple)):
        return to_chunks([_own_chunk(item) for item in value])
    return to_chunks(value)


def _own_chunk(item: object) -> Any:
    if isinstance(item, dict) and _CHUNK.issuperset(item):
        metadata, text = item.get("metadata"), item.get("content") or item.get("doc_uri")
        if isinstance(text, str) and (metadata is None or isinstance(metadata, dict)):
            return Chunk(**item)
    return item


def _mapping(value: object) -> Mapping[str, Any] | None:
    return value if isinstance(value, Mapping) else None


def _failure(value: object) -> Failure | None:
    if not isinstance(value, Mapping):
        return None
    return Failure(str(value.get("type") or "error"), str(value.get("message") or ""))


def _expected(value: object) -> Mapping[str, Any] | None:
    if not isinstance(value, Mapping):
        return None
    expected = dict(value)
    if isinstance(expected.get("expected_facts"), list):
        expected["expected_facts"] = tuple(expected["expected_facts"])
    if "expected_retrieved_context" in expected:
        expected["expected_retrieved_context"] = own_chunks(expected["expected_retrieved_context"])
    return expected


def _as_it_is(value: object) -> Any:
    return value


_READERS: dict[Form, Callable[[Any], Any]] = {
    Form.TEXT: str,
    Form.NUMBER: int,
    Form.CHANCE: to_chance,
    Form.FLAG: bool,
    Form.VALUE: _as_it_is,
    Form.MAPPING: _mapping,
    Form.FAILURE: _failure,
    Form.USAGE: to_usage,
    Form.PROMPT: to_prompt,
    Form.EXPECTED: _expected,
    Form.EXTRACTIONS: to_extractions,
    Form.CHUNKS: own_chunks,
}
"""Links and inline evaluations are no part of what a Record is made of, and are left out."""
_ALWAYS = {"trace_id": "-", "span_id": "", "parent_id": None, "name": "", "kind": "task"}


def read_span(span: Mapping[str, object]) -> SpanData:
    """Read a span of ours; what cannot be read is left out.

    Raises:
        TypeError, ValueError: a time that is no number.
    """
    fields: dict[str, Any] = {**_ALWAYS, "start_ns": 0, "end_ns": 0}
    for field in DATA_FIELDS:
        read, value = _READERS.get(field.form), span.get(field.name)
        if read is not None and value is not None and (value := read(value)) is not None:
            fields[field.name] = value
    return SpanData(**fields)


def stored(
    reader: StoreReader,
    *,
    since: int | None = None,
    until: int | None = None,
    span_name: str | None = None,
    retrieved: str = "last",
    limits: object = None,
) -> Iterator[Record]:
    """Yield a Record for each workflow and agent span, with what the spans below it tell.

    ``since`` (inclusive) and ``until`` are nanoseconds since the epoch. What is below another
    workflow or agent belongs to that one; spans of judges are left out. ``retrieved`` and
    ``limits`` are the settings ``retrieved_context`` and ``retrieval_limits``.
    """
    for dumped in dump(reader, DumpScope(since, until, span_name)):
        span = dumped.span
        if span.kind in OWNERS and JUDGE_TAG not in span.tags:
            trace = reader.trace(span.trace_id)
            yield stored_record(span, trace, retrieved=retrieved, limits=limits)


def stored_record(
    span: SpanData, trace: Sequence[SpanData], *, retrieved: str = "last", limits: object = None
) -> Record:
    """Build what evaluators saw of a span when it was live, as far as the store knows it."""
    left = rolled_up(span, trace)
    record = record_of(span, left, retrieved=retrieved, limits=limits)
    return replace(record, request_id=span.span_id, usage=total(spent_by(span, left)))


Prices = Mapping[str, tuple[float, ...]]


class Trace(NamedTuple):
    """What a trace says, by the fields of Record; a field that it does not know is left out."""

    fields: Mapping[str, Any]
    calls: Sequence[Spent] = ()
    """What each call of a model used."""

    def priced(self, prices: Prices | None) -> Mapping[str, Any]:
        """Return the fields with what the calls cost, by own prices and those that are known."""
        return (
            {**self.fields, "usage": total(self.calls, own=prices)} if self.calls else self.fields
        )


def read_trace(value: object) -> Trace:
    """Read a trace.

    Raises:
        TypeError, ValueError: it is none, or has no spans.
    """
    if hasattr(value, "to_json"):  # MLflow's own object, from a data frame of traces
        value = json.loads(value.to_json())
    trace = value.get("data", value) if isinstance(value, Mapping) else value
    if isinstance(trace, Mapping) and ("resourceSpans" in trace or "resource_spans" in trace):
        spans_of = (span_of(span) for _, span in scoped(trace, "Spans", "spans"))
        return _trace(hung(map(foreign, spans_of)))
    spans = trace.get("spans") if isinstance(trace, Mapping) else trace
    if not isinstance(spans, Sequence) or isinstance(spans, str):
        raise TypeError(
            "is not a trace: expected MLflow's {'info', 'data'}, OTLP's {'resourceSpans'} or "
            "{'spans': [...]}"
        )
    if not all(isinstance(span, Mapping) for span in spans):
        raise TypeError("is not a trace: its spans have to be mappings")
    fields, calls = _trace(hung(map(_span, spans)))
    if isinstance(trace, Mapping) and isinstance(value, Mapping):
        fields = {**_of_info(value.get("info"), trace), **fields}
    if not fields:
        raise ValueError("is a trace without spans")
    return Trace(fields, calls)


def _trace(spans: Sequence[SpanData]) -> Trace:
    """Read a trace as one request: the topmost span has question, answer and time."""
    if not spans:
        return Trace({})
    known = {span.span_id for span in spans}
    roots = [span for span in spans if span.parent_id not in known]
    top = min(roots or spans, key=lambda span: span.start_ns)
    foreign = [span for span in spans if isinstance(span, ForeignSpan)]
    if isinstance(top, ForeignSpan):
        top = answered(naming_its_model(top, foreign), foreign)
        left = contributions_to(top, foreign)
    else:
        left = rolled_up(top, spans, whole=True)
    record = with_steps(record_of(top, left), left)
    fields = {name: getattr(record, name) for name in _TRACE_FIELDS}
    present = {name: value for name, value in fields.items() if value is not None and value != {}}
    return Trace(present, tuple(spent_by(top, left)))


_TRACE_FIELDS = tuple(
    field.name
    for field in dataclasses.fields(Record)
    if field.name != "request_id" and not field.name.startswith(("trace_", "span_"))
)
"""What a trace says of its request; the ids of the record are those of the row."""


def _span(span: Mapping[str, object]) -> SpanData | Left:
    """Read a span of ours, of MLflow or of OTLP; they are told apart by their keys."""
    if "start_ns" in span:
        return read_span(span)
    if "traceId" in span or isinstance(span.get("attributes"), list):
        return foreign(span_of(span))
    return foreign(mlflow_span(span))


def _of_info(info: object, data: Mapping[str, object]) -> dict[str, Any]:
    """Read what MLflow says of a trace as a whole, for what its spans leave open."""
    info = info if isinstance(info, Mapping) else {}
    metadata = {**(info.get("request_metadata") or {}), **(info.get("trace_metadata") or {})}
    response = conventions.parsed(data.get("response"))
    answered, is_bare = messages.answer(response), messages.is_bare(response)
    request = conventions.parsed(data.get("request"))
    duration = info.get("execution_time_ms", info.get("execution_duration_ms"))
    fields = {
        "request": messages.chat(request) or messages.question(request),
        "response": to_answer(response) if answered is None and not is_bare else answered,
        "usage": to_usage(conventions.parsed(metadata.get("mlflow.trace.tokenUsage"))),
        "latency_seconds": duration / 1e3 if isinstance(duration, (int, float)) else _seconds(info),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _seconds(info: Mapping[str, object]) -> float | None:
    """Read MLflow 3's ``"execution_duration": "1.25s"``."""
    text = str(info.get("execution_duration") or "")
    try:
        return float(text.removesuffix("s")) if text else None
    except ValueError:
        return None
