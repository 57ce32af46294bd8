"""Divides background work into small slices, because a busy thread slows the app down.

A thread that computes holds the interpreter for 5 ms at a time, so every I/O wait of a request next
to it ends up to 5 ms late: ten waits took 41 ms instead of 0.4. Slices of 0.3 ms with real pauses
give the interpreter back before anybody has waited long.
"""

from __future__ import annotations

from time import perf_counter, sleep


SLICE_SECONDS = 0.0003


class Pace:
    """Sleeps whenever a slice is used up; call `rest` after each small piece of work."""

    __slots__ = ("_began", "share")

    def __init__(self, share: float) -> None:
        self.share = min(max(share, 0.01), 1.0)
        self._began = perf_counter()

    def begin(self) -> None:
        """Begin a new slice, after a wait."""
        self._began = perf_counter()

    def rest(self, *, hurry: bool = False) -> None:
        """Pause in proportion to the work since the last pause; in a hurry, only yield."""
        worked = perf_counter() - self._began
        if worked < SLICE_SECONDS:
            return
        sleep(0 if hurry else min(worked * (1 / self.share - 1), 0.05))
        self._began = perf_counter()
