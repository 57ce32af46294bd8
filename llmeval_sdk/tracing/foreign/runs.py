"""What the spans of another library tell of an agent's run, whoever of them tells it.

The topmost span often has no question, and in the place of an answer the serialised state of a
graph; the calls of tools stand in spans of their own, and the tools offered on the model calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from llmeval_sdk.model import NOTHING, SpanData
from llmeval_sdk.model.records import OWNERS, Conversation, Left, gathered_below
from llmeval_sdk.tracing.foreign.messages import is_paused, resumes
from llmeval_sdk.tracing.internals import capture


_SPEAKS = (*OWNERS, "llm")
"""Kinds of spans whose answer may be that of the whole run."""
_CALLS = ("tool", "llm")
_MOST_TWINS = 100
"""Spans among which the same call by another instrumentation is looked for, the latest ones."""
_MOST_TOOLS = 1_000
_ROOM = 4_000_000, 20_000
"""Characters and values that are kept of the messages of one model call."""
_MOST_PLACES = 10_000
"""Values of a state among which an answer is looked for."""


@dataclass(frozen=True, slots=True)
class ForeignSpan(SpanData):
    """A finished span of another library, with what only its attributes say of a run."""

    conversation: tuple[Any, ...] = ()
    """The messages of a model call and its answer, as they were written."""
    offered: tuple[Mapping[str, Any], ...] | None = None
    """Definitions of the tools that a model or an agent was offered."""
    agent: str | None = None
    """The agent that it belongs to."""
    told_by: str | None = None
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


def left_to(top: ForeignSpan, family: Sequence[ForeignSpan]) -> list[Left]:
    """Return what the spans below a topmost one leave to it: documents, usage, steps, tools."""
    offered: dict[str, Mapping[str, Any]] = {}
    for span in family:
        for tool in (span.offered or ())[:_MOST_TOOLS]:
            if len(offered) < _MOST_TOOLS:
                offered.setdefault(str(tool["name"]), tool)
    below = _told_once([_as_step(span, offered) for span in family if span is not top])
    left = gathered_below(top, below, whole=True)
    longest = max((span.conversation for span in family), key=len, default=())
    return [*left, *_shown_by(longest, tuple(offered.values()))]


def left_by_call(call: ForeignSpan) -> list[Left]:
    """Return what a model call leaves of the run that it belongs to: its messages, and tools."""
    return _shown_by(call.conversation, tuple(call.offered or ())[:_MOST_TOOLS])


def _shown_by(messages: Sequence[Any], offered: tuple[Mapping[str, Any], ...]) -> list[Left]:
    left: list[Left] = []
    if messages:
        left.append(Conversation(capture(messages, list(_ROOM)), None, None))
    if offered:
        left.append({"tools": offered})
    return left


def _as_step(span: ForeignSpan, offered: Mapping[str, Mapping[str, Any]]) -> ForeignSpan:
    """Give an agent its own name, and a tool's only argument that came without a name its name."""
    if span.kind == "agent" and span.agent:
        return replace(span, name=span.agent)
    if span.kind == "tool" and isinstance(span.request, (str, int, float)):
        parameters = offered.get(span.name, NOTHING).get("parameters") or NOTHING
        names = list(parameters.get("properties") or ())
        if len(names) == 1:  # LangChain passes the value of a lone argument bare
            return replace(span, request={str(names[0]): span.request})
    return span


def _told_once(spans: list[ForeignSpan]) -> list[ForeignSpan]:
    """Leave out calls of tools and models that a second instrumentation told of as well.

    One instrumentation tells of a call once, so two equal calls that it tells of are two.
    """
    if len({span.told_by for span in spans}) < 2:
        return spans
    kept: list[ForeignSpan] = []
    twins: set[tuple[str, str | None]] = set()
    for span in sorted(spans, key=_start):
        for other in reversed(kept[-_MOST_TWINS:] if span.kind in _CALLS else ()):
            if _is_twin(other, span) and (other.span_id, span.told_by) not in twins:
                twins.add((other.span_id, span.told_by))
                break
        else:
            kept.append(span)
    return kept


def _is_twin(one: ForeignSpan, other: ForeignSpan) -> bool:
    if one.kind != other.kind or one.told_by == other.told_by or other.start_ns > one.end_ns:
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


def _holds(state: Any, text: str) -> bool:
    """Say whether a state has a text among its values."""
    return any(value == text for value in _values(state))


def _values(state: Any) -> Iterator[Any]:
    waiting = [state]
    for _ in range(_MOST_PLACES):
        if not waiting:
            return
        value = waiting.pop()
        if isinstance(value, Mapping):
            waiting.extend(list(value.values())[:_MOST_PLACES])
        elif isinstance(value, (list, tuple)):
            waiting.extend(value[:_MOST_PLACES])
        else:
            yield value


def _start(span: ForeignSpan) -> int:
    return span.start_ns


def _end(span: ForeignSpan) -> int:
    return span.end_ns
