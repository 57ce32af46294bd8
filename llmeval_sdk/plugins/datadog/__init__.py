"""Datadog LLM Observability: its exporter, and scores for the spans of apps that use ddtrace."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from llmeval_sdk.pipeline.plan import Plugin


if TYPE_CHECKING:
    from llmeval_sdk.config import Settings


class DatadogPlugin(Plugin):
    """The exporter ``datadog``, and the spans of apps that use ddtrace themselves."""

    name = "datadog"
    settings = {"Datadog": "settings:DatadogSettings"}
    exporters = {"datadog": "exporter:make"}
    readers = {"datadog": "source:connect"}

    def default_exporters(self, settings: Settings) -> tuple[str, ...]:
        """Return the exporter where the environment is set up for LLM Observability."""
        from llmeval_sdk.plugins.datadog.settings import is_wanted

        return ("datadog",) if is_wanted(settings) else ()

    def start(self, settings: Settings) -> None:
        """Have the app's ``LLMObs.flush()`` deliver our records, whatever the exporters."""
        if "ddtrace.llmobs" in sys.modules:
            from llmeval_sdk.plugins.datadog.flushing import deliver_before_flush

            deliver_before_flush()


plugin = DatadogPlugin()
