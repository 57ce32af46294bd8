"""Sends spans, evaluations and counters through the app's own OpenTelemetry providers.

One of their spans is open while ours is, so their sampler and processors decide about it. The
delivery thread sets its attributes and ends it, because a processor may export at that moment. Our
ids become those of their span, so that every exporter uses the same ids.
"""

from __future__ import annotations

import atexit
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from llmeval_sdk.config import Settings
from llmeval_sdk.errors import missing_extra
from llmeval_sdk.exporters.otlp import names
from llmeval_sdk.exporters.otlp.attributes import (
    attributes_of,
    event_of,
    kind_of,
    name_of,
    part_events,
    value_and_label,
)
from llmeval_sdk.exporters.otlp.bridge import KEY, OtelBridge
from llmeval_sdk.model import JUDGE_TAG, Batch, Evaluation, EvaluationEvent, SpanData, Target, Usage
from llmeval_sdk.model.protocols import BaseExporter, Services
from llmeval_sdk.process.distribution import release
from llmeval_sdk.process.shield import shield


if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation


MAX_WORDS = 200
"""How many model names, providers and types of errors become values of attributes, of each; the
rest are ``_OTHER``, because every value is a time series of its own."""
OTHER = "_OTHER"
_SECONDS = (
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
)  # fmt: skip
_FIRST_SECONDS = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
)  # fmt: skip
_TOKENS = tuple(4**power for power in range(14))


class Histogram:
    """Records scores by evaluator, and model calls by OpenTelemetry's conventions, for dashboards.

    The histograms belong to the given meter provider, or to the app's global one. Raises
    `ConfigurationError` if OpenTelemetry's SDK is not installed.
    """

    def __init__(self, provider: MeterProvider | None = None) -> None:
        if provider is None:
            try:
                from opentelemetry.metrics import get_meter_provider
            except ImportError as error:
                raise missing_extra("otel_metrics", "otel", "opentelemetry-sdk") from error
            provider = get_meter_provider()
        meter = provider.get_meter(names.SCOPE, release(), schema_url=names.SCHEMA_URL)
        make = meter.create_histogram
        self._scores = make(names.HISTOGRAM, unit="1", description="Scores by evaluator")
        self._tokens = make(
            names.CALL_TOKENS, unit="{token}", description="Tokens of model calls",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )  # fmt: skip
        self._took = make(
            names.CALL_DURATION, unit="s", description="Duration of model calls",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )  # fmt: skip
        self._first = make(
            names.CALL_FIRST_CHUNK, unit="s",
            description="Time to the first part of a streamed answer",
            explicit_bucket_boundaries_advisory=_FIRST_SECONDS,
        )  # fmt: skip
        self._known: dict[str, set[str]] = {}

    def record(self, batch: Batch) -> None:
        """Record the scores and the app's model calls of a batch."""
        for event in batch.evaluations:
            self._record_score(event.evaluation)
        for span in batch.spans:
            if span.kind in ("llm", "embedding") and JUDGE_TAG not in span.tags:
                self._record_call(span)

    def _record_score(self, evaluation: Evaluation) -> None:
        """Record a score; a category or a failure has none."""
        value, label = value_and_label(evaluation)
        if value is None:
            return
        about = {
            names.EVALUATION_NAME: evaluation.name,
            names.EVALUATOR_KIND: names.EVALUATOR_KINDS[evaluation.evaluator_kind],
        }
        if label is not None:
            about[names.SCORE_LABEL] = label
        self._scores.record(value, about)

    def _record_call(self, span: SpanData) -> None:
        about = {names.OPERATION: names.OPERATIONS[span.kind]}
        about[names.PROVIDER] = self._word(names.PROVIDER, span.model_provider or OTHER)
        if span.model_name:
            about[names.REQUEST_MODEL] = self._word(names.REQUEST_MODEL, span.model_name)
        for kind in ("input", "output"):
            tokens = getattr(span.usage, f"{kind}_tokens", 0)
            if tokens:
                self._tokens.record(tokens, {**about, names.TOKEN_TYPE: kind})
        first = span.metrics.get("time_to_first_token")
        if first is not None:
            self._first.record(first, about)
        if span.error is not None:
            about[names.ERROR_TYPE] = self._word(names.ERROR_TYPE, span.error.type)
        if span.end_ns >= span.start_ns:
            self._took.record((span.end_ns - span.start_ns) / 1e9, about)

    def _word(self, attribute: str, word: str) -> str:
        known = self._known.setdefault(attribute, set())
        if len(known) < MAX_WORDS:
            known.add(word)
        return word if word in known else OTHER


Points = Iterator[tuple[float, dict[str, str]]]


class Account(Protocol):
    """What became of the records of one exporter; see `llmeval_sdk.stats`."""

    @property
    def dropped(self) -> Mapping[str, int]:
        """How many were lost, by reason."""


