"""The finished span of an instrumented call, and the tracer provider that it comes from.

A call below no evaluated span of ours is a request of its own: it is read and scored in the
background, like the spans that other libraries make. A call below one is read in the background
before that span is, or at once where somebody needs it the moment that span ends. Inside a span of
a model call, it only adds what that span does not know itself, so that the call is counted once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from threading import Lock
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context, get_current
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from llmeval_sdk.model.fields import to_usage
from llmeval_sdk.model.records import OWNERS, Spent, contributions_of
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.plugins.openinference.otel import Branch, EvaluationSpanProcessor, is_seen_call
from llmeval_sdk.process.shield import swallow
from llmeval_sdk.tracing import Span
from llmeval_sdk.tracing.foreign import conventions
from llmeval_sdk.tracing.foreign.reading import ForeignSpan, contributions_of_call, of_sdk
from llmeval_sdk.tracing.internals import (
    Link,
    Recorder,
    adopted,
    current,
    inherit_late,
    new_span_id,
    new_trace_id,
    recorder,
    roll_up,
    state,
)


class _Inside(Branch):
    """Stands for a call inside a span of ours that it belongs to."""

    __slots__ = ("ours",)

    def __init__(self, ours: Span) -> None:
        super().__init__(0)
        self.ours = ours


class _CallReading:
    """Reads a call once: in the worker, or earlier if the app asks for a score."""

    __slots__ = ("_lock", "_read", "_spans")

    def __init__(self, read: Callable[[], Iterable[Span]]) -> None:
        self._read = read
        self._spans: Iterable[Span] | None = None
        self._lock = Lock()

    def __call__(self) -> Iterable[Span]:
        if not self._lock.acquire(timeout=1.0):  # a fork left it behind
            return ()
        try:
            if self._spans is None:
                self._spans = ()
                self._spans = self._read()
        finally:
            self._lock.release()
        return self._spans


MOST_PENDING = 10_000
"""The most spans whose unread calls are remembered, in case the app asks for a score of one.
The worker reads the calls of the others all the same."""


class CallProcessor(EvaluationSpanProcessor):
    """Gets the spans of all instrumented clients. It never raises or blocks."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._pending: dict[int, list[_CallReading]] = {}
        """The calls that are not read yet, by the number of the span that evaluates them."""

    def read_now(self, span: Span) -> None:
        """Read the calls of a span that the worker has not read yet."""
        for reading in self._pending.pop(span.span_number, ()):
            reading()

    @property
    def exports(self) -> bool:
        """Whether our exporters send the calls: an app's own provider takes spans that it made."""
        return runtime.settings().otel != "global"

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        """Note which span of ours a call belongs to."""
        ours = current.get()
        if type(ours) is not Span:
            if span.context.trace_id & _LOW_BITS < state.sample_below:
                outer = self._open.get(span.parent.span_id) if span.parent is not None else None
                self._admit(span, outer or Branch(span.context.span_id))
        elif not ours.end_ns and _takes(ours):
            self._admit(span, _Inside(ours))
        else:
            super().on_start(span, parent_context)

    def on_end(self, span: Any) -> None:
        """Hand a call over, or leave what it tells to the span of ours around it."""
        branch = self._open.get(span.context.span_id)
        if type(branch) is not _Inside:
            super().on_end(span)
            return
        try:
            del self._open[span.context.span_id]
            contexts = branch.contexts.get(span.context.span_id, ())
            target = recorder()
            if target is not None and _may_wait(span, branch.ours, target):
                later = _read_later(span, branch.ours, contexts)
                read = self._expect(branch.ours, _CallReading(later))
                trace = branch.ours.trace_number
                target.take(read, 2_000, exported=self.exports, trace=trace)
                return
            data = of_sdk(span)
            if data is not None:
                _leave(data, branch.ours, contexts, exported=self.exports)
        except Exception as error:
            if not swallow("instrument", error):
                raise

    def _expect(self, ours: Span, reading: _CallReading) -> Callable[[], Iterable[Span]]:
        """Keep a reading until the worker takes it; return what the worker calls."""
        state.read_calls_of = self.read_now
        number = (ours if ours.is_evaluated or ours.owner is None else ours.owner).span_number
        while len(self._pending) >= MOST_PENDING:
            self._pending.pop(next(iter(self._pending)), None)
        self._pending.setdefault(number, []).append(reading)

        def take() -> Iterable[Span]:
            spans = reading()
            left = self._pending.get(number, [])
            with suppress(ValueError):  # the app asked for it before
                left.remove(reading)
            if not left:
                self._pending.pop(number, None)
            return spans

        return take


