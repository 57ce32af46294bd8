"""How much work one evaluator may do on one record: one bad record costs only itself.

Work is counted by the sizes of what is read, never by a clock, so that the same row has the same
outcome online and offline, on any machine. A worker that serves an app may add a limit on the
processor time of its own thread, for a machine that is much slower than the count expects.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from time import thread_time


UNITS = 400_000
"""What one evaluator may spend on one record. A unit is about 0.1 µs, a folded character."""
MAX_CHARACTERS = 200_000
"""Characters that one evaluator reads of one record; more is refused before it is read."""


class TooLargeError(Exception):
    """A record would take an evaluator more work than it may do: the error ``too_large``."""

    type = "too_large"


class _Limit(threading.local):
    seconds: float | None = None


_limit = _Limit()


def limit_processor_time(seconds: float | None) -> None:
    """Let no evaluator on this thread take more processor time than this for one record."""
    _limit.seconds = seconds


class Budget:
    """The work that is left for one evaluator and one record."""

    __slots__ = ("_until", "left")

    def __init__(self, units: float = UNITS) -> None:
        self.left = units
        self._until = float("inf")
        if _limit.seconds is not None:
            with suppress(OSError):  # a platform without a clock of the thread
                self._until = thread_time() + _limit.seconds

    def spend(self, units: float) -> None:
        """Take work from what is left. Raises `TooLargeError` when there is too little."""
        self.left -= units
        if self.left < 0:
            raise TooLargeError("the record takes more work than one evaluator may do")
        if self._until < float("inf") and thread_time() > self._until:
            raise TooLargeError("the record takes more processor time than one evaluator may have")

    def admit(self, characters: int) -> None:
        """Refuse a text, or several together, that are too long to be read at all."""
        if characters > MAX_CHARACTERS:
            raise TooLargeError(
                f"{characters:,} characters, of which {MAX_CHARACTERS:,} may be read"
            )
