"""An OpenTelemetry tracer provider for the spans of instrumented clients only.

It is never the global one, and the app cannot see its spans: what the app traces inside of an
instrumented call has the parent, and the sampling, that it would have without us.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context, get_current
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from llmeval_sdk.plugins.instrument._calls import CallProcessor
from llmeval_sdk.plugins.openinference.otel import is_seen_call
from llmeval_sdk.process.shield import swallow
from llmeval_sdk.tracing import Span
from llmeval_sdk.tracing.internals import Link, current, new_span_id, new_trace_id, recorder


MOST_ATTRIBUTES = 2_000
"""Of one call: a conversation has two for each message, and three for each call of a tool."""
LONGEST_ATTRIBUTE = 1_000_000
"""Characters of one attribute that are kept."""


class _Ids(IdGenerator):
    """Gives ids that stay different where the app seeds ``random``."""

    def generate_span_id(self) -> int:
        """Return a new span id."""
        return new_span_id()

    def generate_trace_id(self) -> int:
        """Return a new trace id."""
        return new_trace_id()


def _hidden(span: Any, around: trace.SpanContext) -> Any:
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
    limits = SpanLimits(
        max_span_attributes=MOST_ATTRIBUTES, max_span_attribute_length=LONGEST_ATTRIBUTE
    )
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
