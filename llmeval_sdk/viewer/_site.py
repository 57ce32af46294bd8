"""What all pages of one viewer share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llmeval_sdk.store.hourly_traffic import HourlyTraffic
from llmeval_sdk.viewer._background import Background
from llmeval_sdk.viewer._menu import Menu
from llmeval_sdk.viewer._readers import Readers, Watch


@dataclass(frozen=True, slots=True)
class Site:
    """What all pages of one viewer share."""

    readers: Readers
    watch: Watch
    feedback: bool
    traffic: HourlyTraffic
    background: Background
    menu: Menu
    reports: Any
    """The saved reports of offline runs; ``None`` if offline evaluation is not installed."""
