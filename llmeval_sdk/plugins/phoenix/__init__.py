"""Arize Phoenix: spans over OTLP, scores as annotations of spans, sessions and documents."""

from __future__ import annotations

from llmeval_sdk.config.reading import Secret, Table, secret, server, setting
from llmeval_sdk.pipeline.plan import Plugin


class PhoenixSettings(Table):
    """Where Phoenix is."""

    phoenix_endpoint: str = setting(
        "http://127.0.0.1:6006",
        "PHOENIX_COLLECTOR_ENDPOINT",
        read=server,
        doc="Where Phoenix is.",
        closes="phoenix",
    )
    phoenix_api_key: Secret | None = setting(
        None, "PHOENIX_API_KEY", read=secret, doc="Key for Phoenix."
    )


class PhoenixPlugin(Plugin):
    """The exporter ``phoenix``."""

    name = "phoenix"
    settings = {"Phoenix": ":PhoenixSettings"}
    exporters = {"phoenix": "exporter:PhoenixExporter"}


plugin = PhoenixPlugin()
