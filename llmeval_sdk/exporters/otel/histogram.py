"""Scores as a metric, for dashboards: one histogram, by evaluator."""

from __future__ import annotations

from typing import Any

from llmeval_sdk.config import Settings
from llmeval_sdk.errors import missing_extra
from llmeval_sdk.exporters.otel import names
from llmeval_sdk.exporters.otel.attributes import value_and_label
from llmeval_sdk.model import Evaluation


class Histogram:
    """Records into a meter of the app's provider; without one, and without the setting, nothing."""

    def __init__(self, settings: Settings, provider: Any = None) -> None:
        self._instrument: Any = None
        if provider is None and not settings.otel_metrics:
            return
        if provider is None:
            try:
                from opentelemetry.metrics import get_meter_provider
            except ImportError as error:
                raise missing_extra("otel_metrics", "otel", "opentelemetry-sdk") from error
            provider = get_meter_provider()
        self._instrument = provider.get_meter(names.SCOPE).create_histogram(
            names.HISTOGRAM, unit="1", description="Scores by evaluator"
        )

    def record(self, evaluation: Evaluation) -> None:
        """Record a score; categories and failures have none."""
        if self._instrument is None:
            return
        value, label = value_and_label(evaluation)
        if value is None:
            return
        about = {
            names.EVALUATION_NAME: evaluation.name,
            names.EVALUATOR_KIND: names.EVALUATOR_KINDS[evaluation.evaluator_kind],
        }
        if label is not None:
            about[names.SCORE_LABEL] = label
        self._instrument.record(value, about)
