"""Which verdicts of a message the exporters have, as the register is to know it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

from llmeval_sdk.pipeline import Outlet


NOTE_SECONDS = 5.0
"""How long a verdict that was emitted waits for others until exporters are asked whether they have
it. It is well below `HOLD_SECONDS`, after which another worker emits it again."""


class Sending:
    """Follows what one message emits until all exporters have it.

    Args:
        outlet: where it is emitted.
        note: notes in the register that the exporters have the verdicts of some ids.
    """

    def __init__(self, outlet: Outlet, note: Callable[[Sequence[str]], None]) -> None:
        self._outlet, self._note = outlet, note
        self._emitted: list[str] = []
        self._under_way: list[str] = []
        self._barriers: list[Any] = []
        self._asked_at = monotonic()

    def add(self, judgement: str) -> None:
        """Follow a verdict that was emitted just now."""
        self._emitted.append(judgement)

    def look(self) -> None:
        """Note what has arrived, and begin to follow what was emitted since; waits for nothing."""
        if self._under_way and all(barrier.done.is_set() for barrier in self._barriers):
            self._note(self._under_way)
            self._under_way = []
        if not self._under_way and monotonic() > self._asked_at + NOTE_SECONDS:
            self._follow()

    def _follow(self) -> None:
        self._asked_at = monotonic()
        if self._emitted:
            self._under_way, self._emitted = self._emitted, []
            self._barriers = self._outlet.barriers()

    def finish(self, seconds: float) -> bool:
        """Wait so many seconds for the exporters; return whether they have all, and note it."""
        self._emitted = self._under_way + self._emitted
        self._follow()
        deadline = monotonic() + seconds
        for barrier in self._barriers if self._under_way else ():
            if not barrier.done.wait(max(0.0, deadline - monotonic())):
                return False
        self.look()
        return True
