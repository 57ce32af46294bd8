"""Datadog LLM Observability: spans are real spans of ddtrace, and evaluations are sent by this SDK.

While a span of ours is active, it keeps a ddtrace span of the same kind open, so that whatever
ddtrace instruments is nested below it. The delivery thread annotates and finishes that span.
Evaluations bypass ddtrace's queue, which holds 1,000 of them and drops the rest.
"""

from __future__ import annotations

from llmeval_sdk.config import Settings
from llmeval_sdk.model.protocols import Exporter


def make(settings: Settings) -> Exporter:
    """Make the exporter ``datadog``; raises `ConfigurationError` if ddtrace cannot be used."""
    from llmeval_sdk.plugins.datadog.exporter._exporter import DatadogExporter
    from llmeval_sdk.plugins.datadog.exporter._library import load

    return DatadogExporter(load(settings), settings)
