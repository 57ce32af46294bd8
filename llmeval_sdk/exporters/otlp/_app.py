"""Sends spans and evaluations through the app's own OpenTelemetry providers.

One of their spans is open while ours is, so their sampler and processors decide about it. The
delivery thread sets its attributes and ends it, because a processor may export at that moment. Our
ids become those of their span, so that every exporter uses the same ids.
"""

from __future__ import annotations

import atexit
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from llmeval_sdk.config import Settings
from llmeval_sdk.errors import missing_extra
from llmeval_sdk.exporters.otlp import names
from llmeval_sdk.exporters.otlp.attributes import attributes_of, event_of, kind_of, name_of
from llmeval_sdk.exporters.otlp.bridge import KEY, OtelBridge
from llmeval_sdk.exporters.otlp.metrics import Histogram
from llmeval_sdk.exporters.step_ratings import step_events
from llmeval_sdk.model import JUDGE_TAG, Batch, EvaluationEvent, SpanData, Target
from llmeval_sdk.model.protocols import BaseExporter, Services
from llmeval_sdk.process.distribution import release
from llmeval_sdk.process.shield import shield


MAX_ROOTS = 1_000
"""Judge runs whose ids are kept for the spans below them."""


class AppOtelExporter(BaseExporter, OtelBridge):
    """The exporter ``otlp`` with ``otel="global"``; uses the global providers by default."""

    name = "otlp"
    gives_ids = True
    """Our spans take the ids of OpenTelemetry's, before other exporters see them."""

    def __init__(
        self,
        settings: Settings,
        *,
        tracer_provider: Any = None,
        logger_provider: Any = None,
        meter_provider: Any = None,
    ) -> None:
        super().__init__()
        try:
            from opentelemetry import _logs, trace
        except ImportError as error:
            raise missing_extra("otel='global'", "otel", "opentelemetry-sdk") from error
        self._loaded()
        self._logs = _logs
        self._tracers: Any = tracer_provider or trace.get_tracer_provider
        self._loggers: Any = logger_provider or _logs.get_logger_provider
        self._tracer: Any = None
        self._logger: Any = None
        has_metrics = meter_provider is not None or settings.otel_metrics
        self._histogram = Histogram(meter_provider) if has_metrics else None
        self._roots: OrderedDict[str, Any] = OrderedDict()
        self.live = self.bridge = self
        self._end: Callable[[], None] | None = None

    def connect(self, services: Services) -> None:
        """Take the function that ends the SDK; it has to run before the app's provider ends."""
        self._end = services.end

    # -- on the caller's thread -----------------------------------------------------------------

    def _enter(self, span: Any) -> None:
        """Begin a span of OpenTelemetry; if its sampler drops it, ours is not exported either."""
        api, context = self._api, self._context
        before = context.get_current()
        around = api.get_current_span(before).get_span_context()
        parent = before
        if span.parent_number and around.trace_id != span.trace_number:  # ours has another parent
            remote = self._span_context(span.trace_number, span.parent_number, span.flags)
            parent = api.set_span_in_context(api.NonRecordingSpan(remote), before)
        live = self._started(span, parent)
        ids = live.get_span_context()
        if not ids.is_valid or ids.span_id == around.span_id:
            return  # the app has no provider
        span.trace_number, span.span_number = ids.trace_id, ids.span_id
        if parent is before:
            span.parent_number = around.span_id if around.is_valid else 0
        if not ids.trace_flags.sampled:
            span.flags &= ~1
        live.llmeval_span = span
        inside = api.set_span_in_context(live, before)
        context.attach(inside)
        span.context = {**(span.context or {}), KEY: (before, inside, live)}

    def _started(self, span: Any, parent: Any) -> Any:
        if self._tracer is None:
            provider = self._tracers() if callable(self._tracers) else self._tracers
            if self._end is not None:  # registered after the provider's, so it runs before it
                atexit.register(self._end)
            self._tracer = provider.get_tracer(names.SCOPE, release(), schema_url=names.SCHEMA_URL)
        known = {names.KIND: span.kind, names.OI_KIND: names.OI_KINDS[span.kind]}
        if span.kind in names.OPERATIONS:
            known[names.OPERATION] = names.OPERATIONS[span.kind]
        return self._tracer.start_span(
            span.name,
            context=parent,
            kind=_kind(self._api, names.WIRE_KINDS.get(span.kind, names.INTERNAL)),
            attributes=known,
            start_time=span.start_ns,
        )

    def on_end(self, span: Any) -> None:
        """Restore the context; a span that is not sampled ends here."""
        entered = span.context.get(KEY) if span.context else None
        if entered is None:
            return
        before, inside, live = entered
        live.llmeval_span = None
        if self._context.get_current() is inside:
            self._context.attach(before)
        if span.flags & 1:
            span.context[KEY] = live
        else:
            live.end(span.end_ns)

    # -- on the delivery thread -----------------------------------------------------------------

    def export(self, batch: Batch, /) -> Mapping[str, int] | None:
        """End spans and emit evaluations; the app's processors and exporters do the rest."""
        refused: Counter[str] = Counter()
        if self._histogram is not None:
            self._histogram.record(batch)
        for span in batch.spans:
            live = span.context.get(KEY) if span.context else None
            if live is None and JUDGE_TAG in span.tags:
                live = self._judge(span)
            if live is None:
                refused["no_tracer_provider"] += 1
            else:
                self._finish(live, span)
        logger = self._own_logger() if batch.evaluations else None
        for evaluation in batch.evaluations:
            if logger is None:
                refused["no_logger_provider"] += 1
            else:
                self._emit(logger, evaluation)
        for added in step_events(batch.evaluations) if logger is not None else ():
            self._emit(logger, added)
        return refused

    def flush(self, timeout: float, /) -> None:
        """Let the providers send what they hold."""
        for source in (self._tracers, self._loggers):
            provider = source() if callable(source) else source
            with shield("otel force_flush", calls_out=True), suppress(AttributeError):
                provider.force_flush(max(1, int(timeout * 1000)))  # not every provider has it

    def close(self, timeout: float, /) -> None:
        """Flush; the providers are the app's and stay open."""
        self.flush(timeout)

    def _finish(self, live: Any, span: SpanData) -> None:
        live.update_name(name_of(span))
        live.set_attributes(attributes_of(span))
        if span.error is not None:
            about = {names.EXCEPTION_TYPE: span.error.type}
            if span.error.message:
                about[names.EXCEPTION_MESSAGE] = span.error.message
            live.add_event(names.EXCEPTION, about, timestamp=span.end_ns)
            code = self._api.StatusCode.ERROR
            live.set_status(self._api.Status(code, span.error.message or span.error.type))
        live.end(span.end_ns)

    def _judge(self, span: SpanData) -> Any:
        """Begin a span of a judge's run: a trace of its own, linked to the judged span."""
        if self._tracer is None:
            return None
        api = self._api
        parent = self._roots.get(span.parent_id or "", api.INVALID_SPAN)
        links = [api.Link(target) for link in span.links if (target := self._target(link))]
        live = self._tracer.start_span(
            name_of(span),
            context=api.set_span_in_context(parent, type(self._context.get_current())()),
            kind=_kind(api, kind_of(span)),
            links=links,
            start_time=span.start_ns,
        )
        if span.parent_id is None:
            self._roots[span.span_id] = live
            while len(self._roots) > MAX_ROOTS:
                self._roots.popitem(last=False)
        return live

    def _own_logger(self) -> Any:
        if self._logger is None:
            provider = self._loggers() if callable(self._loggers) else self._loggers
            if not hasattr(provider, "force_flush"):  # the no-op provider of the API
                return None
            self._logger = provider.get_logger(names.SCOPE, release(), schema_url=names.SCHEMA_URL)
        return self._logger

    def _emit(self, logger: Any, event: EvaluationEvent) -> None:
        described = event_of(event)
        api = self._api
        target = self._target(event.target)
        span = api.NonRecordingSpan(target) if target else api.INVALID_SPAN
        logger.emit(
            timestamp=event.timestamp_ns,
            context=api.set_span_in_context(span, type(self._context.get_current())()),
            severity_number=self._logs.SeverityNumber(described.severity),
            severity_text=described.severity_text,
            body=described.body,
            attributes=described.attributes,
            event_name=names.EVENT,
        )

    def _target(self, target: Target) -> Any:
        try:
            ids = int(target.trace_id or "", 16), int(target.span_id or "", 16)
        except ValueError:
            return None
        return self._span_context(*ids, 1)

    def _span_context(self, trace: int, span: int, flags: int) -> Any:
        api = self._api
        return api.SpanContext(trace, span, is_remote=True, trace_flags=api.TraceFlags(flags))


def _kind(api: Any, wire: int) -> Any:
    return api.SpanKind.CLIENT if wire == names.CLIENT else api.SpanKind.INTERNAL
