"""Turns a live span that has ended into `SpanData`, and leaves its findings to the span above."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import FunctionType
from typing import Any

from llmeval_sdk.model import Chunk, Evaluation, Failure, SpanData, Step
from llmeval_sdk.model.fields import note_kinds, to_chunks, to_details, to_usage
from llmeval_sdk.model.records import (
    ANSWERED,
    OWNERS,
    Conversation,
    Left,
    Retrieved,
    Spent,
    chunks_of_arguments,
    left_by,
    request_of,
    steps_above,
)
from llmeval_sdk.model.span_fields import DATA_FIELDS
from llmeval_sdk.tracing._capture import capture
from llmeval_sdk.tracing._span import MOST_HELD, Link, Span, Spec
from llmeval_sdk.tracing._state import hide_ids


def settle(span: Span) -> None:
    """Complete a span that has ended: take documents and usage from what it returned."""
    kind = span.spec.kind
    if kind == "retrieval":
        if span._retrieved is None:
            span._retrieved = to_chunks(span._response)
    elif kind in ("llm", "embedding") and span._usage is None and type(span._response) is dict:
        used = span._response.get("usage")
        span._usage = to_usage(used)
        span._metrics = {**to_details(used), **(span._metrics or {})} or None
        note_kinds(used)


def leave_to_owner(span: Span, *, ended: bool = False) -> None:
    """Leave to the evaluated span above what belongs to it: documents, usage, annotations.

    A span that has ended takes nothing more, unless ``ended`` says that it is yet to be read.
    """
    owner, kind = span.owner, span.spec.kind
    if owner is None or (owner.end_ns and not ended):
        return
    if kind in OWNERS:
        _leave_steps(span, owner)
        return
    has_notes = (
        span.gathered
        or span._extractions is not None
        or span._value is not None
        or span._confidence is not None
        or span._field_config is not None
        or span._retrieval is not None
        or span._expected
    )
    if not has_notes and kind not in ("llm", "tool"):  # as `left_by`, without calling it
        if kind == "retrieval" and span._retrieved is not None:
            owner.collect(Retrieved(span.start_ns, span._retrieved, tuple(span.scored or ())))
        if kind == "retrieval" or span._retrieved is None:
            return
    scores = tuple(span.scored or ()) if kind == "retrieval" else ()
    for item in left_by(span, span.gathered, keeps=span.is_evaluated, scores=scores):
        _leave(item, span, owner)


def _leave_steps(span: Span, owner: Span) -> None:
    """Leave the steps of an agent to the agent above it; all else of it is its own."""
    above: Span | None = owner
    while above is not None and above.spec.kind != "agent":
        above = above.owner
    if above is not None and not above.end_ns and _has_room(above, span, span.held):
        for step in steps_above(span, span.gathered):
            above.collect(step)


def _leave(item: Left, span: Span, owner: Span) -> None:
    """Leave one thing to the span that it belongs to, which mostly is the owner."""
    if item is ANSWERED:
        above: Span | None = owner
        while above is not None:
            if ANSWERED not in (above.gathered or ()):
                above.collect(item)
            above = above.owner
    elif type(item) is Spent:
        (_call_above(span, owner) or owner).collect(item)
    elif type(item) is Conversation:
        _hold(item, owner)
    elif type(item) is not Step or _has_room(owner, span, span.size):
        owner.collect(item)


def _has_room(owner: Span, span: Span, size: int) -> bool:
    """Say whether a run may hold steps of this size as well; else leave a note in their place."""
    if owner.held + size <= MOST_HELD:
        owner.held += size
        return True
    note = f"[left out: tool calls beyond the {MOST_HELD >> 20} MB that a run may hold]"
    if getattr((owner.gathered or (None,))[-1], "content", None) != note:
        owner.collect(Step("system", note, start_ns=span.start_ns))
    return False


def _hold(conversation: Conversation, owner: Span) -> None:
    """Leave the messages of a model call to the owner, unless it holds a longer conversation."""
    gathered = owner.gathered or ()
    place = next((place for place, item in enumerate(gathered) if type(item) is Conversation), None)
    if place is None:
        owner.collect(conversation)
    elif len(conversation.messages) >= len(gathered[place].messages):
        owner.gathered[place] = conversation  # type: ignore[index]


def _call_above(span: Span, owner: Span) -> Span | None:
    """Return the model call around a model call: its usage may include the inner one's."""
    above = span.parent
    while type(above) is Span and above is not owner:
        if above.spec.kind == "llm":
            return None if above.end_ns else above
        above = above.parent
    return None