_LOW_BITS = 0xFFFFFFFFFFFFFFFF
_CALLS = ("llm", "embedding")


def _takes(ours: Span) -> bool:
    """Say whether a call inside a span of ours belongs to it or to an evaluated span above it."""
    return ours.is_evaluated or ours.owner is not None or ours.kind in _CALLS


def _may_wait(span: Any, ours: Span, target: Recorder) -> bool:
    """Say whether a call that ended can be read in the background; reading costs the most.

    What it tells must be there when its request is scored there, and nobody may want it earlier:
    no span of a model call, no evaluated step that passes it on when it ends.
    """
    owner = ours if ours.is_evaluated else ours.owner
    return (
        owner is not None
        and owner.kind in OWNERS
        and not owner.end_ns
        and ours.kind not in _CALLS
        and not target.reads_at_once
        and conventions.kind_of(span.attributes or {}) in _CALLS
    )


def _read_later(
    span: object, ours: Span, contexts: tuple[Mapping[str, object], ...]
) -> Callable[[], Iterable[Span]]:
    """Return what reads a call in the background, before the request that it belongs to.

    The worker takes spans in the order in which they ended, and the request has not ended yet.
    """

    def read() -> Iterable[Span]:
        data = of_sdk(span)
        if data is None:
            return ()
        call = _adopted(data, ours)
        inherit_late(call, contexts)
        roll_up(call, ended=True)
        return (call,)

    return read


def _adopted(data: ForeignSpan, ours: Span) -> Span:
    """Return a call as a span of ours inside one that is open."""
    kind = "task" if data.kind in OWNERS else data.kind
    call = adopted(replace(data, kind=kind, parent_id=ours.span_id, session_id=ours.session_id))
    call.owner = ours if ours.is_evaluated else ours.owner
    for item in contributions_of_call(data):
        call.collect(item)
    return call


def _leave(
    data: ForeignSpan, ours: Span, contexts: tuple[Mapping[str, object], ...], *, exported: bool
) -> None:
    """Leave what a call tells to the spans of ours around it, and hand the call's own span on."""
    is_known = ours.kind == data.kind and ours.kind in _CALLS and not ours.end_ns
    call = _adopted(data, ours)
    if is_known:
        _complete(ours, call)
        return
    inherit_late(call, contexts)
    roll_up(call)
    call.owner = call.owner or call  # where the span around it is over, it is scored nowhere
    target = recorder()
    if target is not None:
        target.take(lambda: (call,), call.size, exported=exported)


def _complete(ours: Span, call: Span) -> None:
    """Tell the span of a model call what it does not know itself: tokens, model, first token.

    Tokens that the app annotated count alone. Those of several calls in one span are summed up.
    """
    for item in contributions_of(call, keeps=False):
        if type(item) is not Spent:
            ours.collect(item)
    metrics = dict(ours._metrics or {})
    if call.usage is not None and to_usage(metrics) is None:
        ours._usage = call.usage if ours._usage is None else ours._usage + call.usage
    measured = dict(call._metrics or {})
    first_token = measured.pop("time_to_first_token", None)
    for name, number in measured.items():
        metrics[name] = metrics.get(name, 0) + number
    if first_token is not None:
        metrics.setdefault("time_to_first_token", first_token)
    ours._metrics = metrics or None
    spec = ours.spec
    ours.spec = spec._replace(
        model_name=spec.model_name or call.model_name,
        model_provider=spec.model_provider or call.spec.model_provider,
    )


# An OpenTelemetry tracer provider for the spans of instrumented clients only.
#
# It is never the global one, and the app cannot see its spans: what the app traces inside of an
# instrumented call has the parent, and the sampling, that it would have without us.


