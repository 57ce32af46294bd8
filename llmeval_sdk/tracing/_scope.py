"""A span that is described and not yet begun: a decorator or a ``with`` block."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from llmeval_sdk.model import SpanKind
from llmeval_sdk.process.shield import swallow
from llmeval_sdk.tracing._annotate import inherit
from llmeval_sdk.tracing._capture import capture
from llmeval_sdk.tracing._shapes import traced
from llmeval_sdk.tracing._span import Link, Span, Spec, finish, start
from llmeval_sdk.tracing._state import current, make_current, state


P = ParamSpec("P")
R = TypeVar("R")
MAX_NAME = 1_000
"""Characters of a span's name, session or user that are kept."""


class Scope:
    """What ``llmeval.workflow(...)`` and its siblings return.

    Use it as a decorator, or in a ``with`` or ``async with`` block, which yields the open
    `llmeval_sdk.tracing.Span`. One scope may open many spans, also at the same time.
    """

    __slots__ = ("_entered", "_metadata", "_named", "_request", "_spec")

    def __init__(  # noqa: PLR0917 - the functions that make one name every argument
        self,
        kind: SpanKind,
        name: str | None,
        evaluators: Sequence[Any],
        session_id: str | None,
        user_id: str | None,
        tags: Mapping[str, str] | None,
        request: Any,
        metadata: Mapping[str, Any] | None,
        model_name: str | None = None,
        model_provider: str | None = None,
    ) -> None:
        if isinstance(evaluators, str):
            raise TypeError(f"evaluators must be a list: [{evaluators!r}]")
        name = name[:MAX_NAME] if type(name) is str else name
        session_id = None if session_id is None else str(capture(session_id))[:MAX_NAME]
        if user_id is not None:
            known = capture(tags)
            user = {"user_id": str(capture(user_id))[:MAX_NAME]}
            # First, as a limit cuts the last tags; and last, to win over a tag of the same name.
            tags = {**user, **known, **user} if type(known) is dict else user
        self._named = bool(name)
        self._spec = Spec(
            kind, name or kind, tuple(evaluators), session_id, tags, model_name, model_provider
        )
        self._request = request
        self._metadata = metadata
        self._entered: list[tuple[Span | None, Span | Link | None]] = []
        """The open spans, each with the span that was current before it."""

    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]:
        """Decorate a function: plain, coroutine, generator or async generator."""
        spec = self._spec
        if not self._named:
            plain = getattr(function, "__func__", function)
            inner = getattr(plain, "func", plain)
            spec = spec._replace(name=str(getattr(inner, "__name__", "call")))
        if spec.evaluators:
            state.note_requested(spec.name, spec.evaluators)
        return traced(function, spec)

    def __enter__(self) -> Span:
        """Begin a span and make it current."""
        span = None
        before = current.get()
        if state.enabled:
            try:
                span = start(self._spec, before)
                if span is not None:
                    inherit(span, self._spec)
                    span.annotate(request=self._request, metadata=self._metadata)
            except Exception as error:
                if not swallow("span.start", error):
                    raise
        self._entered.append((span, before))
        if span is None:
            return Span(self._spec, None)  # is never recorded, but the block may write to it
        make_current(span)
        return span

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the span; the one before it becomes current again, in the context that entered."""
        now = current.get()
        places = [place for place, (span, _) in enumerate(self._entered) if span is now]
        span, before = self._entered.pop(places[-1] if places else -1)
        if span is None:
            return
        if now is span:
            make_current(before)
        finish(span, error)

    async def __aenter__(self) -> Span:
        """Begin a span; ``async with`` works like ``with``."""
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the span."""
        self.__exit__(kind, error, trace)


def decorated_or_scope(kind: SpanKind, target: Any, *options: Any) -> Any:
    """Decorate a function that was passed alone, as in ``@workflow``, or return a `Scope`."""
    if callable(target) or isinstance(target, (staticmethod, classmethod)):
        return Scope(kind, None, *options)(target)
    return Scope(kind, target, *options)
