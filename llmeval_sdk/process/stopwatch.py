"""Times of a span of ours by one look at the wall clock, which may be set back meanwhile."""

from __future__ import annotations

from time import perf_counter_ns, time_ns


class Stopwatch:
    """Says what time it was at its start, and what time it is since, which never falls."""

    __slots__ = ("_perf_ns", "start_ns")

    def __init__(self) -> None:
        self.start_ns = time_ns()
        """The wall clock at the start, in nanoseconds since the epoch."""
        self._perf_ns = perf_counter_ns()

    def now_ns(self) -> int:
        """Return the start and the monotonic time since, in nanoseconds since the epoch."""
        return self.start_ns + perf_counter_ns() - self._perf_ns
