"""Makes the exporters of a pipeline: by name, from objects, or by the addresses in the settings."""

from __future__ import annotations

from collections.abc import Sequence

from llmeval_sdk import config, registry
from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.protocols import BaseExporter, Exporter, complete_exporter


def make_exporters(
    settings: Settings, own: Sequence[Exporter], problems: list[str], *, strict: bool
) -> tuple[BaseExporter, ...]:
    """Return the app's own exporters and the named ones; by default, those with an address."""
    exporters = [complete_exporter(exporter) for exporter in own]
    for name in settings.exporters or (() if exporters else default_exporters(settings)):
        try:
            exporters.append(complete_exporter(registry.exporter_factory(name)(settings)))
        except ConfigurationError as error:
            if strict:
                raise
            problems.append(f"{config.source_of('exporters')}: {error}; left out")
    return tuple(exporters) or (complete_exporter(registry.exporter_factory("local")(settings)),)


def default_exporters(settings: Settings) -> tuple[str, ...]:
    """Return the exporters for settings that name none: those with an address, else local."""
    names = []
    endpoints = (
        settings.otlp_endpoint, settings.otlp_traces_endpoint, settings.otlp_logs_endpoint
    )  # fmt: skip
    if (any(endpoints) and not settings.otel_disabled) or settings.otel == "global":
        names.append("otlp")
    if _wants_datadog(settings):
        names.append("datadog")
    return tuple(names) or ("local",)


def _wants_datadog(settings: Settings) -> bool:
    """Return whether the environment is set up for Datadog LLM Observability."""
    if settings.datadog_enabled is not None:
        return settings.datadog_enabled
    host = settings.datadog_agent_host or settings.datadog_agent_url
    return bool(settings.datadog_api_key or host) and bool(config.variables("DD_LLMOBS_"))
