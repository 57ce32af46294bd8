"""Counters that are exact with any number of threads, signal handlers and collector callbacks."""

from __future__ import annotations

from itertools import count


class Count:
    """An exact counter without a lock: one C call counts, so nothing can come in between.

    ``self.n += 1`` is three steps and loses counts under threads on some interpreters; a lock can
    deadlock when a signal handler or a finaliser counts while the lock is held.
    """

    __slots__ = ("_ticks", "add")

    def __init__(self) -> None:
        self._ticks = count()
        self.add = self._ticks.__next__

    @property
    def value(self) -> int:
        """How often `add` was called. An ``itertools.count`` shows its next number in its repr."""
        return int(repr(self._ticks)[6:-1])


class Counts:
    """A counter per reason, made when a reason first occurs."""

    __slots__ = ("_by_reason",)

    def __init__(self) -> None:
        self._by_reason: dict[str, Count] = {}

    def add(self, reason: str, times: int = 1) -> None:
        """Count a reason; ``setdefault`` lets only one of two threads make its counter."""
        counter = self._by_reason.get(reason) or self._by_reason.setdefault(reason, Count())
        for _ in range(times):
            counter.add()

    def snapshot(self) -> dict[str, int]:
        """Return the counts so far, by reason."""
        return {reason: counter.value for reason, counter in list(self._by_reason.items())}

    def clear(self) -> None:
        """Forget all counts."""
        self._by_reason.clear()

    @property
    def total(self) -> int:
        """Return the sum over the reasons."""
        return sum(self.snapshot().values())
