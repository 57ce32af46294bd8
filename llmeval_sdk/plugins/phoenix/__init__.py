"""Arize Phoenix: spans over OTLP, scores as annotations of spans, sessions and documents."""

from __future__ import annotations

from dataclasses import dataclass

from llmeval_sdk.config.reading import Secret, setting
from llmeval_sdk.pipeline.plan import Plugin


@dataclass(frozen=True, kw_only=True)
class PhoenixSettings:
    """Where Phoenix is."""

    phoenix_endpoint: str = setting(
        "http://127.0.0.1:6006",
        "LLMEVAL_PHOENIX_ENDPOINT",
        "PHOENIX_COLLECTOR_ENDPOINT",
        doc="Where Phoenix is.",
    )
    phoenix_api_key: Secret | None = setting(  # noqa: RUF009
        None, "PHOENIX_API_KEY", read=Secret, doc="Key for Phoenix."
    )


class PhoenixPlugin(Plugin):
    """The exporter ``phoenix``."""

    name = "phoenix"
    settings = {"Phoenix": ":PhoenixSettings"}
    exporters = {"phoenix": "exporter:PhoenixExporter"}


plugin = PhoenixPlugin()
