"""Circuit breaker: stop asking a judge model that keeps failing, then try it once in a while."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from llmeval_sdk.policy._lock import Locked
from llmeval_sdk.policy.admission import Refused


class Breaker(Locked):
    """Opens after consecutive transient failures; after a cool-down one probe at a time decides.

    Take a ticket before a call and hand it back with the outcome. Outcomes of calls that began in
    an earlier state are ignored, so a straggler neither opens nor closes anything. A probe that
    never reports gives way to another one after a further cool-down. ``clock`` gives monotonic
    seconds.
    """

    __slots__ = ("_clock", "_cool_down", "_failures", "_model", "_run", "_ticket", "_until")

    def __init__(
        self,
        model: str = "",
        *,
        failures: int = 5,
        cool_down: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._model = model
        self._failures = failures
        self._cool_down = cool_down
        self._clock = clock
        self._ticket = 0
        self._run = 0
        self._until: float | None = None

    @property
    def state(self) -> Literal["closed", "open", "half_open"]:
        """Where it stands now."""
        if self._until is None:
            return "closed"
        return "open" if self._clock() < self._until else "half_open"

    def admit(self) -> int | Refused:
        """Return the ticket for a call, or why there is none."""
        with self._lock:
            if self._until is None:
                return self._ticket
            now = self._clock()
            if now < self._until:
                wait = self._until - now
                return Refused(
                    "circuit_open",
                    f"{self._model or 'the judge model'} failed {self._run} times in a row",
                    wait,
                )
            self._ticket += 1  # a probe: older tickets are void, and no other until it reports
            self._until = now + self._cool_down
            return self._ticket

    def succeeded(self, ticket: int) -> None:
        """Close: the model answered."""
        with self._lock:
            if ticket == self._ticket:
                self._run = 0
                if self._until is not None:
                    self._until = None
                    self._ticket += 1

    def unused(self, ticket: int) -> None:
        """Say that no call was made after all: it tells nothing, and another may probe at once."""
        with self._lock:
            if ticket == self._ticket and self._until is not None:
                self._until = self._clock()

    def failed(self, ticket: int) -> None:
        """Count a transient failure (timeout, unavailable, 5xx), not an answer that was bad."""
        with self._lock:
            if ticket != self._ticket:
                return
            self._run += 1
            if self._until is not None or self._run >= self._failures:
                self._until = self._clock() + self._cool_down
                self._ticket += 1


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
