"""Traces the calls of model clients without a decorator.

    llmeval.instrument("openai", "anthropic")     # every client of these libraries
    client = llmeval.wrap_openai(OpenAI())        # this client only, and nothing is patched

Both use the instrumentations of OpenInference. Their spans go to a provider of our own, where they
become spans of ours: scored, priced and sent like those of the decorators.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from llmeval_sdk.pipeline.plan import Plugin
from llmeval_sdk.process.loading import load_module


if TYPE_CHECKING:
    from llmeval_sdk.config import Settings


class InstrumentPlugin(Plugin):
    """`llmeval_sdk.instrument` and `llmeval_sdk.wrap_openai`."""

    name = "instrument"
    requires = ("openinference", "datadog")
    settings = {"Automatic instrumentation": "settings:InstrumentationSettings"}
    findings = {"Instrumented clients": "libraries:findings"}

    def start(self, settings: Settings) -> None:
        """Instrument the clients that the settings name, and look again at those that are."""
        from llmeval_sdk.plugins.instrument.settings import InstrumentationSettings

        patching = f"{__name__}.patching"
        if settings.of(InstrumentationSettings).instrument or patching in sys.modules:
            load_module(patching).connect(settings)


plugin = InstrumentPlugin()
