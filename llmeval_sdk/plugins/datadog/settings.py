"""The settings of Datadog LLM Observability; ddtrace reads more variables by itself."""

from __future__ import annotations

from llmeval_sdk import config
from llmeval_sdk.config import Settings
from llmeval_sdk.config.reading import Secret, Table, flag, names, secret, setting


class DatadogSettings(Table):
    """Whether and how spans and scores go to Datadog LLM Observability."""

    datadog_enabled: bool | None = setting(
        None,
        "DD_LLMOBS_ENABLED",
        read=flag,
        doc="Turns the exporter `datadog` on or off.",
        careful=False,
    )
    datadog_app: str | None = setting(
        None,
        "DD_LLMOBS_ML_APP",
        doc="Name of the app in LLM Observability. Default: the service.",
        in_experiment="{name}",
    )
    datadog_agentless: bool | None = setting(
        None,
        "DD_LLMOBS_AGENTLESS_ENABLED",
        read=flag,
        doc="Send without an agent, with the API key. Default: only where no agent listens.",
    )
    datadog_api_key: Secret | None = setting(
        None, "DD_API_KEY", read=secret, doc="Datadog API key; only needed without an agent."
    )
    datadog_site: str | None = setting(None, "DD_SITE", doc="Datadog site, `datadoghq.com`.")
    datadog_env: str | None = setting(None, "DD_ENV", doc="Environment, such as `prod`.")
    datadog_agent_url: str | None = setting(
        None, "DD_TRACE_AGENT_URL", doc="Address of the Datadog agent."
    )
    datadog_agent_host: str | None = setting(
        None, "DD_AGENT_HOST", doc="Host of the Datadog agent."
    )
    datadog_integrations: tuple[str, ...] = setting(
        (),
        "LLMEVAL_DATADOG_INTEGRATIONS",
        read=names,
        doc="Libraries that ddtrace shall instrument, `openai,langchain`, or `all`. Default: none "
        "beyond what the app or `ddtrace-run` patches.",
    )


def is_wanted(settings: Settings) -> bool:
    """Return whether the environment is set up for Datadog LLM Observability."""
    own = settings.of(DatadogSettings)
    if own.datadog_enabled is not None:
        return own.datadog_enabled
    host = own.datadog_agent_host or own.datadog_agent_url
    return bool(own.datadog_api_key or host) and bool(config.variables("DD_LLMOBS_"))
