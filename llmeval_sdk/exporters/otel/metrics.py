"""Gives scores and the SDK's counters to the app's meter provider as OpenTelemetry metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from llmeval_sdk._process.shield import shield
from llmeval_sdk.errors import missing_extra
from llmeval_sdk.exporters.otel import _names
from llmeval_sdk.exporters.otel._attributes import value_and_label
from llmeval_sdk.exporters.otel.wire import version
from llmeval_sdk.model import Evaluation


class Histogram:
    """Records scores in one histogram by evaluator, for dashboards.

    It belongs to the given meter provider, or to the app's global one. Raises `ConfigurationError`
    if OpenTelemetry's SDK is not installed.
    """

    def __init__(self, provider: Any = None) -> None:
        if provider is None:
            try:
                from opentelemetry.metrics import get_meter_provider
            except ImportError as error:
                raise missing_extra("otel_metrics", "otel", "opentelemetry-sdk") from error
            provider = get_meter_provider()
        self._instrument = provider.get_meter(_names.SCOPE).create_histogram(
            _names.HISTOGRAM, unit="1", description="Scores by evaluator"
        )

    def record(self, evaluation: Evaluation) -> None:
        """Record a score; a category or a failure has none."""
        value, label = value_and_label(evaluation)
        if value is None:
            return
        about = {
            _names.EVALUATION_NAME: evaluation.name,
            _names.EVALUATOR_KIND: _names.EVALUATOR_KINDS[evaluation.evaluator_kind],
        }
        if label is not None:
            about[_names.SCORE_LABEL] = label
        self._instrument.record(value, about)


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
            yield getattr(account, field), {_names.EXPORTER: name}

    return points


def _dropped(stats: Any) -> Points:
    for name, account in stats.exporters.items():
        for reason, times in account.dropped.items():
            yield times, {_names.EXPORTER: name, _names.ERROR_TYPE: reason}


def _by(field: str, label: str) -> Callable[[Any], Points]:
    def points(stats: Any) -> Points:
        for key, times in getattr(stats, field).items():
            yield times, {label: key}

    return points


def _not_run(stats: Any) -> Points:
    for judge, reasons in stats.not_run.items():
        for reason, times in reasons.items():
            yield times, {_names.EVALUATION_NAME: judge, _names.NOT_RUN_REASON: reason}


def _tokens(stats: Any) -> Points:
    used = stats.judge_usage
    yield used.input_tokens or 0, {_names.TOKEN_TYPE: "input"}
    yield used.output_tokens or 0, {_names.TOKEN_TYPE: "output"}


def _one(read: Callable[[Any], float | None]) -> Callable[[Any], Points]:
    def points(stats: Any) -> Points:
        yield read(stats) or 0, {}

    return points


READINGS = (
    Instrument(_names.SPANS, "{span}", "Finished spans", _one(lambda stats: stats.spans)),
    Instrument(
        _names.EVALUATIONS, "{evaluation}", "Evaluations made or submitted",
        _one(lambda stats: stats.evaluations),
    ),
    Instrument(
        _names.DELIVERED, "{record}", "Spans and evaluations that an exporter delivered",
        _exporters("delivered"),
    ),
    Instrument(
        _names.DROPPED, "{record}", "Spans and evaluations lost to an exporter, by reason", _dropped
    ),
    Instrument(_names.UNKNOWN, "{record}", "Records sent without an answer", _exporters("unknown")),
    Instrument(
        _names.QUEUE, "{record}", "Records that wait to be delivered", _exporters("undelivered"),
        falls=True,
    ),
    Instrument(
        _names.JUDGED, "{judgement}", "Judgements that gave a value",
        _by("judged", _names.EVALUATION_NAME),
    ),
    Instrument(_names.NOT_RUN, "{judgement}", "Judgements not made, by reason", _not_run),
    Instrument(
        _names.PENDING, "{judgement}", "Judgements that wait or run",
        _one(lambda stats: stats.pending_judgements), falls=True,
    ),
    Instrument(_names.JUDGE_TOKENS, "{token}", "Tokens that judges used", _tokens),
    Instrument(
        _names.JUDGE_COST, "USD", "Money that judges used, where the price is known",
        _one(lambda stats: stats.judge_usage.cost_usd),
    ),
    Instrument(
        _names.CUT_PROMPTS, "{judgement}", "Judgements whose prompt was too long and was cut",
        _one(lambda stats: stats.cut_prompts),
    ),
    Instrument(
        _names.PROBLEMS, "{exception}", "Exceptions of evaluators and of the SDK that were caught",
        _by("problems", _names.SITE),
    ),
)  # fmt: skip


def observe(stats: Callable[[], Any], provider: Any = None) -> None:
    """Report the SDK's own counters as metrics, read from ``stats()`` at each collection.

    Call it once. Until the app sets a global meter provider, the instruments are stand-ins of
    OpenTelemetry's API, which become real ones at that moment.
    """
    from opentelemetry.metrics import Observation, get_meter_provider

    meter = (provider or get_meter_provider()).get_meter(
        _names.SCOPE, version(), schema_url=_names.SCHEMA_URL
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
