"""Gives scores, model calls and the SDK's counters to the app's meter provider as metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from llmeval_sdk.errors import missing_extra
from llmeval_sdk.exporters.otlp import names
from llmeval_sdk.exporters.otlp.attributes import value_and_label
from llmeval_sdk.model import JUDGE_TAG, Batch, Evaluation, SpanData
from llmeval_sdk.process.distribution import release
from llmeval_sdk.process.shield import shield


MOST_WORDS = 200
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

    def __init__(self, provider: Any = None) -> None:
        if provider is None:
            try:
                from opentelemetry.metrics import get_meter_provider
            except ImportError as error:
                raise missing_extra("otel_metrics", "otel", "opentelemetry-sdk") from error
            provider = get_meter_provider()
        meter = provider.get_meter(names.SCOPE)
        make = meter.create_histogram
        self._scores = make(names.HISTOGRAM, unit="1", description="Scores by evaluator")
        self._tokens = make(
            "gen_ai.client.token.usage", unit="{token}", description="Tokens of model calls",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )  # fmt: skip
        self._took = make(
            "gen_ai.client.operation.duration", unit="s", description="Duration of model calls",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )  # fmt: skip
        self._first = make(
            "gen_ai.client.operation.time_to_first_chunk", unit="s",
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
        if len(known) < MOST_WORDS:
            known.add(word)
        return word if word in known else OTHER


Points = Iterator[tuple[float, dict[str, str]]]


class Instrument(NamedTuple):
    """One instrument: its name, its unit, and how its points are read from the counters."""

    name: str
    unit: str
    description: str
    points: Callable[[Any], Points]
    falls: bool = False
    """True for a value that can go down again, such as the length of a queue."""


def _exporters(field: str) -> Callable[[Any], Points]:
    def points(stats: Any) -> Points:
        for name, account in stats.exporters.items():
            yield getattr(account, field), {names.EXPORTER: name}

    return points


def _dropped(stats: Any) -> Points:
    for name, account in stats.exporters.items():
        for reason, times in account.dropped.items():
            yield times, {names.EXPORTER: name, names.ERROR_TYPE: reason}


def _by(field: str, label: str) -> Callable[[Any], Points]:
    def points(stats: Any) -> Points:
        for key, times in getattr(stats, field).items():
            yield times, {label: key}

    return points


def _not_run(stats: Any) -> Points:
    for judge, reasons in stats.not_run.items():
        for reason, times in reasons.items():
            yield times, {names.EVALUATION_NAME: judge, names.NOT_RUN_REASON: reason}


def _tokens(stats: Any) -> Points:
    used = stats.judge_usage
    yield used.input_tokens or 0, {names.TOKEN_TYPE: "input"}
    yield used.output_tokens or 0, {names.TOKEN_TYPE: "output"}


def _one(read: Callable[[Any], float | None]) -> Callable[[Any], Points]:
    def points(stats: Any) -> Points:
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


def observe(stats: Callable[[], Any], provider: Any = None) -> None:
    """Report the SDK's own counters as metrics, read from ``stats()`` at each collection.

    Call it once. Until the app sets a global meter provider, the instruments are stand-ins of
    OpenTelemetry's API, which become real ones at that moment.
    """
    from opentelemetry.metrics import Observation, get_meter_provider

    meter = (provider or get_meter_provider()).get_meter(
        names.SCOPE, release(), schema_url=names.SCHEMA_URL
    )

    def callback(points: Callable[[Any], Points]) -> Callable[[Any], Iterable[Any]]:
        def read(_: Any) -> list[Any]:
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
