"""The active span: annotating and reading it, and carrying it to threads and processes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from llmeval_sdk.model import Prompt
from llmeval_sdk.process.loading import loading
from llmeval_sdk.process.shield import caught, swallow
from llmeval_sdk.tracing._span import Link, Span, Spec, current, state


if TYPE_CHECKING:
    from llmeval_sdk.model.protocols import ContextBridge


_inherited: ContextVar[tuple[Mapping[str, object], ...]] = ContextVar(
    "llmeval_annotations", default=()
)


def current_span() -> Span | None:
    """Return the span that is active here, or ``None`` outside any.

    Examples:
        >>> with llmeval.workflow("answer"):
        ...     llmeval.current_span().name
        'answer'
    """
    span = current.get()
    return span if type(span) is Span else None


def export_span(span: Span | None = None) -> dict[str, str] | None:
    """Return the ids of a span, so that scores can be submitted on it later or elsewhere.

    Args:
        span: The span; the active one by default.

    Returns:
        A mapping of ``trace_id`` and ``span_id``, or ``None`` outside a span. While the Datadog
        exporter is on, the ids are Datadog's.

    Examples:
        >>> with llmeval.workflow("answer"):
        ...     ids = llmeval.export_span()
        >>> llmeval.submit_evaluation(label="polite", value=True, span=ids)
    """
    if span is None:
        span = current_span()
    if type(span) is not Span:
        return None
    for neighbour in state.neighbours:
        ids = neighbour.ids_of(span)
        if ids is not None:
            return ids
    return {"trace_id": span.trace_id, "span_id": span.span_id}


def read_ids(ids: Mapping[str, object]) -> tuple[str | None, str]:
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
    request: object = None,
    response: object = None,
    retrieved_context: object = None,
    extractions: object = None,
    value: object = None,
    confidence: float | str | None = None,
    field_config: Mapping[str, object] | None = None,
    field: str | None = None,
    retrieval: Mapping[str, object] | None = None,
    expected_facts: Sequence[str] | None = None,
    expected_response: str | None = None,
    expected_retrieved_context: object = None,
    abstained: str | None = None,
    prompt: Prompt | Mapping[str, object] | str | None = None,
    metadata: Mapping[str, object] | None = None,
    metrics: Mapping[str, float] | None = None,
    tags: Mapping[str, str] | None = None,
    session_id: str | None = None,
    user_id: str | None = None,
    input_data: object = None,
    output_data: object = None,
    **others: object,
) -> None:
    """Add to a span: what was asked, retrieved, extracted and answered, and anything else.

    It never raises. What comes after the span has ended is not kept, and is counted.

    Args:
        span: The span to add to; the active one by default.
        request: What was asked.
        response: What was answered.
        retrieved_context: The passages in rank order; each is a text, a mapping, a `Chunk` or a
            document object of a retrieval library.
        extractions: What an LLM took from the chunks: each an `Extraction`, or a mapping with
            ``value``, ``chunk_number`` (beginning with 1), ``confidence`` and ``evidence``.
        value: The aggregated value, where it is not the response.
        confidence: The aggregation's own confidence: 0..1, or HIGH, MEDIUM or LOW.
        field_config: What is known about an extracted field: ``name``, ``description``, ``format``.
        field: The path of that field in the app's answer, such as ``lines[2].amount``, where the
            span is about this field alone. `submit_feedback` takes the same path.
        retrieval: How the search went: ``limits`` by method and ``total_before_filter``. With
            ``"scores": "ranks"``, ``context_relevance`` uses ranks instead of scores, for scores on
            different scales.
        expected_facts: Ground truth, one fact in each item.
        expected_response: Ground truth as a complete answer.
        expected_retrieved_context: Ground-truth chunks; each needs ``doc_uri``.
        abstained: Why the app chose to give no answer, such as ``"not in the document"``. Without
            it, an answer that is missing counts as lost.
        prompt: The prompt of an LLM call.
        metadata: Anything else worth keeping.
        metrics: Numbers, such as ``input_tokens`` and ``output_tokens``.
        tags: Labels to filter by; ``session_id`` among them sets the session.
        session_id: The session or conversation that the span belongs to.
        user_id: The app's user; kept as a tag.
        input_data: Another name for ``request``, which ddtrace uses.
        output_data: Another name for ``response``, which ddtrace uses.
        **others: Names that other libraries use for these fields. Any other name is not kept; it is
            counted and logged once.

    Examples:
        >>> @llmeval.workflow
        ... def year_built(document: str) -> str:
        ...     llmeval.annotate(
        ...         extractions=[{"value": "1932", "chunk_number": 1, "confidence": "HIGH"}],
        ...         retrieval={"limits": {"bm25": 20}, "total_before_filter": 60},
        ...     )
        ...     return "1932"
        >>> year_built("survey.pdf")
        '1932'
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
        field=field,
        retrieval=retrieval,
        expected_facts=expected_facts,
        expected_response=expected_response,
        expected_retrieved_context=expected_retrieved_context,
        abstained=abstained,
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
    prompt: Prompt | Mapping[str, object] | str | None = None,
    tags: Mapping[str, str] | None = None,
    name: str | None = None,
    metadata: Mapping[str, object] | None = None,
    field_config: Mapping[str, object] | None = None,
    session_id: str | None = None,
    user_id: str | None = None,
    **others: object,
) -> Iterator[None]:
    """Annotate every span that starts inside the block, such as those of instrumented clients.

    Args:
        prompt: The prompt; only ``llm`` spans get it.
        tags: Labels to filter by.
        name: Another name for the span; only ``llm`` spans get it.
        metadata: Anything else worth keeping.
        field_config: What is known about an extracted field: ``name``, ``description``, ``format``.
        session_id: The session or conversation that the spans belong to.
        user_id: The app's user; kept as a tag.
        **others: Further fields of `annotate`. Any other name is not kept; it is counted and logged
            once.

    Examples:
        >>> with llmeval.annotation_context(tags={"team": "roofs"}, session_id="chat-7"):
        ...     with llmeval.workflow("answer") as span:
        ...         span.response = "Slate."
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


def _enter(stack: ExitStack, neighbour: ContextBridge, fields: dict[str, object]) -> None:
    """Open another library's annotation context too, for the spans that it instruments."""
    try:
        if state.identities is not None:
            fields = state.identities.without(fields)
        stack.enter_context(neighbour.annotation_context(**fields))
    except Exception as error:
        if not swallow("annotation_context", error):
            raise


