"""A span that is described and not yet begun, and the functions that it wraps.

A `Scope` is a ``with`` block or a decorator. It wraps functions of four shapes: plain function,
coroutine, generator and async generator. Each wrapper has the shape of its function, so that
frameworks that ask ``inspect`` get the same answer, and everything that is sent or thrown into it
reaches the wrapped generator.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from functools import partial, wraps
from itertools import islice
from time import perf_counter_ns
from types import AsyncGeneratorType, GeneratorType, TracebackType
from typing import Any, ParamSpec, TypeVar

from llmeval_sdk.model import SpanKind
from llmeval_sdk.model.fields import to_chunks
from llmeval_sdk.model.placeholders import Placeholder
from llmeval_sdk.process.shield import caught, shield, swallow
from llmeval_sdk.tracing._capture import MAX_ITEMS, NODE_BYTES, capture, rows
from llmeval_sdk.tracing._context import _inherited, inherit
from llmeval_sdk.tracing._span import (
    Link,
    Span,
    Spec,
    current,
    finish,
    make_current,
    outside_contexts,
    start,
    state,
    swap_contexts,
)


P = ParamSpec("P")
R = TypeVar("R")
MAX_NAME = 1_000
"""Characters of a name of a span, session, user or model that are kept."""


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
        evaluators: Sequence[object],
        session_id: str | None,
        user_id: str | None,
        tags: Mapping[str, str] | None,
        request: object,
        metadata: Mapping[str, object] | None,
        model_name: str | None = None,
        model_provider: str | None = None,
    ) -> None:
        if isinstance(evaluators, str):
            raise TypeError(f"evaluators must be a list: [{evaluators!r}]")
        name, session_id, user_id = _named(name), _named(session_id), _named(user_id)
        tags = labels(tags)
        if user_id is not None:
            user = {"user_id": user_id}
            # First, as a limit cuts the last tags; and last, to win over a tag of the same name.
            tags = {**user, **(tags or {}), **user}
        self._named = bool(name)
        self._spec = Spec(
            kind, name or kind, _listed(evaluators), session_id, tags, _named(model_name),
            _named(model_provider),
        )  # fmt: skip
        if self._spec.evaluators:
            state.note_named(self._spec.evaluators)
        self._request = request
        self._metadata = metadata
        self._entered: list[tuple[Span | None, Span | Link | None]] = []
        """The open spans, each with the span that was current before it."""

    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]:
        """Decorate a function: plain, coroutine, generator or async generator.

        A callable object that raises where it is looked at stays undecorated, and is counted.
        """
        try:
            return self._decorated(function)
        except Exception as error:
            if not swallow("decorator", error):
                raise
            return function

    def _decorated(self, function: Callable[P, R]) -> Callable[P, R]:
        plain = getattr(function, "__func__", function)
        spec = self._spec._replace(function=plain)
        if not self._named:
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


def _named(text: object) -> str | None:
    """Return the name of a span, session, user or model as a text of bounded length."""
    if type(text) is str:
        return text[:MAX_NAME]
    return None if text is None else str(capture(text))[:MAX_NAME]


def _listed(evaluators: Sequence[object]) -> tuple[object, ...]:
    """Return the evaluators that a span names; what is no sequence is counted and left out."""
    try:
        return tuple(evaluators)
    except Exception as error:
        if not swallow("evaluators=", error):
            raise
        return ()


def labels(tags: object) -> dict[str, Any] | None:
    """Return tags that are a mapping; anything else is counted and left out."""
    if tags is None or type(tags) is dict:
        return tags
    captured = capture(tags)
    if type(captured) is dict:
        return captured
    caught.add("tags= is no mapping")
    return None


def decorated_or_scope(kind: SpanKind, target: Any, *options: Any) -> object:
    """Decorate a function that was passed alone, as in ``@workflow``, or return a `Scope`."""
    if callable(target) or isinstance(target, (staticmethod, classmethod)):
        return Scope(kind, None, *options)(target)
    return Scope(kind, target, *options)


# Wrappers for the four shapes of functions.
#
# A generator is driven step by step. The span is current during each step, and whatever was current
# before is restored after it. This is done with ``set`` and not with a token, because the next step
# may run in another task or context.


Function = Callable[..., Any]


def traced(function: Function, spec: Spec) -> Function:
    """Wrap a function of any shape."""
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(traced(function.__func__, spec))
    begin = _beginner(function, spec)
    inner = function.func if isinstance(function, partial) else function
    if inspect.isasyncgenfunction(inner):
        return _async_generator(function, begin)
    if inspect.isgeneratorfunction(inner):
        return _generator(function, begin)
    if inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(
        getattr(type(inner), "__call__", None)  # noqa: B004 - an object with an async __call__
    ):
        return _coroutine(function, begin)
    return _plain(function, begin)


Begin = Callable[[tuple[object, ...], dict[str, object]], "Span | None"]


def _plain(function: Function, begin: Begin) -> Function:
    @wraps(function)
    def wrapper(*args: object, **kwargs: object) -> object:
        if not state.enabled:
            return function(*args, **kwargs)
        span = begin(args, kwargs)
        if span is None:
            return function(*args, **kwargs)
        parent = current.get()
        make_current(span)
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            make_current(parent)
            finish(span, error)
            raise
        make_current(parent)
        return _returned(span, result)

    return wrapper


def _coroutine(function: Function, begin: Begin) -> Function:
    @wraps(function)
    async def wrapper(*args: object, **kwargs: object) -> object:
        if not state.enabled:
            return await function(*args, **kwargs)
        span = begin(args, kwargs)
        if span is None:
            return await function(*args, **kwargs)
        parent = current.get()
        current.set(span)
        try:
            result = await function(*args, **kwargs)
        except BaseException as error:
            _leave(span, parent)
            finish(span, error)
            raise
        _leave(span, parent)
        return _returned(span, result)

    return wrapper


def _generator(function: Function, begin: Begin) -> Function:
    @wraps(function)
    def wrapper(*args: object, **kwargs: object) -> Generator[object, object, object]:
        others = outside_contexts()
        span = begin(args, kwargs) if state.enabled else None
        if span is None:
            return (yield from function(*args, **kwargs))
        inside: Any = span
        items: list[object] = []
        step, sent = None, None
        outside = current.get()
        make_current(inside)
        try:
            generator = function(*args, **kwargs)
            step = generator.send
            while True:
                item = step(sent)
                inside = current.get()
                make_current(outside)
                others = swap_contexts(others)
                _collect(span, items, item)
                try:
                    sent = yield item
                    step = generator.send
                except BaseException as thrown:  # the wrapped generator gets GeneratorExit too
                    sent, step = thrown, generator.throw
                outside = current.get()
                make_current(inside)
                others = swap_contexts(others)
        except StopIteration as stop:
            make_current(outside)
            swap_contexts(others)
            _yielded(span, items, stop.value)
            return stop.value
        except BaseException as error:
            make_current(outside)
            swap_contexts(others)
            _yielded(span, items, None, error)
            raise

    return wrapper


def _async_generator(function: Function, begin: Begin) -> Function:  # noqa: C901
    @wraps(function)
    async def wrapper(*args: object, **kwargs: object) -> AsyncGenerator[object, object]:
        others = outside_contexts()
        span = begin(args, kwargs) if state.enabled else None
        inside: Any = span
        items: list[object] = []
        outside = current.get()
        if span is not None:
            current.set(inside)
        try:
            generator = function(*args, **kwargs)
            answer = _first_step(generator)
            while True:
                item = await answer
                if span is not None:
                    inside = current.get()
                    current.set(outside)
                    others = swap_contexts(others)
                    _collect(span, items, item)
                try:
                    sent = yield item
                    step = generator.asend
                except BaseException as thrown:  # the wrapped generator gets GeneratorExit too
                    sent, step = thrown, generator.athrow
                if span is not None:
                    outside = current.get()
                    current.set(inside)
                    others = swap_contexts(others)
                answer = step(sent)
        except StopAsyncIteration:
            if span is not None:
                current.set(outside)
                swap_contexts(others)
                _yielded(span, items, None)
            return
        except BaseException as error:
            if span is not None:
                current.set(outside)
                swap_contexts(others)
                _yielded(span, items, None, error)
            raise

    return wrapper


def _first_step(generator: AsyncGenerator[object, object]) -> Awaitable[object]:
    """Begin the wrapped async generator without registering it with the event loop.

    A loop that ends closes all its async generators at once. The wrapper is one of them and closes
    the wrapped generator itself; if the loop closed that one too, one of the two would fail.
    """
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(firstiter=None, finalizer=None)
    try:
        return generator.asend(None)
    finally:
        sys.set_asyncgen_hooks(*hooks)


def _leave(span: Span, parent: Span | Link | None) -> None:
    """Make the parent current again, unless the call ended in another context than it began in."""
    if current.get() is span:
        current.set(parent)


def _beginner(function: Function, spec: Spec) -> Begin:
    """Return what begins a span for a call; it looks up argument names once, when decorating."""
    names = _positional_names(function)
    skip = 1 if names[:1] in (("self",), ("cls",)) else 0

    def begin(args: tuple[object, ...], kwargs: dict[str, object]) -> Span | None:
        try:
            span = start(spec, current.get())
            if span is None:
                return None
            if args or kwargs:
                room = span.room
                if len(args) > skip or kwargs:
                    span._arguments = _arguments(names, skip, args, kwargs, room)
            if _inherited.get():
                inherit(span, spec)
        except Exception as error:
            if not swallow("span.start", error):
                raise
            return None
        return span

    return begin


def _positional_names(function: Function) -> tuple[str, ...]:
    target = function
    taken = 0
    if isinstance(target, partial):
        taken, target = len(target.args), target.func
    code = getattr(inspect.unwrap(target), "__code__", None)
    if code is None:
        return ()
    return tuple(code.co_varnames[taken : code.co_argcount])


def _arguments(
    names: tuple[str, ...],
    skip: int,
    args: tuple[object, ...],
    kwargs: dict[str, object],
    room: list[int],
) -> dict[str, object]:
    if (more := len(args) + len(kwargs) - MAX_ITEMS) > 0:
        args = args[:MAX_ITEMS]
        kwargs = dict(islice(kwargs.items(), MAX_ITEMS - len(args)))
        return {**_arguments(names, skip, args, kwargs, room), "<more>": more}
    bound = {}
    for position in range(skip, len(args)):
        name = names[position] if position < len(names) else f"arg{position}"
        bound[name] = capture(args[position], room)
    for name, value in kwargs.items():
        bound[name] = capture(value, room)
    return bound


def _returned(span: Span, result: object) -> object:
    """Capture what a function returned, as documents or as the response, and end its span.

    Returns what the caller gets: a generator that the function returned is followed as if the
    function had yielded.
    """
    cls = type(result)
    if cls is GeneratorType or cls is AsyncGeneratorType:
        return _followed(span, result)
    if span._response is None and result is not None:
        try:
            if span.spec.kind == "retrieval" and span._retrieved is None:
                span._retrieved = to_chunks(rows(result, span.room))
            if span._retrieved is None or span.spec.kind != "retrieval":
                span._response = capture(result, span.room)
        except Exception as error:
            if not swallow("capture", error):
                raise
    finish(span)
    return result


def _followed(span: Span, stream: Any) -> object:
    """Return a generator that follows the one that a function returned, and ends its span."""
    unread = _Unread(span, type(stream).__name__)

    def begin(args: tuple[object, ...], kwargs: dict[str, object]) -> Span:
        unread.span = None
        swap_contexts(inside)
        return span

    try:
        inside = outside_contexts()
        for neighbour in state.neighbours:
            neighbour.leave(span)
        shape = _generator if type(stream) is GeneratorType else _async_generator
        followed: Any = shape(lambda: stream, begin)()
        followed.__name__, followed.__qualname__ = stream.__name__, stream.__qualname__
    except Exception as error:
        if not swallow("generator", error):
            raise
        return stream
    return followed


class _Unread:
    """Held by a followed generator: it ends the span of one that is thrown away unread.

    The interpreter may do that at any moment and on any thread, so nothing of the app runs here,
    and nothing is raised. Where an evaluator of the app has to see the span, the worker ends it.
    """

    __slots__ = ("_kind", "_returned_ns", "span")

    def __init__(self, span: Span, kind: str) -> None:
        self.span: Span | None = span
        self._kind = kind
        self._returned_ns = perf_counter_ns()

    def __del__(self) -> None:
        span, target = self.span, state.recorder
        if span is None or target is None:
            return
        with shield("generator", calls_out=True):
            end = partial(_end_unread, span, self._kind, self._returned_ns)
            if target.reads_at_once:
                target.take(end, span.size)
            else:
                end()


def _end_unread(span: Span, kind: str, returned_ns: int) -> tuple[Span, ...]:
    """End a span as of a time; there is no other one to be read."""
    if span._response is None:
        span._response = capture(Placeholder(f"<{kind}, not read>"), span.room)
    finish(span, perf_ns=returned_ns)
    return ()


def _collect(span: Span, items: list[object], item: object) -> None:
    """Capture what a generator yields, for as long as the span has room."""
    try:
        room = span.room
        if not items:
            waited = (perf_counter_ns() - span._perf_ns) / 1e9
            span._metrics = {"time_to_first_token": waited, **(span._metrics or {})}
        if type(item) is str and len(item) < room[0]:
            room[0] -= len(item) + NODE_BYTES
            items.append(item)
        elif room[1] > 0 and room[0] > 0:
            room[1] -= 1
            items.append(capture(item, room))
    except Exception as error:
        if not swallow("capture", error):
            raise


def _yielded(
    span: Span, items: list[Any], result: object, error: BaseException | None = None
) -> None:
    """End a generator's span. Its response is the joined text, or the list of what it yielded."""
    try:
        if span._response is None:
            texts = all(type(item) is str for item in items)
            span._response = "".join(items) if items and texts else items or None
            if span._response is None and result is not None:
                span._response = capture(result, span.room)
    except Exception as problem:
        if not swallow("capture", problem):
            raise
    finish(span, error)
