"""What a finished span of another library says -> `SpanData`, online and in a data set alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from llmeval_sdk.model import NOTHING, Failure, SpanData
from llmeval_sdk.model.records import OWNERS, Contribution, Conversation, rolled_up
from llmeval_sdk.tracing import Span
from llmeval_sdk.tracing.foreign import conventions
from llmeval_sdk.tracing.foreign.messages import is_paused, resumes
from llmeval_sdk.tracing.internals import adopted, capture, inherit_late


_Key = TypeVar("_Key")

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
    agent = conventions.agent_of(attributes)
    if kind in ("workflow", "task") and agent == attributes.get("traceloop.entity.name", name):
        kind = "agent"  # LangGraph runs it as a chain
    model, provider = conventions.model_of(attributes)
    start, end = times
    instrumentation = getattr(getattr(span, "instrumentation_scope", None), "name", None)
    error = _error(span, attributes)
    if kind == "tool":
        result = conventions.result_of(attributes)
        return ForeignSpan(
            trace_id,
            span_id,
            parent_id,
            conventions.name_of(attributes, name),
            kind,
            start,
            end,
            request=capture(conventions.arguments_of(attributes, name)),
            response=capture(result.result),
            error=error or result.error,
            attributes=conventions.metadata_of(attributes),
            session_id=conventions.session_of(attributes),
            tags=conventions.tags_of(attributes),
            agent=agent,
            instrumentation=instrumentation,
        )
    is_embedding = kind == "embedding"
    used = conventions.used(attributes) if kind == "llm" or is_embedding else (None, {})
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
        offered=conventions.definitions(attributes) if kind in ("llm", "agent") else None,
        agent=agent,
        instrumentation=instrumentation,
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
    top: ForeignSpan, family: Sequence[ForeignSpan], evaluators: tuple[object, ...] = ()
) -> Span:
    """Make the span of ours that is scored, with all that the spans below it tell."""
    span = adopted(answered(_of_a_user(top, family), family), evaluators=evaluators)
    for contribution in contributions_to(top, family):
        span.collect(contribution)
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
    are kept too; that of a topmost one is ``above``, a span of ours, or else an outside parent.
    ``contexts`` has the fields of the annotation contexts that spans began in.
    """
    contexts = contexts or {}
    known: dict[int, ForeignSpan] = {}
    for span in spans:
        data = of_sdk(span)
        if data is not None and not (data.kind == "llm" and _is_opening(span, data)):
            known[span.context.span_id] = data
    nearest = {here: _kept_above(here, known, parents) for here in known}
    new = frozenset(new)
    for top, steps in families(nearest).items():
        for here in steps:
            kept = nearest[here] or above
            parent = kept or parents.get(here, 0)
            known[here] = replace(
                known[here],
                parent_id=f"{parent:016x}" if parent else None,
                outside_parent=bool(parent) and not kept,
            )
        family = [known[here] for here in steps]
        whole = naming_its_model(known[top], family)
        is_scored = whole.kind in SCORED
        span = scored(whole, family, evaluators) if is_scored else adopted(known[top])
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


def _kept_above(here: int, known: Mapping[int, ForeignSpan], parents: Mapping[int, int]) -> int:
    """Return the nearest span above one that is kept too; 0 where there is none."""
    for _ in range(len(parents)):
        here = parents.get(here, 0)
        if here in known or not here:
            return here
    return 0


def families(above: Mapping[_Key, _Key | None]) -> dict[_Key, list[_Key]]:
    """Return the topmost spans, each with itself and all below it.

    ``above`` has the span above each. Of spans that hang in a circle, the first is the topmost.
    """
    tops: dict[_Key, _Key] = {}
    members: dict[_Key, list[_Key]] = {}
    for key in above:
        path: list[_Key] = []
        here = key
        while here not in tops:
            path.append(here)
            tops[here] = here
            here = above[here] or here
        top = tops[here]
        tops.update(dict.fromkeys(path, top))
        members.setdefault(tops[key], []).append(key)
    return members


_ROLES_OF = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
}


def attributes_of(span: Any) -> Mapping[str, object]:
    """Return a span's attributes, with what older conventions wrote as events on it."""
    attributes = dict(span.attributes or {})
    turns: list[dict[str, object]] = []
    documents: list[dict[str, object]] = []
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


# What the spans of another library tell of an agent's run, whoever of them tells it.
#
# The topmost span often has no question, and in the place of an answer the serialised state of a
# graph; the calls of tools stand in spans of their own, and the tools offered on the model calls.


_SPEAKS = (*OWNERS, "llm")
"""Kinds of spans whose answer may be that of the whole run."""
_CALLS = ("tool", "llm")
_MAX_TWINS = 100
"""Spans among which the same call by another instrumentation is looked for, the latest ones."""
_MAX_TOOLS = 1_000
_ROOM = 4_000_000, 20_000, 0
"""Characters and values that are kept of the messages of one model call."""
_MAX_PLACES = 10_000
"""Values of a state among which an answer is looked for."""


@dataclass(frozen=True, slots=True)
class ForeignSpan(SpanData):
    """A finished span of another library, with what only its attributes say of a run."""

    conversation: tuple[object, ...] = ()
    """The messages of a model call and its answer, as they were written."""
    offered: tuple[Mapping[str, object], ...] | None = None
    """Definitions of the tools that a model or an agent was offered."""
    agent: str | None = None
    """The agent that it belongs to."""
    instrumentation: str | None = None
    """The instrumentation that made it."""


