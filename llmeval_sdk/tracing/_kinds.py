"""The seven kinds of span, each a decorator, a called decorator and a context manager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, overload

from llmeval_sdk._process.shield import swallow
from llmeval_sdk.model import SpanKind
from llmeval_sdk.tracing._annotate import inherit
from llmeval_sdk.tracing._shapes import traced
from llmeval_sdk.tracing._span import Link, Span, Spec, finish, start
from llmeval_sdk.tracing._state import current, make_current, state


P = ParamSpec("P")
R = TypeVar("R")
MAX_NAME = 1_000
"""Characters of a name or session that are kept."""


class Kind:
    """What ``llmeval.workflow`` and its siblings are."""

    __slots__ = ("_kind",)

    def __init__(self, kind: SpanKind) -> None:
        self._kind = kind

    @overload
    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]: ...

    @overload
    def __call__(
        self,
        name: str | None = None,
        /,
        *,
        evaluators: Sequence[Any] = (),
        session_id: str | None = None,
        tags: dict[str, str] | None = None,
        request: Any = None,
        metadata: dict[str, Any] | None = None,
    ) -> Scope: ...

    @overload
    def __call__(
        self,
        *,
        name: str,
        evaluators: Sequence[Any] = ...,
        session_id: str | None = ...,
        tags: dict[str, str] | None = ...,
        request: Any = ...,
        metadata: dict[str, Any] | None = ...,
    ) -> Scope: ...

    def __call__(self, *given: Any, **options: Any) -> Any:
        """Decorate a function, or make a scope that decorates one or opens a span.

        Args:
            *given: the function to trace, or the span's name.
            **options: ``name`` (default: the function's), ``evaluators`` to run on the span beside
                the built-in heuristics (names or objects), ``session_id``, ``tags``; for a context
                manager also ``request`` and ``metadata``.
        """
        (first,) = given or (None,)
        if callable(first) or isinstance(first, (staticmethod, classmethod)):
            return Scope(self._kind)(first)
        if first is not None:
            options["name"] = first
        return Scope(self._kind, **options)

    def __repr__(self) -> str:
        return f"llmeval_sdk.{self._kind}"


class LLMKind(Kind):
    """``llm`` and ``embedding``, which also know their model."""

    __slots__ = ()

    @overload
    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]: ...

    @overload
    def __call__(
        self,
        model_or_name: str | None = None,
        /,
        *,
        model_name: str | None = None,
        model_provider: str | None = None,
        name: str | None = None,
        model: str | None = None,
        evaluators: Sequence[Any] = (),
        session_id: str | None = None,
        tags: dict[str, str] | None = None,
        request: Any = None,
        metadata: dict[str, Any] | None = None,
    ) -> Scope: ...

    def __call__(self, *given: Any, **options: Any) -> Any:
        """Decorate a function, or make a scope; ``model_name`` (or ``model``) names the model.

        A text without a keyword is the model's name, as in ddtrace; beside a ``model_name`` it is
        the span's.
        """
        model = options.pop("model", None)
        if model is not None:
            options.setdefault("model_name", model)
        if given and isinstance(given[0], str) and options.get("model_name") is None:
            options["model_name"], given = given[0], ()
        return super().__call__(*given, **options)


class Scope:
    """A span that is described and not begun: use it as a decorator or in a ``with`` block."""

    __slots__ = ("_annotations", "_entered", "_name", "_options")

    def __init__(
        self,
        kind: SpanKind,
        *,
        name: str | None = None,
        evaluators: Sequence[Any] = (),
        request: Any = None,
        metadata: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        if isinstance(evaluators, str):
            raise TypeError(f"evaluators must be a list: [{evaluators!r}]")
        self._name = name[:MAX_NAME] if type(name) is str else name
        session = options.get("session_id")
        if type(session) is str:
            options["session_id"] = session[:MAX_NAME]
        self._options: dict[str, Any] = {"kind": kind, "evaluators": tuple(evaluators), **options}
        Spec(name=name or str(kind), **self._options)  # a wrong option is told at once
        self._annotations = {"request": request, "metadata": metadata}
        self._entered: list[tuple[Span | None, Span | Link | None]] = []
        """The spans under way, each with what was current before: one scope may be used again."""

    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]:
        """Decorate a function of any shape."""
        plain = getattr(function, "__func__", function)
        inner = getattr(plain, "func", plain)
        name = self._name or str(getattr(inner, "__name__", "call"))
        spec = Spec(name=name, **self._options)
        if spec.evaluators:
            state.asked.append((spec.name, spec.evaluators))
        return traced(function, spec)

    def __enter__(self) -> Span:
        """Begin the span and make it current."""
        spec = Spec(name=self._name or self._options["kind"], **self._options)
        span = None
        before = current.get()
        if state.enabled:
            try:
                span = start(spec, before)
                if span is not None:
                    inherit(span)
                    span.annotate(**self._annotations)
            except Exception as error:
                if not swallow("span.start", error):
                    raise
        self._entered.append((span, before))
        if span is None:
            return _unrecorded(spec)
        make_current(span)
        return span

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the span and put back what was current, in the context that entered."""
        now = current.get()
        places = [place for place, (span, _) in enumerate(self._entered) if span is now]
        span, before = self._entered.pop(places[-1] if places else -1)
        if span is None:
            return
        if now is span:
            make_current(before)
        finish(span, error)

    async def __aenter__(self) -> Span:
        """Begin the span; ``async with`` works too."""
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the span."""
        self.__exit__(kind, error, trace)


def _unrecorded(spec: Spec) -> Span:
    """Make a span that nobody sees, so that the block can write to it all the same."""
    return Span(spec, None)


workflow = Kind("workflow")
task = Kind("task")
retrieval = Kind("retrieval")
tool = Kind("tool")
agent = Kind("agent")
llm = LLMKind("llm")
embedding = LLMKind("embedding")