class Counters(Protocol):
    """The counters of the SDK as ``stats()`` returns them; see `llmeval_sdk.stats`."""

    @property
    def spans(self) -> int:
        """How many spans ended."""

    @property
    def evaluations(self) -> int:
        """How many evaluations were made or submitted."""

    @property
    def exporters(self) -> Mapping[str, Account]:
        """The account of each exporter."""

    @property
    def not_run(self) -> Mapping[str, Mapping[str, int]]:
        """How often judges did not run, by judge and reason."""

    @property
    def judge_usage(self) -> Usage:
        """What judges used."""

    @property
    def pending_judgements(self) -> int:
        """How many judgements wait or run."""

    @property
    def cut_prompts(self) -> int:
        """How many prompts were cut."""


class Instrument(NamedTuple):
    """One instrument: its name, its unit, and how its points are read from the counters."""

    name: str
    unit: str
    description: str
    points: Callable[[Counters], Points]
    falls: bool = False
    """True for a value that can go down again, such as the length of a queue."""


def _exporters(field: str) -> Callable[[Counters], Points]:
    def points(stats: Counters) -> Points:
        for name, account in stats.exporters.items():
            yield getattr(account, field), {names.EXPORTER: name}

    return points


def _dropped(stats: Counters) -> Points:
    for name, account in stats.exporters.items():
        for reason, times in account.dropped.items():
            yield times, {names.EXPORTER: name, names.ERROR_TYPE: reason}


def _by(field: str, label: str) -> Callable[[Counters], Points]:
    def points(stats: Counters) -> Points:
        for key, times in getattr(stats, field).items():
            yield times, {label: key}

    return points


def _not_run(stats: Counters) -> Points:
    for judge, reasons in stats.not_run.items():
        for reason, times in reasons.items():
            yield times, {names.EVALUATION_NAME: judge, names.NOT_RUN_REASON: reason}


def _tokens(stats: Counters) -> Points:
    used = stats.judge_usage
    yield used.input_tokens or 0, {names.TOKEN_TYPE: "input"}
    yield used.output_tokens or 0, {names.TOKEN_TYPE: "output"}


def _one(read: Callable[[Counters], float | None]) -> Callable[[Counters], Points]:
    def points(stats: Counters) -> Points:
        yield read(stats) or 0, {}

    return points


READINGS = (
    Instrument(names.SPANS, "{span}", "Finished spans", _one(lambda stats: stats.spans)),
    Instrument(
        names.EVALUATIONS, "{evaluation}", "Evaluations made or submitted",
        _one(lambda stats: stats.evaluations),
    ),
    Instrument(
        names.DELIVERED, "{record}", "Spans and evaluations that an exporter delivered",
        _exporters("delivered"),
    ),
    Instrument(
        names.DROPPED, "{record}", "Spans and evaluations lost to an exporter, by reason", _dropped
    ),
    Instrument(names.UNKNOWN, "{record}", "Records sent without an answer", _exporters("unknown")),
    Instrument(
        names.QUEUE, "{record}", "Records that wait to be delivered", _exporters("undelivered"),
        falls=True,
    ),
    Instrument(
        names.JUDGED, "{judgement}", "Judgements that gave a value",
        _by("judged", names.EVALUATION_NAME),
    ),
    Instrument(names.NOT_RUN, "{judgement}", "Judgements not made, by reason", _not_run),
    Instrument(
        names.PENDING, "{judgement}", "Judgements that wait or run",
        _one(lambda stats: stats.pending_judgements), falls=True,
    ),
    Instrument(names.JUDGE_TOKENS, "{token}", "Tokens that judges used", _tokens),
    Instrument(
        names.JUDGE_COST, "USD", "Money that judges used, where the price is known",
        _one(lambda stats: stats.judge_usage.cost_usd),
    ),
    Instrument(
        names.CUT_PROMPTS, "{judgement}", "Judgements whose prompt was too long and was cut",
        _one(lambda stats: stats.cut_prompts),
    ),
    Instrument(
        names.PROBLEMS, "{exception}", "Exceptions of evaluators and of the SDK that were caught",
        _by("problems", names.SITE),
    ),
)  # fmt: skip


def observe(stats: Callable[[], Counters], provider: MeterProvider | None = None) -> None:
    """Report the SDK's own counters as metrics, read from ``stats()`` at each collection.

    Call it once. Until the app sets a global meter provider, the instruments are stand-ins of
    OpenTelemetry's API, which become real ones at that moment.
    """
    from opentelemetry.metrics import Observation, get_meter_provider

    meter = (provider or get_meter_provider()).get_meter(
        names.SCOPE, release(), schema_url=names.SCHEMA_URL
    )

    def callback(
        points: Callable[[Counters], Points],
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def read(_: CallbackOptions) -> list[Observation]:
            with shield("otel metrics", calls_out=True):
                return [Observation(number, about) for number, about in points(stats())]
            return []

        return read

    for reading in READINGS:
        make = (
            meter.create_observable_up_down_counter
            if reading.falls
            else meter.create_observable_counter
        )
        make(
            reading.name,
            [callback(reading.points)],
            unit=reading.unit,
            description=reading.description,
        )


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
        tracer_provider: object = None,
        logger_provider: object = None,
        meter_provider: MeterProvider | None = None,
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
        self._fields = settings.export_fields
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
        live = entered[2]
        live.llmeval_span = None
        self.leave(span)
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
        if logger is not None:
            for added in part_events(batch.evaluations, fields=self._fields):
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
