"""Langfuse: spans over its OTLP endpoint, scores over its score API."""

from __future__ import annotations

from llmeval_sdk.pipeline.plan import Plugin


class LangfusePlugin(Plugin):
    """The exporter ``langfuse``."""

    name = "langfuse"
    settings = {"Langfuse": "settings:LangfuseSettings"}
    exporters = {"langfuse": "exporter:LangfuseExporter"}


plugin = LangfusePlugin()
