"""A span of ours, as JSON has it -> `SpanData`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from llmeval_sdk._coerce import to_chunks, to_extractions, to_prompt, to_usage
from llmeval_sdk._span_fields import DATA_FIELDS, Form
from llmeval_sdk.model import Chunk, Failure, SpanData


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
    told: dict[str, Any] = {**_ALWAYS, "start_ns": 0, "end_ns": 0}
    for field in DATA_FIELDS:
        read, value = _READERS.get(field.form), span.get(field.name)
        if read is not None and value is not None and (value := read(value)) is not None:
            told[field.name] = value
    return SpanData(**told)
