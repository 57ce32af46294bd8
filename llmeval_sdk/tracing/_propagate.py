"""Carrying the active span to threads, executors and other processes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from llmeval_sdk.process.shield import swallow
from llmeval_sdk.tracing._annotate import annotation_context
from llmeval_sdk.tracing._span import Link, Span
from llmeval_sdk.tracing._state import current, state


P = ParamSpec("P")
R = TypeVar("R")

SESSION = "session.id"
"""Member of ``baggage`` that says which session a request belongs to."""
USER = "user.id"
"""The same for the app's user."""
LONGEST_SESSION = 200
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


def wrap_context(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that runs where you call this from: hand it to a thread.

    May be called many times and at once; each call runs in a copy of today's context.
    """
    context = copy_context()

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        return context.copy().run(function, *args, **kwargs)

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
        if not swallow("inject", error, calls_out=True):
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
    known = {name: hashed(value) for name, value in named if value}
    if known:
        from urllib.parse import quote

        members = [each for each in _members(headers.get("baggage")) if each[0] not in known]
        members += [
            (name, quote(v[:LONGEST_SESSION], "", errors="replace")) for name, v in known.items()
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
def extract(headers: Mapping[str, Any]) -> Iterator[None]:
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
        if not swallow("extract", error, calls_out=True):
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
    from urllib.parse import unquote_plus  # OpenTelemetry for Python writes a space as +

    return unquote_plus(value)[:LONGEST_SESSION]


def _members(baggage: str | None) -> list[tuple[str, str]]:
    """Read the members of a ``baggage`` header; a value keeps the properties behind it."""
    found = (each.partition("=") for each in (baggage or "").split(",") if "=" in each)
    return [(name.strip(), value.strip()) for name, _, value in found]


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
