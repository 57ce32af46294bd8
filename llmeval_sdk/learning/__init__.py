"""Risk that learns: a risk score is re-fitted on what judges and people said of this app's records.

`make` returns what a pipeline needs of it. The core finds it through the registry and works without
it: then the shipped weights apply.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from llmeval_sdk.config import Settings
    from llmeval_sdk.learning.background import Learning


def make(settings: Settings) -> Learning | None:
    """Return what re-fits risk scores beside the store, or ``None`` where it is switched off."""
    from llmeval_sdk.config import SCORES
    from llmeval_sdk.config.learning import LearnedSettings
    from llmeval_sdk.learning.background import Learning

    if not settings.of(LearnedSettings).learn:
        return None
    names = settings.capture_content != SCORES
    return Learning(Path(settings.store).expanduser(), names=names)