_APART = frozenset((
    "trace_id", "span_id", "parent_id", "kind", "model_name", "model_provider", "trace_flags",
    "request", "retrieved_context", "evaluations", "error",
))  # fmt: skip
"""Fields of `SpanData` that are not simply the value of a slot of the live span."""
_AS_THEY_ARE = tuple(field for field in DATA_FIELDS if field.name not in _APART)
_WITHOUT_CONTENT = SpanData("", "", None, "", "task", 0, 0)
_CONTENT = {
    field.name: getattr(_WITHOUT_CONTENT, field.name) for field in DATA_FIELDS if field.is_content
}


def span_data(span: Span, *, content: bool = True) -> SpanData:
    """Return a finished span for the exporters; without ``content`` it has no texts.

    It is written out, as a loop over the table of fields takes 1.5 times as long for each span; a
    test compares it with the table.
    """
    spec, request, config = span.spec, request_of(span), span._field_config
    data = SpanData(
        span.trace_id, span.span_id, span.parent_id, span.name, spec.kind, span.start_ns,
        span.end_ns, request, span._response, _context(span, request), span._extractions,
        span._error, span._attributes or {}, span._metrics or {}, span._tags or {}, span._prompt,
        span._usage, span.session_id, spec.model_name, spec.model_provider, span.links,
        tuple(span.scored or ()), span.flags, span._expected or {}, span.context, span._value,
        span._confidence, None if config is None else _without_code(config), span._retrieval,
    )  # fmt: skip
    if content:
        return data
    return replace(
        data,
        retrieved_context=_without_content(data.retrieved_context),
        evaluations=tuple(map(without_content, data.evaluations)),
        error=None if data.error is None else Failure(data.error.type),
        **_CONTENT,
    )


def _without_code(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the field's configuration without a format that is code of this process."""
    form = config.get("format")
    if type(form) is re.Pattern and form.flags == re.UNICODE:
        return {**config, "format": form.pattern}
    if type(form) is re.Pattern or type(form) is FunctionType:
        return {name: item for name, item in config.items() if name != "format"}
    return config


def _context(span: Span, request: Any) -> tuple[Chunk, ...] | None:
    """Return the span's chunks: its own, else those of an argument that is not in its request."""
    if span._retrieved is not None or span._arguments is None or not span.is_evaluated:
        return span._retrieved
    if span.gathered and any(type(item) is Retrieved for item in span.gathered):
        return None
    return None if request is span._arguments else chunks_of_arguments(span)


def without_content(evaluation: Evaluation) -> Evaluation:
    """Return an Evaluation without anything that may quote the app's texts."""
    error = evaluation.error
    return replace(
        evaluation,
        explanation=None,
        error=error and Failure(error.type),
        metadata={
            key: value
            for key, value in evaluation.metadata.items()
            if type(value) in (int, float, bool) or key in ("scope", "session_id")
        },
    )


def _without_content(chunks: tuple[Chunk, ...] | None) -> tuple[Chunk, ...] | None:
    return chunks and tuple(replace(chunk, content=None, metadata=None) for chunk in chunks)


def adopted(data: SpanData, *, evaluators: tuple[Any, ...] = ()) -> Span:
    """Return a finished span of another library as a span of ours."""
    spec = Spec(
        data.kind, data.name, evaluators, data.session_id, None, data.model_name,
        data.model_provider,
    )  # fmt: skip
    parent = int(data.parent_id, 16) if data.parent_id else 0
    span = Span(spec, Link(int(data.trace_id, 16), parent, data.trace_flags))
    for field in _AS_THEY_ARE:
        if (value := getattr(data, field.name)) not in (None, (), {}):
            setattr(span, field.slot, value)
    span.span_number = int(data.span_id, 16)
    span._request = capture(data.request, span.room)
    span._response = capture(data.response, span.room)
    span._retrieved, span._error = data.retrieved_context, data.error
    hide_ids(span)
    return span
