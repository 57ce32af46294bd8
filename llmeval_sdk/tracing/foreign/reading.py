"""What a finished span of another library says -> `SpanData`, online and in a data set alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from llmeval_sdk.model import Failure
from llmeval_sdk.model.records import OWNERS
from llmeval_sdk.tracing import Span
from llmeval_sdk.tracing.foreign import _usage, conventions, tools
from llmeval_sdk.tracing.foreign.runs import ForeignSpan, answered, left_to
from llmeval_sdk.tracing.internals import adopted, capture, inherit_late


SCORED = (*OWNERS, "llm", "retrieval", "task")
"""Kinds of spans that are scored where they stand topmost."""


def finished(
    span: Any,
    *,
    trace_id: str,
    span_id: str,
    parent_id: str | None,
    name: str,
    times: Sequence[Any],
) -> ForeignSpan | None:
    """Read a span that speaks of models; ``None`` for any other.

    Args:
        span: whatever has ``attributes`` and ``events``.
        trace_id: its trace, as are the ids that follow.
        span_id: its own id.
        parent_id: the span above it.
        name: its name.
        times: when it began and ended, in nanoseconds.
    """
    attributes = attributes_of(span)
    kind = conventions.kind_of(attributes)
    if kind is None:
        return None
    agent = tools.agent_of(attributes)
    if kind in ("workflow", "task") and agent == attributes.get("traceloop.entity.name", name):
        kind = "agent"  # LangGraph runs it as a chain
    model, provider = conventions.model_of(attributes)
    start, end = times
    told_by = getattr(getattr(span, "instrumentation_scope", None), "name", None)
    error = _error(span, attributes)
    if kind == "tool":
        result = tools.result_of(attributes)
        return ForeignSpan(
            trace_id,
            span_id,
            parent_id,
            tools.name_of(attributes, name),
            kind,
            start,
            end,
            request=capture(tools.arguments_of(attributes, name)),
            response=capture(result.result),
            error=error or result.error,
            attributes=conventions.metadata_of(attributes),
            session_id=conventions.session_of(attributes),
            tags=conventions.tags_of(attributes),
            agent=agent,
            told_by=told_by,
        )
    is_embedding = kind == "embedding"
    used = _usage.used(attributes) if kind == "llm" or is_embedding else (None, {})
    read_request = conventions.texts_of if is_embedding else conventions.request_of
    return ForeignSpan(
        trace_id,
        span_id,
        parent_id,
        name,
        kind,
        start,
        end,
        request=read_request(attributes),
        response=None if is_embedding else conventions.response_of(attributes),  # no vectors
        retrieved_context=conventions.chunks_of(attributes) if kind == "retrieval" else None,
        usage=used[0],
        metrics=_measured(span, used[1], start) if kind == "llm" else {},
        error=error,
        attributes={**conventions.metadata_of(attributes), **_named(model, provider)},
        session_id=conventions.session_of(attributes),
        tags=conventions.tags_of(attributes),
        model_name=model,
        model_provider=provider,
        conversation=conventions.conversation_of(attributes) if kind == "llm" else (),
        offered=tools.definitions(attributes) if kind in ("llm", "agent") else None,
        agent=agent,
        told_by=told_by,
    )


_FIRST_TOKENS = ("First Token Stream Event", "llm.content.completion.chunk")
"""Events of OpenInference and Traceloop at the first part of a stream."""


def _measured(span: Any, measured: dict[str, float], start: int) -> dict[str, float]:
    """Add the seconds to the first token of a stream to what its attributes say."""
    for event in span.events or ():
        if event.name in _FIRST_TOKENS:
            measured.setdefault("time_to_first_token", (event.timestamp - start) / 1e9)
    return measured


def _error(span: Any, attributes: Mapping[str, Any]) -> Failure | None:
    """Read how a span failed: by its status, and by the exception that was recorded on it."""
    message = getattr(getattr(span, "status", None), "description", None)
    kind = attributes.get("error.type")
    if not (kind or message):
        return None
    for event in span.events or ():
        about = event.attributes or {}
        if event.name == "exception" and about.get("exception.type"):
            kind = kind or str(about["exception.type"]).rpartition(".")[2]
            message = about.get("exception.message") or message
    message = str(message or "").partition("Traceback (most recent call last)")[0]
    return Failure(str(kind or "error"), message[:2_000])


def naming_its_model(top: ForeignSpan, family: Sequence[ForeignSpan]) -> ForeignSpan:
    """Say on a span which model was asked: its own, else that of the last call below it."""
    calls = (top, *(span for span in reversed(family) if span.kind == "llm"))
    asked = next((span for span in calls if span.model_name or span.model_provider), top)
    model, provider = asked.model_name, asked.model_provider
    attributes = {**top.attributes, **_named(model, provider)}
    return replace(top, model_name=model, model_provider=provider, attributes=attributes)


def _named(model: str | None, provider: str | None) -> dict[str, str]:
    names = {"model_name": model, "model_provider": provider}
    return {name: text for name, text in names.items() if text is not None}


def scored(
    top: ForeignSpan, family: Sequence[ForeignSpan], evaluators: tuple[Any, ...] = ()
) -> Span:
    """Make the span of ours that is scored, with all that the spans below it tell."""
    span = adopted(answered(_of_a_user(top, family), family), evaluators=evaluators)
    for left in left_to(top, family):
        span.collect(left)
    return span


def _of_a_user(top: ForeignSpan, family: Sequence[ForeignSpan]) -> ForeignSpan:
    """Say on a span whose request it is: as it says itself, else the first span below that does."""
    sessions = (span.session_id for span in (top, *family) if span.session_id)
    users = (span.tags["user_id"] for span in (top, *family) if "user_id" in span.tags)
    user = next(users, None)
    tags = top.tags if user is None else {**top.tags, "user_id": user}
    return replace(top, session_id=next(sessions, None), tags=tags)


def evaluated(
    spans: Sequence[Any],
    parents: Mapping[int, int],
    evaluators: tuple[Any, ...],
    new: Iterable[int],
    above: int = 0,
    *,
    contexts: Mapping[int, tuple[Mapping[str, Any], ...]] | None = None,
) -> Iterable[Span]:
    """Yield a span of ours for each span of OpenTelemetry's SDK that is new.

    The topmost of a trace holds what those below it tell, and is scored; the others, which have an
    owner, are only kept where the exporter is the store. Their parents are the nearest spans that
    are kept too; that of a topmost one is ``above``, a span of ours, or none. ``contexts`` has the
    fields of the annotation contexts that spans began in.
    """
    contexts = contexts or {}
    known: dict[int, ForeignSpan] = {}
    for span in spans:
        data = of_sdk(span)
        if data is not None and not (data.kind == "llm" and _is_opening(span, data)):
            known[span.context.span_id] = data
    families: dict[int, list[ForeignSpan]] = {}
    for here, data in known.items():
        nearest, top = _kept_above(here, known, parents), _topmost(here, known, parents)
        parent = nearest if here != top else above
        known[here] = replace(data, parent_id=f"{parent:016x}" if parent else None)
        families.setdefault(top, []).append(known[here])
    new = frozenset(new)
    for top, family in families.items():
        whole = naming_its_model(known[top], family)
        is_scored = whole.kind in SCORED
        span = scored(whole, family, evaluators) if is_scored else adopted(known[top])
        steps = [int(data.span_id, 16) for data in family]
        inherit_late(span, next((contexts[here] for here in (top, *steps) if here in contexts), ()))
        for data, here in zip(family, steps, strict=True):
            if here in new and here != top:
                step = adopted(data)
                inherit_late(step, contexts.get(here, ()))
                step.owner = span
                yield step
        if top in new:
            span.owner = None if is_scored else span
            yield span


def of_sdk(span: Any) -> ForeignSpan | None:
    """Read a span of OpenTelemetry's SDK that has ended."""
    context = span.context
    return finished(
        span,
        trace_id=f"{context.trace_id:032x}",
        span_id=f"{context.span_id:016x}",
        parent_id=None,
        name=span.name,
        times=(span.start_time or 0, span.end_time or span.start_time or 0),
    )


