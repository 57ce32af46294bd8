"""The event loop of the judges where the process may be frozen: its time then stands still."""

from __future__ import annotations

import selectors
from time import monotonic

from llmeval_sdk.process.threads import DaemonLoop


STEP_SECONDS = 0.5
"""How long the loop sleeps at most while a deadline runs; what is longer was a freeze."""
LATE_SECONDS = 0.5
"""How late a thread that is not frozen may wake up."""


class _StepSelector(selectors.DefaultSelector):
    """A selector that adds up for how long the process was frozen while it waited."""

    frozen_seconds = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait as the loop asks, but in small steps while a deadline runs."""
        if timeout is None:  # nothing has a deadline
            return super().select()
        step, begun = min(timeout, STEP_SECONDS), monotonic()
        ready = super().select(step)
        late = monotonic() - begun - step
        if late > LATE_SECONDS:
            self.frozen_seconds += late
        return ready


class ThawingLoop(DaemonLoop):
    """An event loop whose time stands still while its process is frozen.

    A judgement and its requests therefore have their whole time after the thaw: an answer that came
    meanwhile is read, and a request whose connection was cut is sent again.
    """

    def __init__(self) -> None:
        self._stepping = _StepSelector()
        super().__init__(self._stepping)

    def time(self) -> float:
        """Return monotonic seconds, less those in which the process was frozen."""
        return super().time() - self._stepping.frozen_seconds
