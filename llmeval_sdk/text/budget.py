"""The limit on the work of one evaluator on one record, so that a bad record costs only itself.

Work is counted by the sizes of what is read and not by a clock, so that the same row has the same
outcome online, offline and on any machine. A worker that serves an app can also limit the processor
time of its own thread, for machines that are much slower than the count expects.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from time import thread_time

from llmeval_sdk.process.pieces import pause


UNITS = 400_000
"""The units that one evaluator may spend on one record. One folds a character (about 0.1 µs)."""
MAX_CHARACTERS = 200_000
"""The characters that one evaluator may read of one record. More are refused without reading."""


class TooLargeError(Exception):
    """A record takes more work than an evaluator may do. The error is then ``too_large``."""

    type = "too_large"


class _Limit(threading.local):
    seconds: float | None = None


_limit = _Limit()


def limit_processor_time(seconds: float | None) -> None:
    """Limit the processor time that an evaluator on this thread may take for one record."""
    _limit.seconds = seconds


class WorkBudget:
    """The work that one evaluator may still do on one record."""

    __slots__ = ("_until", "left")

    def __init__(self, units: float = UNITS) -> None:
        self.left = units
        self._until = float("inf")
        if _limit.seconds is not None:
            with suppress(OSError):  # the platform has no clock for a thread
                self._until = thread_time() + _limit.seconds

    def spend(self, units: float) -> None:
        """Take units from what is left; raises `TooLargeError` if there are too few.

        A thread that works beside an app pauses here, if it has worked long enough.
        """
        pause()
        self.left -= units
        if self.left < 0:
            raise TooLargeError("the record takes more work than one evaluator may do")
        if self._until < float("inf") and thread_time() > self._until:
            raise TooLargeError("the record takes more processor time than one evaluator may have")

    def admit(self, characters: int) -> None:
        """Raise `TooLargeError` for texts that are together too long to be read at all."""
        if characters > MAX_CHARACTERS:
            raise TooLargeError(
                f"{characters:,} characters, of which {MAX_CHARACTERS:,} may be read"
            )
