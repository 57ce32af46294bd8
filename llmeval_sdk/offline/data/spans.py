"""Spans of our own, from JSON and from the local store, for evaluation after the fact."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from llmeval_sdk.judges.models.prices import total
from llmeval_sdk.model import JUDGE_TAG, Chunk, Failure, Record, SpanData
from llmeval_sdk.model.coerce import to_chunks, to_extractions, to_prompt, to_usage
from llmeval_sdk.model.records import OWNERS, gathered_below, record_of, spent_by
from llmeval_sdk.model.span_fields import DATA_FIELDS, Form
from llmeval_sdk.store.dump import Selection, dump
from llmeval_sdk.store.reader import StoreReader


_CHUNK = frozenset(field.name for field in fields(Chunk))


def own_chunks(value: Any) -> tuple[Chunk, ...] | None:
    """Read chunks as `SpanData` has them; those of another shape as `to_chunks` reads them."""
    if isinstance(value, (list, tuple)):
        return to_chunks([_own_chunk(item) for item in value])
    return to_chunks(value)


def _own_chunk(item: Any) -> Any:
    if isinstance(item, dict) and _CHUNK.issuperset(item):
        metadata, text = item.get("metadata"), item.get("content") or item.get("doc_uri")
        if isinstance(text, str) and (metadata is None or isinstance(metadata, dict)):
            return Chunk(**item)
    return item


def _mapping(value: Any) -> Mapping[str, Any] | None:
    return value if isinstance(value, Mapping) else None


def _failure(value: Any) -> Failure | None:
    if not isinstance(value, Mapping):
        return None
    return Failure(str(value.get("type") or "error"), str(value.get("message") or ""))


def _expected(value: Any) -> Mapping[str, Any] | None:
    if not isinstance(value, Mapping):
        return None
    expected = dict(value)
    if isinstance(expected.get("expected_facts"), list):
        expected["expected_facts"] = tuple(expected["expected_facts"])
    if "expected_retrieved_context" in expected:
        expected["expected_retrieved_context"] = own_chunks(expected["expected_retrieved_context"])
    return expected


def _as_it_is(value: Any) -> Any:
    return value


_READERS: dict[Form, Callable[[Any], Any]] = {
    Form.TEXT: str,
    Form.NUMBER: int,
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


def read_span(span: Mapping[str, Any]) -> SpanData:
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
    limits: Any = None,
) -> Iterator[Record]:
    """Yield a Record for each workflow and agent span, with what the spans below it tell.

    ``since`` (inclusive) and ``until`` are nanoseconds since the epoch. What is below another
    workflow or agent belongs to that one; spans of judges are left out. ``retrieved`` and
    ``limits`` are the settings ``retrieved_context`` and ``retrieval_limits``.
    """
    for dumped in dump(reader, Selection(since, until, span_name)):
        span = dumped.span
        if span.kind in OWNERS and JUDGE_TAG not in span.tags:
            trace = reader.trace(span.trace_id)
            yield stored_record(span, trace, retrieved=retrieved, limits=limits)


def stored_record(
    span: SpanData, trace: Sequence[SpanData], *, retrieved: str = "last", limits: Any = None
) -> Record:
    """Build what evaluators saw of a span when it was live, as far as the store knows it."""
    left = gathered_below(span, trace)
    record = record_of(span, left, retrieved=retrieved, limits=limits)
    return replace(record, request_id=span.span_id, usage=total(spent_by(span, left)))
