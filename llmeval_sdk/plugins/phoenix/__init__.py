"""Arize Phoenix: spans over OTLP, scores as annotations of spans, sessions and documents."""

from __future__ import annotations

from llmeval_sdk.pipeline.plan import Plugin


class PhoenixPlugin(Plugin):
    """The exporter ``phoenix``."""

    name = "phoenix"
    settings = {"Phoenix": "settings:PhoenixSettings"}
    exporters = {"phoenix": "exporter:PhoenixExporter"}


plugin = PhoenixPlugin()
