"""Datadog LLM Observability: spans are real ddtrace spans, evaluations are sent by ourselves.

A span of ours opens ddtrace's span of the same kind while it is active, so that what ddtrace
instruments nests below it; it is annotated and finished by the delivery thread. Evaluations do not
go through ddtrace's queue, which holds 1,000 and drops the rest.
"""

from __future__ import annotations

from llmeval_sdk.config import Settings
from llmeval_sdk.protocols import Exporter


def make(settings: Settings) -> Exporter:
    """Make the exporter ``datadog``; raises `ConfigurationError` where ddtrace cannot be used."""
    from llmeval_sdk.exporters.datadog._exporter import DatadogExporter
    from llmeval_sdk.exporters.datadog._library import load

    return DatadogExporter(load(settings), settings)