_LLM_ONLY = ("prompt", "name")


def contexts_around() -> tuple[Mapping[str, object], ...]:
    """Return the fields of the `annotation_context` blocks that the caller is inside of."""
    return _inherited.get()


def inherit_late(span: Span, contexts: tuple[Mapping[str, object], ...]) -> None:
    """Give a span of another library, which has ended, the fields of the blocks it began in.

    What the library itself says of the session and in its tags takes precedence.
    """
    if contexts:
        ended, span.end_ns = span.end_ns, 0
        inherit(span, span.spec._replace(tags=span.tags), contexts)
        span.end_ns = ended


def inherit(
    span: Span, spec: Spec | None = None, contexts: tuple[Mapping[str, object], ...] | None = None
) -> None:
    """Give a new span the fields of the `annotation_context` blocks around it.

    The tags and the session that its own decorator or block declared, in ``spec``, take precedence.
    """
    around = _inherited.get() if contexts is None else contexts
    for fields in around:
        if span.kind == "llm":
            span.annotate(**fields)
        else:
            span.annotate(**{key: item for key, item in fields.items() if key not in _LLM_ONLY})
    if around and spec is not None:
        span.annotate(tags=spec.tags, session_id=spec.session_id)


_OFF = Link(0, 0, 0, recording=False)


def off() -> None:
    """Record nothing from here on in this thread or task: for threads of our own."""
    current.set(_OFF)


def is_off() -> bool:
    """Return whether this thread or task is inside `disabled`, or was switched `off`."""
    return current.get() is _OFF


@contextmanager
def disabled() -> Iterator[None]:
    """Trace and evaluate nothing inside the block, in this task or thread only.

    Examples:
        >>> with llmeval.disabled():
        ...     llmeval.enabled()
        False
    """
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


# The active span in threads, executors and other processes.


P = ParamSpec("P")
R = TypeVar("R")

SESSION = "session.id"
"""Member of ``baggage`` that says which session a request belongs to."""
USER = "user.id"
"""The same for the app's user."""
MAX_SESSION = 200
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


