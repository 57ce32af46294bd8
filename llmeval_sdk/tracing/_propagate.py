"""Carrying the active span to threads, executors and other processes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from llmeval_sdk.tracing._span import Link, Span
from llmeval_sdk.tracing._state import current


P = ParamSpec("P")
R = TypeVar("R")

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
    """Write ``traceparent`` of the active span into the headers of a call to another process."""
    span = current.get()
    if span is None:
        return
    if type(span) is Span:
        ids = (span.trace_number, span.span_number, span._flags)
    else:
        ids = (span.trace_id, span.span_id, span.flags)
    if ids[0]:
        headers["traceparent"] = f"00-{ids[0]:032x}-{ids[1]:016x}-{ids[2]:02x}"


@contextmanager
def extract(headers: Mapping[str, Any]) -> Iterator[None]:
    """Make the span that a caller injected the parent of what starts inside the block.

    Headers without a valid ``traceparent`` change nothing.
    """
    link = _parse(headers)
    before = current.get()
    if link is not None:
        current.set(link)
    try:
        yield
    finally:
        if link is not None:
            current.set(before)


def _parse(headers: Mapping[str, Any]) -> Link | None:
    text = headers.get("traceparent") or headers.get("Traceparent")
    if isinstance(text, bytes):
        text = text.decode("ascii", "replace")
    found = _TRACEPARENT.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None or found[1] == "ff" or (found[1] == "00" and found[5]):
        return None
    trace_id, span_id = int(found[2], 16), int(found[3], 16)
    return Link(trace_id, span_id, int(found[4], 16)) if trace_id and span_id else None
