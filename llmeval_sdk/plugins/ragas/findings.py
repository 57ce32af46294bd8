"""What ``llmeval doctor`` says of Ragas, where one of its evaluators was asked for."""

from __future__ import annotations

from collections.abc import Iterator

from llmeval_sdk.config import Settings
from llmeval_sdk.plugins.ragas._where import where


def findings(
    settings: Settings, *, offline: bool = False
) -> Iterator[tuple[bool | None, str, str]]:
    """Say where Ragas runs and whether it can."""
    if any(name.startswith("ragas") for name in settings.evaluators):
        yield where(settings)
