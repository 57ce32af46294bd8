"""How many calls to a judge model may run at a time: additive increase, multiplicative decrease."""

from __future__ import annotations

from llmeval_sdk.policy._lock import Locked


class AdaptiveLimit(Locked):
    """Halves when the model says it is asked too often, and grows by one per round of successes.

    Take a ticket before a call and hand it back after it. Calls that were already running when the
    limit last changed downwards do not halve it again: they met the same wall. The limit stays in
    1..maximum and starts at the maximum.
    """

    __slots__ = ("_cuts", "_maximum", "_successes", "in_flight", "limit")

    def __init__(self, maximum: int = 8) -> None:
        super().__init__()
        self._maximum = max(maximum, 1)
        self._cuts = 0
        self._successes = 0
        self.limit = self._maximum
        self.in_flight = 0

    def enter(self) -> int | None:
        """Return the ticket for a call, or ``None`` when as many as allowed are running."""
        with self._lock:
            if self.in_flight >= self.limit:
                return None
            self.in_flight += 1
            return self._cuts

    def leave(self, ticket: int, *, succeeded: bool = False, rate_limited: bool = False) -> None:
        """Hand a ticket back with the outcome; a failure of another kind changes nothing."""
        with self._lock:
            self.in_flight -= 1
            if ticket != self._cuts:
                return
            if rate_limited:
                self._cut()
            elif succeeded and self.limit < self._maximum:
                self._successes += 1
                if self._successes >= self.limit:
                    self.limit += 1
                    self._successes = 0

    def slow_down(self, ticket: int) -> None:
        """Halve the limit for a call that was told so and tries again without leaving."""
        with self._lock:
            if ticket == self._cuts:
                self._cut()

    def _cut(self) -> None:
        self.limit = max(self.limit // 2, 1)
        self._cuts += 1
        self._successes = 0
