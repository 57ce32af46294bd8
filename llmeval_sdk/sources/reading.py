"""Finished spans of another library -> spans of ours: one that is scored, the others kept."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from llmeval_sdk.model import Failure, SpanKind
from llmeval_sdk.sources import conventions
from llmeval_sdk.tracing import Link, Retrieved, Span, Spent, capture
from llmeval_sdk.tracing._span import Spec


class Seen(NamedTuple):
    """A foreign span that speaks of models."""

    kind: SpanKind
    attributes: Mapping[str, Any]
    span: Any


_SCORED = frozenset(("workflow", "agent", "llm", "retrieval", "task"))


def evaluated(
    spans: Sequence[Any],
    parents: Mapping[int, int],
    evaluators: tuple[Any, ...],
    new: Collection[int],
    above: int = 0,
) -> Iterable[Span]:
    """Yield a span of ours for each that is new.

    The topmost of a trace holds what those below it tell, and is scored; the others, which have an
    owner, are only kept where the exporter is the store. Their parents are the nearest spans that
    are kept too; that of a topmost one is ``above``, a span of ours, or none.
    """
    seen: dict[int, Seen] = {}
    for span in spans:
        attributes = attributes_of(span)
        kind = conventions.kind_of(attributes)
        if kind is not None and not (kind == "llm" and _is_opening(span, attributes)):
            seen[span.context.span_id] = Seen(kind, attributes, span)
    below: dict[int, list[Seen]] = {}
    for each in seen.values():
        top = _topmost(each.span.context.span_id, seen, parents)
        below.setdefault(top, []).append(each)
    for top, family in below.items():
        scored = seen[top].kind in _SCORED
        whole = _span(seen[top], family if scored else [], evaluators if scored else (), above)
        for each in family:
            here = each.span.context.span_id
            if here in new and here != top:
                step = _span(each, [], (), _kept_above(here, seen, parents))
                step._owner = whole
                yield step
        if top in new:
            whole._owner = None if scored else whole
            yield whole


def _is_opening(span: Any, attributes: Mapping[str, Any]) -> bool:
    """Say whether the answer of a call stands elsewhere.

    Logfire ends the span of a streamed call when the stream begins, and writes a second one, with
    question, answer and tokens, when it ended.
    """
    return (
        attributes.get("logfire.span_type") == "span"
        and not span.status.description
        and conventions.response_of(attributes) is None
        and conventions.usage_of(attributes) is None
    )


def _topmost(here: int, seen: Mapping[int, Seen], parents: Mapping[int, int]) -> int:
    top = here
    while (above := parents.get(here)) is not None:
        here = above
        if here in seen:
            top = here
    return top


def _kept_above(here: int, seen: Mapping[int, Seen], parents: Mapping[int, int]) -> int:
    """Return the nearest span above one that is kept too."""
    for _ in range(len(parents)):
        here = parents.get(here, 0)
        if here in seen or not here:
            return here
    return 0


def _span(top: Seen, family: list[Seen], evaluators: tuple[Any, ...], above: int) -> Span:
    source, attributes = top.span, top.attributes
    model, provider = _model(top, family)
    session = conventions.session_of(attributes)
    spec = Spec(top.kind, source.name, evaluators, session, None, model, provider)
    span = Span(spec, Link(source.context.trace_id, above, 1))
    span.span_number = source.context.span_id
    span.start_ns = source.start_time or 0
    span.end_ns = source.end_time or span.start_ns
    asked = {"model_name": model, "model_provider": provider}
    span._attributes = {name: text for name, text in asked.items() if text is not None}
    request = conventions.request_of(attributes)
    response = conventions.response_of(attributes)
    span._request = capture(request, span._room)
    span._response = capture(response, span._room)
    if top.kind == "retrieval":
        span._retrieved = conventions.chunks_of(attributes)
    if top.kind == "llm":
        span._usage = conventions.usage_of(attributes)
    for each in family:
        if each is not top:
            _collect(span, each)
    if attributes.get("error.type") or source.status.description:
        kind = str(attributes.get("error.type") or "error")
        span._error = Failure(kind, (source.status.description or "")[:2_000])
    return span


def _model(top: Seen, family: list[Seen]) -> tuple[str | None, str | None]:
    """Return the model that was asked, and its provider: the span's own, else the last below."""
    asked = (top, *(each for each in reversed(family) if each.kind == "llm"))
    return next(
        filter(any, (conventions.model_of(each.attributes) for each in asked)), (None, None)
    )


def _collect(span: Span, each: Seen) -> None:
    """Take from a span below what belongs to the scored one."""
    if each.kind == "retrieval":
        chunks = conventions.chunks_of(each.attributes)
        if chunks is not None:
            span.collect(Retrieved(each.span.start_time or 0, chunks, ()))
    elif each.kind == "llm":
        usage = conventions.usage_of(each.attributes)
        if usage is not None:
            span.collect(Spent(usage, conventions.model_of(each.attributes)[0]))


_ROLES_OF = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
}


def attributes_of(span: Any) -> Mapping[str, Any]:
    """Return a span's attributes, with what older conventions wrote as events on it."""
    found = dict(span.attributes or {})
    asked: list[dict[str, Any]] = []
    documents: list[dict[str, Any]] = []
    for event in span.events or ():
        about = dict(event.attributes or {})
        if event.name in _ROLES_OF:
            asked.append({"role": _ROLES_OF[event.name], "content": about.get("content", "")})
        elif event.name == "gen_ai.choice":
            message = conventions.parsed(about.get("message", about.get("content")))
            found.setdefault("gen_ai.completion", message)
        elif event.name == "db.query.result":  # Traceloop's vector stores
            documents.append({key.rpartition(".")[2]: item for key, item in about.items()})
        elif event.name.startswith("gen_ai."):
            found = {**about, **found}
    if asked:
        found.setdefault("gen_ai.prompt", asked)
    if documents:
        found.setdefault(
            "gen_ai.retrieval.documents",
            [{**one, "content": one.get("document", one.get("content"))} for one in documents],
        )
        found.setdefault("traceloop.span.kind", "retrieval")
    return found
