"""The setting of automatic instrumentation."""

from __future__ import annotations

from dataclasses import dataclass

from llmeval_sdk.config.reading import allows, names, setting
from llmeval_sdk.errors import nearest


LIBRARIES = ("anthropic", "bedrock", "google-genai", "groq", "mistralai", "openai")
"""Names of the clients that can be instrumented."""


@allows(f"{', '.join(f'`{name}`' for name in LIBRARIES)}, with commas between")
def libraries(text: str) -> tuple[str, ...]:
    """Read the names of clients."""
    wanted = tuple(name.lower() for name in names(text))
    for name in wanted:
        if name not in LIBRARIES:
            raise ValueError(f"{name[:80]!r} cannot be instrumented: {nearest(name, LIBRARIES)}")
    return wanted


@dataclass(frozen=True, kw_only=True)
class InstrumentationSettings:
    """Which clients of models are instrumented."""

    instrument: tuple[str, ...] = setting(
        (),
        "LLMEVAL_INSTRUMENT",
        read=libraries,
        doc="Clients of models whose calls are traced without a decorator, as by "
        "`llmeval.instrument()`; `pip install 'llmeval-inprocess[instrument]'` brings what it "
        "needs.",
    )
