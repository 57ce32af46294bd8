"""A finished span -> the Record its evaluators see, and the SpanData that exporters get."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from llmeval_sdk._coerce import to_chunks, to_text, to_usage
from llmeval_sdk.model import (
    NOTHING,
    Chunk,
    Evaluation,
    Extraction,
    Failure,
    Record,
    SpanData,
    Usage,
)
from llmeval_sdk.tracing._llm_records import contexts_of, last_message, question_of
from llmeval_sdk.tracing._span import CONTEXT_ARGUMENTS, Retrieved, Span, Spent


ANSWERED = object()
"""Left to the evaluated spans above by an ``llm`` span that holds all a judge of it needs."""


def settle(span: Span) -> None:
    """Complete a span that ended from what it returned."""
    kind = span._spec.kind
    if kind == "retrieval":
        if span._retrieved is None:
            span._retrieved = to_chunks(span._response)
    elif kind in ("llm", "embedding") and span._usage is None and type(span._response) is dict:
        span._usage = to_usage(span._response.get("usage"))


def leave_to_owner(span: Span) -> None:
    """Leave to the evaluated span above what belongs to it: documents, usage, extractions."""
    owner = span._owner
    if owner is None or owner.end_ns:
        return
    kind = span._spec.kind
    if kind == "retrieval" and span._retrieved is not None:
        early = tuple(span._evaluations or ())
        owner.collect(Retrieved(span.start_ns, span._retrieved, early))
        if span._retrieval is not None:  # limits said inside the retrieval are the request's
            owner._retrieval = {**span._retrieval, **(owner._retrieval or {})}
    if kind == "llm" and span._usage is not None:
        owner.collect(Spent(span._usage, span._spec.model_name))
    if kind == "llm" and span._prompt is not None and span._response is not None:
        above: Span | None = owner
        while above is not None:
            above.collect(ANSWERED)
            above = above._owner
    if span._extractions is not None and not span.is_evaluated:
        owner.collect(span._extractions)
    if span._collected and kind not in ("workflow", "agent"):
        for item in span._collected:  # a step with evaluators of its own does not rob the request
            if type(item) is not tuple:
                owner.collect(item)


def record_of(span: Span, *, retrieved: str = "last", limits: Any = None) -> Record:
    """Build what evaluators see of a span: its own values first, then its finished descendants'."""
    usage: Usage | None = None
    for spent in spent_by(span):
        usage = spent.usage if usage is None else usage + spent.usage
    extractions = span._extractions
    for item in span._collected or ():
        if type(item) is tuple and span._extractions is None:
            extractions = item if extractions is None else extractions + item
    request, response, context = request_of(span), span._response, context_of(span, retrieved)
    text = response if type(response) is str else to_text(response)
    if span.kind == "llm" and span._prompt is not None:
        request = question_of(span._prompt, request)
        text = last_message(response) or text
        context = contexts_of(span._prompt) if context is None else context
    value = span._value if span._value is not None else response
    retrieval = span._retrieval
    if limits is not None and (retrieval is None or "limits" not in retrieval):
        retrieval = {**(retrieval or {}), "limits": limits}
    expected = span._expected or NOTHING
    return Record(
        None,
        request,
        text,
        context,
        expected.get("expected_facts"),
        expected.get("expected_response"),
        expected.get("expected_retrieved_context"),
        extractions,
        value,
        span._confidence,
        span._field_config,
        retrieval,
        span._attributes or NOTHING,
        usage,
        (span.end_ns - span.start_ns) / 1e9 if span.end_ns else None,
        span.trace_id,
        span.span_id,
        span.name,
        span.kind,
    )


def spent_by(span: Span) -> Iterator[Spent]:
    """Yield what each model call used: the span itself, if it is one, then those below it."""
    if span.kind == "llm" and span._usage is not None:
        yield Spent(span._usage, span._spec.model_name)
    for item in span._collected or ():
        if type(item) is Spent:
            yield item


def request_of(span: Span) -> Any:
    """Return what was asked: annotated, else the one string argument, else the bound arguments."""
    if span._request is not None:
        return span._request
    arguments = span._arguments
    if not arguments:
        return None
    texts = [value for value in arguments.values() if type(value) is str]
    return texts[0] if len(texts) == 1 else arguments


def context_of(span: Span, retrieved: str) -> tuple[Chunk, ...] | None:
    """Return the passages: annotated, else of the retrievals below, else of an argument."""
    if span._retrieved is not None:
        return span._retrieved
    found = [item for item in span._collected or () if type(item) is Retrieved]
    if found and retrieved == "all":
        found.sort(key=_start)
        return _union(found)
    if found:
        return max(found, key=_start).chunks
    for name, argument in (span._arguments or NOTHING).items():
        if name in CONTEXT_ARGUMENTS and type(argument) is list:
            return to_chunks(argument)
    return None


def _start(item: Retrieved) -> int:
    return item.start_ns


def _union(found: list[Retrieved]) -> tuple[Chunk, ...]:
    chunks: list[Chunk] = []
    for item in found:
        chunks.extend(chunk for chunk in item.chunks if chunk not in chunks)
    return tuple(chunks)


def span_data(span: Span, *, content: bool = True) -> SpanData:
    """Freeze a finished span for the exporters; without content, texts stay behind."""
    extractions: tuple[Extraction, ...] | None = span._extractions
    return SpanData(
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_id=f"{span._parent_id:016x}" if span._parent_id else None,
        name=span.name,
        kind=span.kind,
        start_ns=span.start_ns,
        end_ns=span.end_ns,
        request=request_of(span) if content else None,
        response=span._response if content else None,
        retrieved_context=span._retrieved if content else _without_content(span._retrieved),
        extractions=extractions if content else None,
        error=span._error if content or not span._error else Failure(span._error.type),
        attributes=(span._attributes or NOTHING) if content else NOTHING,
        metrics=span._metrics or NOTHING,
        tags=span._tags or NOTHING,
        prompt=span._prompt if content else None,
        usage=span._usage,
        session_id=span.session_id,
        model_name=span._spec.model_name,
        model_provider=span._spec.model_provider,
        links=span._links,
        evaluations=tuple(
            each if content else without_content(each) for each in span._evaluations or ()
        ),
        trace_flags=span._flags,
        expected=(span._expected or NOTHING) if content else NOTHING,
        context=span.context,
    )


def without_content(evaluation: Evaluation) -> Evaluation:
    """Leave out of an Evaluation what may quote the app's texts."""
    error = evaluation.error
    return replace(
        evaluation,
        explanation=None,
        error=error and Failure(error.type),
        metadata={
            key: value
            for key, value in evaluation.metadata.items()
            if type(value) in (int, float, bool)
        },
    )


def _without_content(chunks: tuple[Chunk, ...] | None) -> tuple[Chunk, ...] | None:
    return chunks and tuple(replace(chunk, content=None, metadata=None) for chunk in chunks)
