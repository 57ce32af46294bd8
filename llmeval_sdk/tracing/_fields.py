"""The fields of a span that the app may write, and how each is captured."""

from __future__ import annotations

import re
from types import FunctionType
from typing import TYPE_CHECKING, Any

from llmeval_sdk.model import Chunk, Extraction
from llmeval_sdk.model.coerce import (
    to_chunks,
    to_details,
    to_extractions,
    to_prompt,
    to_reason,
    to_texts,
    to_usage,
)
from llmeval_sdk.model.span_fields import SPAN_FIELDS
from llmeval_sdk.tracing._capture import capture, rows
from llmeval_sdk.tracing._state import hide_ids, state


if TYPE_CHECKING:
    from llmeval_sdk.tracing._span import Span


def _put(name: str) -> Any:
    def write(span: Span, value: Any) -> None:
        setattr(span, name, capture(value, span.room))

    return write


def _read(name: str, read: Any) -> Any:
    def write(span: Span, value: Any) -> None:
        setattr(span, name, read(capture(value, span.room)))

    return write


def _merge(name: str) -> Any:
    def write(span: Span, value: Any) -> None:
        added = capture(value, span.room)
        if type(added) is not dict:
            raise TypeError(name)
        setattr(span, name, {**(getattr(span, name) or {}), **added})

    return write


def _nouns(name: str, noun: type, read: Any) -> Any:
    """Return what writes a sequence of our nouns, or of whatever can be read as such."""

    def write(span: Span, value: Any) -> None:
        if type(value) in (list, tuple) and value and all(type(item) is noun for item in value):
            captured = capture(list(value), span.room)
            value = tuple(noun(**fields) for fields in captured if type(fields) is dict)
        else:
            value = rows(value, span.room)
        setattr(span, name, read(value))

    return write


def _expect(name: str, read: Any) -> Any:
    def write(span: Span, value: Any) -> None:
        span._expected = {**(span._expected or {}), name: read(capture(value, span.room))}

    return write


def _abstained(span: Span, value: Any) -> None:
    """Note why the app abstains; with a value that says that it does not, nothing is noted."""
    reason = to_reason(capture(value, span.room))
    others = {name: each for name, each in (span._expected or {}).items() if name != "abstained"}
    span._expected = others if reason is None else {**others, "abstained": reason}


def _usage(span: Span, value: Any) -> None:
    _merge("_metrics")(span, value)
    span._metrics = {**(span._metrics or {}), **to_details(span._metrics)}
    span._usage = to_usage(span._metrics) or span._usage


def _tags(span: Span, value: Any) -> None:
    _merge("_tags")(span, value)
    hide_ids(span)
    session = (span._tags or {}).get("session_id")
    if type(session) is str:
        _session(span, session)


def _tag(name: str) -> Any:
    def write(span: Span, value: Any) -> None:
        _tags(span, {name: str(capture(value, span.room))})

    return write


def _session(span: Span, value: Any) -> None:
    span.session_id = str(capture(value, span.room))
    hide_ids(span)
    _mirror(span)


def _field_config(span: Span, value: Any) -> None:
    """Capture what is known of a field. A format that is a function is kept for the worker."""
    captured = capture(value, span.room)
    if type(captured) is not dict:
        raise TypeError("field_config is no mapping")
    span._field_config = captured
    form = dict.get(value, "format") if type(value) is dict else None
    if type(form) is FunctionType or type(form) is re.Pattern:
        span._field_config["format"] = form


def _set(name: str) -> Any:
    def write(span: Span, value: Any) -> None:
        setattr(span, name, str(capture(value, span.room)))

    return write


def _prompt(span: Span, value: Any) -> None:
    span._prompt = to_prompt(capture(value, span.room))
    _mirror(span)


def _mirror(span: Span) -> None:
    """Tell other libraries with a live span which prompt and session it has now."""
    if span.context is not None:
        for neighbour in state.neighbours:
            neighbour.mirror(span)


_ALIASES = {
    **dict.fromkeys(("input", "input_data", "query", "question"), "request"),
    **dict.fromkeys(("output", "output_data", "answer"), "response"),
    **dict.fromkeys(("contexts", "chunks", "documents"), "retrieved_context"),
    "attributes": "metadata",
    "user": "user_id",
}
"""What other libraries call our fields."""

WRITERS: dict[str, Any] = {
    **{field.name: _put(field.slot) for field in SPAN_FIELDS if field.can_be_annotated},
    "retrieved_context": _nouns("_retrieved", Chunk, to_chunks),
    "extractions": _nouns("_extractions", Extraction, to_extractions),
    "field_config": _field_config,
    "retrieval": _merge("_retrieval"),
    "expected_facts": _expect("expected_facts", to_texts),
    "expected_response": _expect("expected_response", lambda value: value),
    "expected_retrieved_context": _expect("expected_retrieved_context", to_chunks),
    "abstained": _abstained,
    "prompt": _prompt,
    "metadata": _merge("_attributes"),
    "metrics": _usage,
    "tags": _tags,
    "name": _set("name"),
    "session_id": _session,
    "user_id": _tag("user_id"),
}
"""How each field is written, by its name and by those that other libraries have for it."""
WRITERS.update((alias, WRITERS[name]) for alias, name in _ALIASES.items())