def answered(top: ForeignSpan, family: Sequence[ForeignSpan]) -> ForeignSpan:
    """Give a topmost span the question and the answer of its run, as people saw them.

    Where it has none itself, the first question and the last answer below it count. A state of a
    graph, which is no text, gives way to the last answer of a model if it contains that; and where
    the span is an agent's, to a text with which its last model call answered. A run that waits for
    a person has no answer, and one that goes on after that has the question of its messages.
    """
    if top.kind not in OWNERS:
        return top
    is_resumed = resumes(top.request)
    request = None if is_resumed else top.request
    response = None if is_paused(top.response) else top.response
    kinds = ("llm",) if is_resumed else _SPEAKS
    asked = [span for span in family if span.kind in kinds and span.request]
    if not request and asked:
        request = min(asked, key=_start).request
    if response is top.response and not isinstance(response, str):
        spoken = _spoken(top, family)
        texts = [text for span in spoken if (text := _text(span)).strip()]
        last = next((_text(span) for span in reversed(spoken) if span.kind == "llm"), "")
        if response is None:
            response = texts[-1] if texts else None
        elif texts and _holds(response, texts[-1]):
            response = texts[-1]
        elif top.kind == "agent" and last.strip():
            response = last
    return replace(top, request=request, response=response)


def contributions_to(top: ForeignSpan, family: Sequence[ForeignSpan]) -> list[Contribution]:
    """Return the contributions to a topmost span: documents, usage, steps, tools."""
    offered: dict[str, Mapping[str, object]] = {}
    for span in family:
        for tool in (span.offered or ())[:_MAX_TOOLS]:
            if len(offered) < _MAX_TOOLS:
                offered.setdefault(str(tool["name"]), tool)
    below = _without_twins([_as_step(span, offered) for span in family if span is not top])
    contributions = rolled_up(top, below, whole=True)
    longest = max((span.conversation for span in family), key=len, default=())
    return [*contributions, *_contributions(longest, tuple(offered.values()))]


def contributions_of_call(call: ForeignSpan) -> list[Contribution]:
    """Return the contributions of a model call to its run: its messages, and tools."""
    return _contributions(call.conversation, tuple(call.offered or ())[:_MAX_TOOLS])


def _contributions(
    messages: Sequence[object], offered: tuple[Mapping[str, object], ...]
) -> list[Contribution]:
    contributions: list[Contribution] = []
    if messages:
        contributions.append(Conversation(capture(messages, list(_ROOM)), None, None))
    if offered:
        contributions.append({"tools": offered})
    return contributions


def _as_step(span: ForeignSpan, offered: Mapping[str, Mapping[str, object]]) -> ForeignSpan:
    """Give an agent its own name, and a tool's only argument that came without a name its name."""
    if span.kind == "agent" and span.agent:
        return replace(span, name=span.agent)
    if span.kind == "tool" and isinstance(span.request, (str, int, float)):
        parameters = offered.get(span.name, NOTHING).get("parameters") or NOTHING
        names = list(parameters.get("properties") or ())
        if len(names) == 1:  # LangChain passes the value of a lone argument bare
            return replace(span, request={str(names[0]): span.request})
    return span


def _without_twins(spans: list[ForeignSpan]) -> list[ForeignSpan]:
    """Leave out calls of tools and models that a second instrumentation told of as well.

    One instrumentation tells of a call once, so two equal calls that it tells of are two.
    """
    if len({span.instrumentation for span in spans}) < 2:
        return spans
    kept: list[ForeignSpan] = []
    twins: set[tuple[str, str | None]] = set()
    for span in sorted(spans, key=_start):
        for other in reversed(kept[-_MAX_TWINS:] if span.kind in _CALLS else ()):
            if _is_twin(other, span) and (other.span_id, span.instrumentation) not in twins:
                twins.add((other.span_id, span.instrumentation))
                break
        else:
            kept.append(span)
    return kept


def _is_twin(one: ForeignSpan, other: ForeignSpan) -> bool:
    if (
        one.kind != other.kind
        or one.instrumentation == other.instrumentation
        or other.start_ns > one.end_ns
    ):
        return False
    if one.kind == "tool":
        return (one.name, one.request) == (other.name, other.request)
    return one.usage is not None and one.usage == other.usage


def _spoken(top: ForeignSpan, family: Sequence[ForeignSpan]) -> list[ForeignSpan]:
    """Return the spans that may have answered, in order, but for those inside of a tool."""
    parents = {span.span_id: span for span in family}

    def is_beside(span: ForeignSpan) -> bool:
        for _ in range(len(parents)):
            above = parents.get(span.parent_id or "")
            if above is None or above is top:
                return False
            if above.kind == "tool":
                return True
            span = above
        return True

    below = [span for span in family if span is not top and span.kind in _SPEAKS]
    return [span for span in sorted(below, key=_end) if not is_beside(span)]


def _text(span: ForeignSpan) -> str:
    return span.response if isinstance(span.response, str) else ""


def _holds(state: object, text: str) -> bool:
    """Say whether a state has a text among its values."""
    return any(value == text for value in _values(state))


def _values(state: object) -> Iterator[object]:
    waiting = [state]
    for _ in range(_MAX_PLACES):
        if not waiting:
            return
        value = waiting.pop()
        if isinstance(value, Mapping):
            waiting.extend(list(value.values())[:_MAX_PLACES])
        elif isinstance(value, (list, tuple)):
            waiting.extend(value[:_MAX_PLACES])
        else:
            yield value


def _start(span: ForeignSpan) -> int:
    return span.start_ns


def _end(span: ForeignSpan) -> int:
    return span.end_ns