def _is_opening(span: Any, data: ForeignSpan) -> bool:
    """Say whether the answer of a call stands elsewhere.

    Logfire ends the span of a streamed call when the stream begins, and writes a second one, with
    question, answer and tokens, when it ended.
    """
    return (
        (span.attributes or {}).get("logfire.span_type") == "span"
        and not span.status.description
        and data.response is None
        and data.usage is None
    )


def _topmost(here: int, known: Mapping[int, ForeignSpan], parents: Mapping[int, int]) -> int:
    top = here
    while (above := parents.get(here)) is not None:
        here = above
        if here in known:
            top = here
    return top


def _kept_above(here: int, known: Mapping[int, ForeignSpan], parents: Mapping[int, int]) -> int:
    """Return the nearest span above one that is kept too."""
    for _ in range(len(parents)):
        here = parents.get(here, 0)
        if here in known or not here:
            return here
    return 0


_ROLES_OF = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
}


def attributes_of(span: Any) -> Mapping[str, Any]:
    """Return a span's attributes, with what older conventions wrote as events on it."""
    attributes = dict(span.attributes or {})
    turns: list[dict[str, Any]] = []
    documents: list[dict[str, Any]] = []
    for event in span.events or ():
        about = dict(event.attributes or {})
        if event.name in _ROLES_OF:
            turns.append({"role": _ROLES_OF[event.name], "content": about.get("content", "")})
        elif event.name == "gen_ai.choice":
            message = conventions.parsed(about.get("message", about.get("content")))
            attributes.setdefault("gen_ai.completion", message)
        elif event.name == "db.query.result":  # Traceloop's vector stores
            documents.append({key.rpartition(".")[2]: item for key, item in about.items()})
        elif event.name.startswith("gen_ai."):
            attributes = {**about, **attributes}
    if turns:
        attributes.setdefault("gen_ai.prompt", turns)
    if documents:
        attributes.setdefault(
            "gen_ai.retrieval.documents",
            [{**one, "content": one.get("document", one.get("content"))} for one in documents],
        )
        attributes.setdefault("traceloop.span.kind", "retrieval")
    return attributes
