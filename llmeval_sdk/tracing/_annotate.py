"""Saying more about a span: ``annotate``, ``annotation_context``; reading the current one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any

from llmeval_sdk._process.shield import caught, swallow
from llmeval_sdk.model import Prompt
from llmeval_sdk.protocols import ContextBridge
from llmeval_sdk.tracing._span import Link, Span
from llmeval_sdk.tracing._state import current, state


_inherited: ContextVar[tuple[Mapping[str, Any], ...]] = ContextVar(
    "llmeval_annotations", default=()
)


def current_span() -> Span | None:
    """Return the active span, or ``None`` outside any."""
    span = current.get()
    return span if type(span) is Span else None


def export_span(span: Span | None = None) -> dict[str, str] | None:
    """Return ``{"trace_id", "span_id"}`` of a span, the active one by default, to submit scores on.

    Returns ``None`` outside a span. While the Datadog exporter is on, the ids are Datadog's.
    """
    span = span or current_span()
    if span is None:
        return None
    for neighbour in state.neighbours:
        ids = neighbour.ids_of(span)
        if ids is not None:
            return ids
    return {"trace_id": span.trace_id, "span_id": span.span_id}


def read_ids(ids: Mapping[str, Any]) -> tuple[str | None, str]:
    """Return our trace id and span id for what `export_span` returned, maybe in another process.

    Raises `KeyError` where there is no span id.
    """
    trace_id, span_id = str(ids.get("trace_id") or "") or None, str(ids["span_id"])
    for neighbour in state.neighbours:
        trace_id, span_id = neighbour.read_ids(trace_id, span_id)
    return trace_id, span_id


def annotate(
    span: Span | None = None,
    *,
    request: Any = None,
    response: Any = None,
    retrieved_context: Any = None,
    extractions: Any = None,
    value: Any = None,
    confidence: float | str | None = None,
    field_config: Mapping[str, Any] | None = None,
    retrieval: Mapping[str, Any] | None = None,
    expected_facts: Sequence[str] | None = None,
    expected_response: str | None = None,
    expected_retrieved_context: Any = None,
    prompt: Prompt | Mapping[str, Any] | str | None = None,
    metadata: Mapping[str, Any] | None = None,
    metrics: Mapping[str, float] | None = None,
    tags: Mapping[str, str] | None = None,
    session_id: str | None = None,
    user_id: str | None = None,
    input_data: Any = None,
    output_data: Any = None,
    **others: Any,
) -> None:
    """Add to a span, the active one by default. Never raises; what comes too late is counted.

    Args:
        span: the span to add to.
        request: what was asked.
        response: what was answered.
        retrieved_context: the passages in rank order; each a text, a mapping, a Chunk or a document
            object of a retrieval library.
        extractions: what was taken from the chunks: mappings with ``value``, ``chunk_number``
            (1-based), ``confidence`` and ``evidence``.
        value: the aggregated value, where it is not the response.
        confidence: the aggregation's own confidence, 0..1 or HIGH, MEDIUM, LOW.
        field_config: what is known of an extracted field: ``name``, ``description``, ``format``.
        retrieval: ``limits`` by method, ``total_before_filter``, and ``scores``: ``"ranks"`` has
            ``context_relevance`` take ranks in place of scores that are on different scales.
        expected_facts: ground truth, one fact each.
        expected_response: ground truth as a whole answer.
        expected_retrieved_context: ground-truth chunks; each needs ``doc_uri``.
        prompt: the prompt of an LLM call.
        metadata: anything else worth keeping.
        metrics: numbers, such as ``input_tokens`` and ``output_tokens``.
        tags: labels to filter by; ``session_id`` sets the session.
        session_id: the session or conversation that the span belongs to.
        user_id: the app's user; kept as a tag.
        input_data: the same as ``request``, as ddtrace names it.
        output_data: the same as ``response``, as ddtrace names it.
        **others: other libraries' names for these are read; any further name is left out, counted
            and said once.
    """
    target = span if type(span) is Span else current.get()
    if type(target) is not Span:
        if target is None and state.enabled:
            caught.add("annotate outside a span")
        return
    target.annotate(
        request=input_data if request is None else request,
        response=output_data if response is None else response,
        retrieved_context=retrieved_context,
        extractions=extractions,
        value=value,
        confidence=confidence,
        field_config=field_config,
        retrieval=retrieval,
        expected_facts=expected_facts,
        expected_response=expected_response,
        expected_retrieved_context=expected_retrieved_context,
        prompt=prompt,
        metadata=metadata,
        metrics=metrics,
        tags=tags,
        session_id=session_id,
        user_id=user_id,
        **others,
    )


@contextmanager
def annotation_context(
    *,
    prompt: Prompt | Mapping[str, Any] | str | None = None,
    tags: Mapping[str, str] | None = None,
    name: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    field_config: Mapping[str, Any] | None = None,
    session_id: str | None = None,
    user_id: str | None = None,
    **others: Any,
) -> Iterator[None]:
    """Annotate every span that starts inside the block, such as those of instrumented clients.

    The prompt and the name go to ``llm`` spans only, the rest to all. Further names are read as
    `annotate` reads them: what is no field is left out, counted and said once.
    """
    added = {"prompt": prompt, "tags": tags, "name": name, "metadata": metadata, **others}
    added.update(field_config=field_config, session_id=session_id, user_id=user_id)
    fields = {key: item for key, item in added.items() if item is not None}
    before = _inherited.get()
    _inherited.set((*before, fields))
    with ExitStack() as stack:
        for neighbour in state.neighbours:
            _enter(stack, neighbour, fields)
        try:
            yield
        finally:
            _inherited.set(before)


def _enter(stack: ExitStack, neighbour: ContextBridge, fields: dict[str, Any]) -> None:
    """Open another library's annotation context too, for the spans that it instruments."""
    try:
        stack.enter_context(neighbour.annotation_context(**fields))
    except Exception as error:
        if not swallow("annotation_context", error, calls_out=True):
            raise


_LLM_ONLY = ("prompt", "name")


def inherit(span: Span) -> None:
    """Give a new span what the annotation contexts around it say."""
    for fields in _inherited.get():
        if span.kind == "llm":
            span.annotate(**fields)
        else:
            span.annotate(**{key: item for key, item in fields.items() if key not in _LLM_ONLY})


_OFF = Link(0, 0, 0, recording=False)


def off() -> None:
    """Record nothing from here on in this thread or task: for threads of our own."""
    current.set(_OFF)


def is_off() -> bool:
    """Say whether this thread or task is inside `disabled`, or was switched `off`."""
    return current.get() is _OFF


@contextmanager
def disabled() -> Iterator[None]:
    """Trace and evaluate nothing inside the block, in this task or thread."""
    try:
        before = current.get()
        current.set(_OFF)
    except Exception as error:
        if not swallow("disabled", error):
            raise
        before = None
    try:
        yield
    finally:
        current.set(before)
