"""OTLP: spans as traces and scores as log events, by ourselves or through the app's providers.

Needs no package: OTLP is written by hand (`wire`) and sent by a client of our own, because the
delivery is what has to be bounded. ``otel="global"`` needs the app's ``opentelemetry-sdk``.
"""

from __future__ import annotations

from llmeval_sdk import registry
from llmeval_sdk.config import Settings
from llmeval_sdk.protocols import Exporter


def make(settings: Settings) -> Exporter:
    """Make the exporter ``otlp`` by the settings."""
    if settings.otel == "global":
        made: Exporter = registry.load("llmeval_sdk.exporters.otel._app:AppOtelExporter")(settings)
        return made
    from llmeval_sdk.exporters.otel._exporter import OtlpExporter

    return OtlpExporter(settings)
