"""The setting of automatic instrumentation."""

from __future__ import annotations

from llmeval_sdk.config.reading import Table, setting, some_of


LIBRARIES = ("anthropic", "bedrock", "google-genai", "groq", "mistralai", "openai")
"""Names of the clients that can be instrumented."""


class InstrumentationSettings(Table):
    """Which clients of models are instrumented."""

    instrument: tuple[str, ...] = setting(
        (),
        "LLMEVAL_INSTRUMENT",
        read=some_of(*LIBRARIES),
        doc="Clients of models whose calls are traced without a decorator, as by "
        "`llmeval.instrument()`; `pip install 'llmeval-inprocess[instrument]'` brings what it "
        "needs.",
    )