def wrap_context(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that runs where you call this from: hand it to a thread.

    May be called many times and at once; each call runs in a copy of today's context.
    """
    context = copy_context()

    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        return context.copy().run(function, *args, **kwargs)

    try:
        return wraps(function)(run)
    except Exception as error:  # a callable object that raises where its name is read
        if not swallow("wrap_context", error):
            raise
        return run


class ContextExecutor(ThreadPoolExecutor):
    """A thread pool whose tasks see the span that was active when they were submitted."""

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Schedule a call in a copy of the caller's context."""
        call: Any = copy_context().run
        return super().submit(call, fn, *args, **kwargs)


def inject(headers: MutableMapping[str, str]) -> None:
    """Write what another process needs to go on into the headers of a call to it.

    That is ``traceparent`` of the active span, and in ``baggage`` the session it belongs to beside
    what OpenTelemetry carries there. Never raises.
    """
    try:
        _inject(headers)
    except Exception as error:
        if not swallow("inject", error):
            raise


def _inject(headers: MutableMapping[str, str]) -> None:
    here = current.get()
    if type(here) is Link and not here.recording:
        return
    for neighbour in state.neighbours:
        neighbour.inject(headers)
    span = _innermost(here)
    if span is None:
        return
    if type(span) is Span:
        ids = (span.trace_number, span.span_number, span.flags)
    else:
        ids = (span.trace_id, span.span_id, span.flags)
    headers["traceparent"] = f"00-{ids[0]:032x}-{ids[1]:016x}-{ids[2]:02x}"
    hashed = str if state.identities is None else state.identities.hashed
    named = ((SESSION, (here or span).session_id), (USER, _user(here)))
    known = {name: id_ for name, value in named if value and (id_ := hashed(value))}
    if known:
        with loading:
            from urllib.parse import quote

        members = [each for each in _members(headers.get("baggage")) if each[0] not in known]
        members += [
            (name, quote(v[:MAX_SESSION], "", errors="replace")) for name, v in known.items()
        ]
        headers["baggage"] = ",".join("=".join(each) for each in members)


def _user(span: Span | Link | None) -> str | None:
    """Return the user of a span, or of the nearest one around it."""
    while type(span) is Span:
        if user := (span._tags or {}).get("user_id"):
            return user
        span = span.parent
    return None


def _innermost(here: Span | Link | None) -> Span | Link | None:
    """Return what is active: a span of another library where that is inside ours."""
    around: Span | Link | None = state.ambient_parent() if state.ambient_parent else None
    if here is None:
        return around
    trace = here.trace_number if type(here) is Span else here.trace_id
    return around if type(around) is Link and around.trace_id == trace else here


@contextmanager
def extract(headers: Mapping[str, object]) -> Iterator[None]:
    """Make the span that a caller injected the parent of what starts inside the block.

    Its session and user become theirs; where the app uses OpenTelemetry, that gets the caller's
    baggage. Headers without a valid ``traceparent`` begin a new trace.
    """
    link, entered, texts = None, [], {}
    try:
        texts = {str(name).lower(): _text(value) for name, value in headers.items()}
        link = _parse(texts)
        if texts.get("baggage"):
            entered = [(each, each.extract(texts)) for each in state.neighbours]
    except Exception as error:
        if not swallow("extract", error):
            raise
    before, user = current.get(), link and _member(texts.get("baggage"), USER)
    if link is not None:
        current.set(link)
    try:
        with annotation_context(user_id=user) if user else nullcontext():
            yield
    finally:
        if link is not None:
            current.set(before)
        for neighbour, context in reversed(entered):
            if context is not None:
                neighbour.put(context)


def _parse(headers: Mapping[str, str]) -> Link | None:
    found = _TRACEPARENT.fullmatch(headers.get("traceparent", "").strip())
    if found is None or found[1] == "ff" or (found[1] == "00" and found[5]):
        return None
    trace_id, span_id = int(found[2], 16), int(found[3], 16)
    if not trace_id or not span_id:
        return None
    return Link(
        trace_id, span_id, int(found[4], 16), session_id=_member(headers.get("baggage"), SESSION)
    )


def _member(baggage: str | None, name: str) -> str | None:
    value = dict(_members(baggage)).get(name, "").partition(";")[0].strip()
    if not value:
        return None
    with loading:
        from urllib.parse import unquote_plus  # OpenTelemetry for Python writes a space as +

    return unquote_plus(value)[:MAX_SESSION]


def _members(baggage: str | None) -> list[tuple[str, str]]:
    """Read the members of a ``baggage`` header; a value keeps the properties behind it."""
    found = (each.partition("=") for each in (baggage or "").split(",") if "=" in each)
    return [(name.strip(), value.strip()) for name, _, value in found]


def _text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
