"""Makes the Record that evaluators see of a finished span and of what was left to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from llmeval_sdk._answers import is_answer
from llmeval_sdk._coerce import to_answer
from llmeval_sdk.model import NOTHING, Record, Step, Usage
from llmeval_sdk.records._left import FinishedSpan, Left, Spent, context_of
from llmeval_sdk.records._prompted import contexts_of, last_message, question_of


def record_of(
    span: FinishedSpan,
    gathered: Sequence[Left] | None = None,
    *,
    retrieved: str = "last",
    limits: Any = None,
) -> Record:
    """Build what evaluators see of a span: its own values first, then what was left to it.

    Args:
        span: the evaluated span.
        gathered: what the spans below it left to it.
        retrieved: ``last`` takes the documents of the last retrieval, ``all`` those of all.
        limits: the retrieval limits of the settings, for calls that were annotated with none.
    """
    usage: Usage | None = None
    for spent in spent_by(span, gathered):
        usage = spent.usage if usage is None else usage + spent.usage
    extractions = span.extractions
    notes: Mapping[str, Any] = NOTHING
    steps: list[Step] = []
    for item in gathered or ():
        cls = type(item)
        if cls is Step:
            steps.append(item)
        elif cls is tuple:
            if span.extractions is None:
                extractions = item if extractions is None else extractions + item
        elif cls is dict:
            notes = _joined(notes, item)
    request, response = request_of(span), span.response
    context = context_of(span, gathered, retrieved)
    text = response if type(response) is str else to_answer(response)
    prompt = span.prompt
    if prompt is not None and span.kind == "llm":
        request = question_of(prompt, request)
        text = (last_message(response) or text) if is_answer(response) else text
        context = contexts_of(prompt) if context is None else context
    value, confidence, field_config = span.value, span.confidence, span.field_config
    expected = span.expected or NOTHING
    if notes:
        value = notes.get("value") if value is None else value
        confidence = notes.get("confidence") if confidence is None else confidence
        field_config = notes.get("field_config") if field_config is None else field_config
        if "abstained" in notes and (is_answer(response) or is_answer(value)):
            notes = {**notes, "abstained": None}  # a step abstained, and the whole answered
        expected = {**notes, **expected}
    return Record(
        None,
        request,
        text,
        context,
        expected.get("expected_facts"),
        expected.get("expected_response"),
        expected.get("expected_retrieved_context"),
        extractions,
        response if value is None else value,
        confidence,
        field_config,
        _retrieval_of(span, notes, limits),
        span.attributes or NOTHING,
        usage,
        (span.end_ns - span.start_ns) / 1e9 if span.end_ns else None,
        span.trace_id,
        span.span_id,
        span.name,
        span.kind,
        tuple(sorted(steps, key=lambda step: step.start_ns or 0)) if steps else None,
        expected.get("tools"),
        expected.get("expected_trajectory"),
        expected.get("abstained"),
    )


def _joined(notes: Mapping[str, Any], more: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return two spans' notes as one; where both have a field, the later span's counts."""
    if "retrieval" in notes and "retrieval" in more:
        return {**notes, **more, "retrieval": {**notes["retrieval"], **more["retrieval"]}}
    return {**notes, **more} if notes else more


def spent_by(span: FinishedSpan, gathered: Iterable[Left] | None) -> Iterator[Spent]:
    """Yield the usage of each model call: the span's own if it is one, else of those below it."""
    if span.kind == "llm" and span.usage is not None:
        yield Spent(span.usage, span.model_name, span.metrics or NOTHING)
        return
    for item in gathered or ():
        if type(item) is Spent:
            yield item


def request_of(span: FinishedSpan) -> Any:
    """Return what was asked: annotated, else the one string argument, else the bound arguments."""
    if span.request is not None:
        return span.request
    arguments = span.arguments
    if not arguments:
        return None
    texts = [value for value in arguments.values() if type(value) is str]
    return texts[0] if len(texts) == 1 else arguments


def _retrieval_of(span: FinishedSpan, notes: Mapping[str, Any], limits: Any = None) -> Any:
    """Return how the search went: annotated, else noted below; with the limits of the settings."""
    retrieval, noted = span.retrieval, notes.get("retrieval")
    if noted is not None:
        retrieval = {**noted, **(retrieval or NOTHING)}
    if limits is not None and (retrieval is None or "limits" not in retrieval):
        retrieval = {**(retrieval or NOTHING), "limits": limits}
    return retrieval


def early_record(
    span: FinishedSpan, gathered: Sequence[Left] | None, *, retrieved: str = "last"
) -> Record | None:
    """Return a Record of the context that an open span holds so far; ``None`` without one."""
    context = context_of(span, gathered, retrieved)
    if context is None:
        return None
    notes: Mapping[str, Any] = NOTHING
    for item in gathered or ():
        if type(item) is dict:
            notes = _joined(notes, item)
    return Record(retrieved_context=context, retrieval=_retrieval_of(span, notes))