MAX_ATTRIBUTES = 2_000
"""Of one call: a conversation has two for each message, and three for each call of a tool."""
MAX_ATTRIBUTE = 1_000_000
"""Characters of one attribute that are kept."""


class _Ids(IdGenerator):
    """Gives ids that stay different where the app seeds ``random``."""

    def generate_span_id(self) -> int:
        """Return a new span id."""
        return new_span_id()

    def generate_trace_id(self) -> int:
        """Return a new trace id."""
        return new_trace_id()


def _hidden(span: Any, around: trace.SpanContext) -> object:
    """Have the span of an instrumented call show the app the ids of the app's own span.

    The span itself is changed, because a proxy around it would cost each of its attributes a call.
    """
    span.llmeval_call = span.context
    span.get_span_context = lambda: around
    return span


class Gate(trace.Tracer):
    """Begins a span for a call that is wanted; any other call runs as if nobody watched.

    Args:
        tracer: makes the spans.
        is_open: says whether calls are wanted at all.
    """

    def __init__(self, tracer: trace.Tracer, is_open: Callable[[], bool]) -> None:
        self._tracer = tracer
        self._is_open = is_open

    def start_span(
        self, name: str, context: Context | None = None, *args: Any, **options: Any
    ) -> Any:
        """Begin a span below the span of ours that is current, or below OpenTelemetry's."""
        around = trace.get_current_span(context)
        try:
            below = _context_below(context, around) if self._is_open() else None
        except Exception as error:
            if not swallow("instrument", error):
                raise
            below = None
        ids = around.get_span_context()
        if below is None:
            return trace.NonRecordingSpan(ids)
        return _hidden(self._tracer.start_span(name, below, *args, **options), ids)

    def start_as_current_span(self, name: str, *args: Any, **options: Any) -> Any:
        """Begin a span and make it current in OpenTelemetry's context."""
        return trace.use_span(self.start_span(name, *args, **options), end_on_exit=True)


def _context_below(context: Context | None, around: Any) -> Context | None:
    """Return the context that a call's span begins in; ``None`` where the call is not wanted.

    It is not wanted where nothing is recorded: inside ``disabled()``, on threads of ours such as
    those of judges, and in a trace that is not sampled. Nor is a call inside of a model call that
    reaches us already.
    """
    if recorder() is None or is_seen_call(around):
        return None
    context = get_current() if context is None else context
    outer = getattr(around, "llmeval_call", None)
    if outer is not None:
        return trace.set_span_in_context(trace.NonRecordingSpan(outer), context)
    ours = current.get()
    if ours is None:
        ids = around.get_span_context()
        return None if ids.is_valid and not ids.trace_flags.sampled else context
    if not ours.flags & 1 or (type(ours) is Link and not ours.recording):
        return None
    above = (ours.trace_number, ours.span_number) if type(ours) is Span else ours[:2]
    ids = trace.SpanContext(*above, is_remote=False, trace_flags=trace.TraceFlags(1))
    parent: Any = trace.NonRecordingSpan(ids)
    parent.llmeval_span = ours
    return trace.set_span_in_context(parent, context)


@cache
def _provider() -> TracerProvider:
    limits = SpanLimits(max_span_attributes=MAX_ATTRIBUTES, max_span_attribute_length=MAX_ATTRIBUTE)
    provider = TracerProvider(
        sampler=ALWAYS_ON,
        resource=Resource.get_empty(),  # it describes nothing of the app
        id_generator=_Ids(),
        span_limits=limits,
        shutdown_on_exit=False,
    )
    provider._disabled = False  # OTEL_SDK_DISABLED is for what the app sends, not for its scores
    processor: Any = CallProcessor()
    provider.add_span_processor(processor)
    return provider


class GatedProvider(trace.TracerProvider):
    """What an instrumentation gets for its provider.

    Args:
        is_open: says whether calls are wanted now; it is asked before each.
    """

    def __init__(self, is_open: Callable[[], bool]) -> None:
        self._is_open = is_open

    def get_tracer(
        self, instrumenting_module_name: str, *args: Any, **options: Any
    ) -> trace.Tracer:
        """Return a tracer whose spans become spans of ours."""
        tracer = _provider().get_tracer(instrumenting_module_name, *args, **options)
        return Gate(tracer, self._is_open)
