"""Langfuse: spans over its OTLP endpoint, scores over its score API."""

from __future__ import annotations

from llmeval_sdk.config.reading import Secret, Table, secret, server, setting
from llmeval_sdk.pipeline.plan import Plugin


class LangfuseSettings(Table):
    """Where Langfuse is, and how it groups what it gets."""

    langfuse_url: str = setting(
        "https://cloud.langfuse.com",
        "LANGFUSE_BASE_URL",
        "LANGFUSE_HOST",
        read=server,
        doc="Where Langfuse is.",
        closes="langfuse",
    )
    langfuse_public_key: str | None = setting(
        None, "LANGFUSE_PUBLIC_KEY", doc="Public key of a Langfuse project."
    )
    langfuse_secret_key: Secret | None = setting(
        None, "LANGFUSE_SECRET_KEY", read=secret, doc="Secret key of that project."
    )
    langfuse_environment: str | None = setting(
        None,
        "LANGFUSE_TRACING_ENVIRONMENT",
        doc="Environment in Langfuse. Default: `deployment.environment.name` of the resource.",
        in_experiment="experiment-{name}",
    )
    langfuse_release: str | None = setting(
        None, "LANGFUSE_RELEASE", doc="Release of the app in Langfuse."
    )


class LangfusePlugin(Plugin):
    """The exporter ``langfuse``."""

    name = "langfuse"
    settings = {"Langfuse": ":LangfuseSettings"}
    exporters = {"langfuse": "exporter:LangfuseExporter"}


plugin = LangfusePlugin()
