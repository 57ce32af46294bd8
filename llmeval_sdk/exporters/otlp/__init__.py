"""OTLP: sends spans as traces and scores as log events, by itself or through the app's providers.

No package is needed. OTLP is written by hand (`wire`) and sent with a client of our own, because
its delivery has to be bounded. ``otel="global"`` needs the app's ``opentelemetry-sdk``.
"""

from __future__ import annotations

from llmeval_sdk.config import Settings
from llmeval_sdk.model.protocols import Exporter


def make(settings: Settings) -> Exporter:
    """Make the exporter ``otlp`` by the settings."""
    if settings.otel == "global":
        from llmeval_sdk.exporters.otlp.app_providers import AppOtelExporter

        made: Exporter = AppOtelExporter(settings)
        return made
    from llmeval_sdk.exporters.otlp.exporter import OtlpExporter

    return OtlpExporter(settings)
