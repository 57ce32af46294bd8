"""What a finished span leaves to the evaluated span above it, whoever made the two.

A live span gets these items one by one, as the spans below it end. For spans that are all there at
once, such as those of another library or of a store, `gathered_below` collects the same items.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, TypeVar

from llmeval_sdk._coerce import to_chunks
from llmeval_sdk.model import (
    NOTHING,
    Chunk,
    Evaluation,
    Extraction,
    Failure,
    Prompt,
    SpanKind,
    Step,
    Usage,
)
from llmeval_sdk.records._conversation import conversation_of
from llmeval_sdk.records._prompted import contexts_of, holds_contexts


OWNERS = ("workflow", "agent")
"""Kinds of spans that are always evaluated; what is below one of them belongs to it."""
CONTEXT_ARGUMENTS = frozenset(("chunks", "retrieved_context", "contexts", "documents"))
"""Arguments of an evaluated function that may hold the chunks it works on."""
_NOTED = ("value", "confidence", "field_config", "retrieval")


class FinishedSpan(Protocol):
    """What can be read of a span that has ended: of a live span of ours, or of `SpanData`."""

    @property
    def trace_id(self) -> str: ...
    @property
    def span_id(self) -> str: ...
    @property
    def parent_id(self) -> str | None: ...
    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> SpanKind: ...
    @property
    def start_ns(self) -> int: ...
    @property
    def end_ns(self) -> int: ...
    @property
    def arguments(self) -> Mapping[str, Any] | None:
        """What the function was called with, by name."""

    @property
    def request(self) -> Any:
        """What was asked, where it was annotated; otherwise it follows from the arguments."""

    @property
    def response(self) -> Any: ...
    @property
    def retrieved_context(self) -> tuple[Chunk, ...] | None: ...
    @property
    def extractions(self) -> tuple[Extraction, ...] | None: ...
    @property
    def value(self) -> Any: ...
    @property
    def confidence(self) -> Any: ...
    @property
    def field_config(self) -> Any: ...
    @property
    def retrieval(self) -> Any: ...
    @property
    def expected(self) -> Mapping[str, Any] | None: ...
    @property
    def attributes(self) -> Mapping[str, Any] | None: ...
    @property
    def prompt(self) -> Prompt | None: ...
    @property
    def usage(self) -> Usage | None: ...
    @property
    def metrics(self) -> Mapping[str, float] | None: ...
    @property
    def model_name(self) -> str | None: ...
    @property
    def error(self) -> Failure | None: ...
    @property
    def tags(self) -> Mapping[str, str] | None: ...


class Retrieved(NamedTuple):
    """The documents of one retrieval, left to the evaluated span that they belong to."""

    start_ns: int
    chunks: tuple[Chunk, ...]
    evaluations: tuple[Evaluation, ...] = ()
    """How the retrieval was scored when it ended."""


class Spent(NamedTuple):
    """What a model call used, left to the evaluated span that it belongs to."""

    usage: Usage
    model: str | None = None
    """The model, by which the usage has a price."""
    metrics: Mapping[str, float] = NOTHING
    """Its cached tokens, which have a price of their own."""


ANSWERED = object()
"""An ``llm`` span with a prompt and a response leaves this: judges can look at it itself."""

PROMPTED = "prompted"
"""The note under which an ``llm`` span leaves a prompt with passages in it; its chunks, where it
comes from a spool."""

Left = Any
"""One thing that a span left: `Retrieved`, `Spent`, `Conversation`, a tuple of Extractions,
`ANSWERED`, the `Step` of a tool call, or a mapping of what was annotated, by field of Record."""

EFFECT_TAG = "tool.effect"
"""The tag in which a tool's span says whether the tool reads or writes."""


def tool_call(span: FinishedSpan) -> Step:
    """Return the step that the span of a tool stands for."""
    effect: Any = (span.tags or NOTHING).get(EFFECT_TAG)
    return Step(
        "tool",
        None,
        span.name,
        span.arguments if span.request is None else span.request,
        span.response,
        None if span.error is None else f"{span.error.type}: {span.error.message}",
        effect if effect in ("read", "write") else None,
        span.start_ns,
        span.end_ns,
        span_id=span.span_id,
    )


def named(item: Left, agent: str) -> Left:
    """Say on a step of an agent below another one whose it is."""
    return replace(item, agent=agent) if type(item) is Step and item.agent is None else item


def steps_above(span: FinishedSpan, gathered: Iterable[Left] | None) -> list[Left]:
    """Return the steps of an evaluated span below an agent, which are steps of that one, too."""
    return [named(item, span.name) for item in gathered or () if type(item) is Step]


def left_by(  # noqa: C901, PLR0912
    span: FinishedSpan,
    gathered: Iterable[Left] | None = None,
    *,
    keeps: bool,
    scores: tuple[Evaluation, ...] = (),
) -> list[Left]:
    """Return what a finished span leaves to the evaluated span above it.

    Args:
        span: the span that ended.
        gathered: what the spans below it left to it.
        keeps: whether the span is evaluated itself. Its extractions and annotations are then its
            own. Its documents and tokens still count for the request above it.
        scores: the evaluations of its documents that were made already.
    """
    kind, extractions, usage = span.kind, span.extractions, span.usage
    left: list[Left] = []
    if gathered:
        own: tuple[type, ...] = () if extractions is None or kind not in OWNERS else (tuple,)
        own = (tuple, dict) if keeps else own
        if kind == "llm" and usage is not None:
            own = (*own, Spent)  # its usage includes that of the calls inside it
        left = [item for item in gathered if type(item) not in own]
    chunks = span.retrieved_context
    if kind == "retrieval" and chunks is not None:
        left.append(Retrieved(span.start_ns, chunks, scores))
    if kind == "tool":
        left.append(tool_call(span))
    if kind == "agent":
        left = [named(item, span.name) for item in left]
    if kind == "llm":
        if usage is not None:
            left.append(Spent(usage, span.model_name, span.metrics or NOTHING))
        if (conversation := conversation_of(span)) is not None:
            left.append(conversation)
        if span.prompt is not None and span.response is not None:
            left.append(ANSWERED)
        if span.prompt is not None and holds_contexts(span.prompt):
            left.append({PROMPTED: span.prompt})
    if keeps:
        if kind == "retrieval" and span.retrieval is not None:
            left.append({"retrieval": span.retrieval})
        return left
    if extractions is not None:
        left.append(extractions)
    notes = {name: note for name in _NOTED if (note := getattr(span, name)) is not None}
    if span.expected:
        notes.update(span.expected)
    if chunks is not None and kind != "retrieval":
        notes["retrieved_context"] = chunks
    if notes:
        left.append(notes)
    return left


