"""Nests our spans under the app's active OpenTelemetry span, and the app's spans under ours.

The app's ``opentelemetry`` is used only after the app has loaded it: before that, no span of it can
be active. What we attach is a span that records nothing and has our ids, so that the spans of
instrumented libraries become children of ours. If no OpenTelemetry span is active, the app's own
sampler decides about its flag, because a sampled root of ours would overrule that sampler.
"""

from __future__ import annotations

import sys
from typing import Any

from llmeval_sdk.model.protocols import ContextBridge, LiveSpans
from llmeval_sdk.process.loading import loading
from llmeval_sdk.process.shield import swallow


KEY = "otlp"


class OtelBridge(LiveSpans, ContextBridge):
    """The bridge for exporters without live spans of their own. It takes no lock."""

    def __init__(self) -> None:
        self._api: Any = None
        self._context: Any = None

    def _loaded(self) -> bool:
        """Whether the app has loaded all of OpenTelemetry."""
        api, context = (
            sys.modules.get("opentelemetry.trace"),
            sys.modules.get("opentelemetry.context"),
        )
        if not hasattr(api, "use_span") or not hasattr(context, "detach"):
            return False
        self._api, self._context = api, context
        return True

    def parent(self) -> Any:
        """Return a root's parent: a span of ours, the ids and flags of theirs, or ``None``."""
        if self._api is None and not self._loaded():
            return None
        span = self._api.get_current_span()
        ours = getattr(span, "llmeval_span", None)
        if ours is not None:  # only OpenTelemetry's context was passed to this thread
            return ours
        theirs = span.get_span_context()
        flags = int(theirs.trace_flags)
        return (theirs.trace_id, theirs.span_id, flags) if theirs.is_valid else None

    def get(self) -> Any:
        """Return the context that is current."""
        return self._context.get_current() if self._api is not None or self._loaded() else None

    def put(self, context: object) -> None:
        """Make a context current that `get` returned."""
        if context is not None:
            self._context.attach(context)

    def inject(self, headers: object) -> None:
        """Write the app's baggage into the headers of a call to another process."""
        if self._api is not None or self._loaded():
            self._baggage().inject(headers)

    def extract(self, headers: object) -> Any:
        """Make a caller's baggage current; returns the context to put back."""
        before = self.get()
        if before is not None:
            self._context.attach(self._baggage().extract(headers, before))
        return before

    @staticmethod
    def _baggage() -> Any:
        with loading:
            from opentelemetry.baggage.propagation import W3CBaggagePropagator

        return W3CBaggagePropagator()

    def on_start(self, span: object) -> None:
        """Put our span into OpenTelemetry's context."""
        if self._api is None and not self._loaded():
            return
        try:
            self._enter(span)
        except Exception as error:
            if not swallow("otlp context", error):
                raise

    def on_end(self, span: Any) -> None:
        """Restore the context, unless the code in between has made another one current."""
        self.leave(span)
        if span.context:
            span.context.pop(KEY, None)

    def leave(self, span: Any) -> None:
        """Restore the context of a span that goes on elsewhere."""
        entered = span.context.get(KEY) if span.context else None
        if entered is not None and self._context.get_current() is entered[1]:
            self._context.attach(entered[0])

    def _enter(self, span: Any) -> None:
        if span.context and KEY in span.context:  # another exporter of this kind has done it
            return
        before = self._context.get_current()
        around = self._api.get_current_span(before).get_span_context()
        if not around.is_valid:
            flags = self._sampled(span, before)
            if flags is None:
                return
        elif around.trace_id == span.trace_number:
            flags = around.trace_flags
            span.parent_number = around.span_id  # maybe a span of another library inside ours
        else:
            return
        api = self._api
        ours = api.NonRecordingSpan(
            api.SpanContext(span.trace_number, span.span_number, False, flags, around.trace_state)
        )
        ours.llmeval_span = span
        inside = api.set_span_in_context(ours, before)
        self._context.attach(inside)
        span.context = {**(span.context or {}), KEY: (before, inside)}

    def _sampled(self, span: Any, context: Any) -> Any:
        """Ask the sampler of the app's provider; ``None`` where there is no such provider."""
        api = self._api
        sampler = getattr(api.get_tracer_provider(), "sampler", None)
        if sampler is None:
            return None
        result = sampler.should_sample(
            context, span.trace_number, span.name, api.SpanKind.INTERNAL, {}, ()
        )
        return api.TraceFlags(1 if result.decision.is_sampled() else 0)