_Span = TypeVar("_Span", bound=FinishedSpan)


def gathered_below(top: _Span, spans: Iterable[_Span], *, whole: bool = False) -> list[Left]:
    """Return what the finished spans below one of them leave to it.

    What is below another workflow or agent belongs to that one, and not to ``top``. With ``whole``
    the spans are one request: then all of them belong to ``top``, also those below another workflow
    or agent, and those whose parent is missing.
    """
    families = _families(top, spans, whole=whole)
    order: list[_Span] = [top]
    left: dict[str, list[Left]] = {}
    for span in order:
        order.extend(families.get(span.span_id, ()))
    for span in reversed(order):
        below = sorted(families.get(span.span_id, ()), key=_end)
        gathered = [item for child in below for item in left[child.span_id]]
        if span is top:
            return gathered
        if span.kind in OWNERS and not whole:
            left[span.span_id] = steps_above(span, gathered) if top.kind == "agent" else []
        else:
            left[span.span_id] = left_by(span, _nested(span, gathered), keeps=False)
    return []


def _end(span: FinishedSpan) -> int:
    return span.end_ns


def _nested(span: FinishedSpan, gathered: list[Left]) -> list[Left]:
    """Add the chunks that a workflow inside the request was called with to what it gathered."""
    if span.kind in OWNERS and span.retrieved_context is None:
        chunks = chunks_of_arguments(span)
        if chunks is not None and context_of(span, gathered) is chunks:
            return [*gathered, {"retrieved_context": chunks}]
    return gathered


def _families(top: _Span, spans: Iterable[_Span], *, whole: bool) -> dict[str, list[_Span]]:
    """Return the spans below the top one by the id of their parent; cycles are cut."""
    by_id = {span.span_id: span for span in spans}
    by_id[top.span_id] = top
    families: dict[str, list[_Span]] = {}
    reached, waiting = {top.span_id}, [top]
    below: dict[str | None, list[_Span]] = {}
    for span in by_id.values():
        below.setdefault(span.parent_id, []).append(span)

    def descend() -> None:
        while waiting:
            above = waiting.pop()
            for span in below.get(above.span_id, ()):
                if span.span_id not in reached:
                    reached.add(span.span_id)
                    families.setdefault(above.span_id, []).append(span)
                    waiting.append(span)

    descend()
    for span in by_id.values() if whole else ():
        if span.span_id not in reached and span.parent_id not in by_id:
            reached.add(span.span_id)
            families.setdefault(top.span_id, []).append(span)
            waiting.append(span)
            descend()
    return families


def context_of(
    span: FinishedSpan, gathered: Iterable[Left] | None, retrieved: str = "last"
) -> tuple[Chunk, ...] | None:
    """Return the annotated passages, else those of the retrievals below, else of an argument.

    Where there are none of these, they are those in the last prompt below.
    """
    if span.retrieved_context is not None:
        return span.retrieved_context
    retrievals, noted, prompted = [], None, None
    for item in gathered or ():
        if type(item) is Retrieved:
            retrievals.append(item)
        elif type(item) is dict:
            noted = item.get("retrieved_context", noted)
            prompted = item.get(PROMPTED, prompted)
    if noted is not None:
        return noted  # type: ignore[no-any-return]
    if not retrievals:
        chunks = chunks_of_arguments(span)
        if chunks is not None or prompted is None or span.kind == "llm":
            return chunks
        return contexts_of(prompted) if isinstance(prompted, Prompt) else tuple(prompted)
    if retrieved == "all":
        retrievals.sort(key=_start)
        return _union(retrievals)
    return max(retrievals, key=_start).chunks


def with_chunks(notes: dict[str, Any]) -> dict[str, Any]:
    """Return notes in which a prompt that a span left is the chunks that it holds."""
    prompt = notes.get(PROMPTED)
    return {**notes, PROMPTED: contexts_of(prompt)} if type(prompt) is Prompt else notes


def chunks_of_arguments(span: FinishedSpan) -> tuple[Chunk, ...] | None:
    """Return the chunks that an argument of the function or a key of the request holds."""
    for holder in (span.arguments, span.request):
        if type(holder) is dict and not CONTEXT_ARGUMENTS.isdisjoint(holder):
            for name, argument in holder.items():
                if name in CONTEXT_ARGUMENTS and isinstance(argument, (list, tuple)):
                    return to_chunks(argument)
    return None


def _union(retrievals: list[Retrieved]) -> tuple[Chunk, ...]:
    chunks: list[Chunk] = []
    for retrieval in retrievals:
        chunks.extend(chunk for chunk in retrieval.chunks if chunk not in chunks)
    return tuple(chunks)


def _start(item: Retrieved) -> int:
    return item.start_ns
