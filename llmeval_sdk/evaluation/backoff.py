"""When to spare a judge model: the circuit breaker, and the limit on calls at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

from llmeval_sdk.evaluation.admission import Refused
from llmeval_sdk.process.forks import Locked


class Breaker(Locked):
    """A circuit breaker: stops calls to a judge model that keeps failing, then tries one at a time.

    It opens after consecutive failures. After a cool-down it lets one call through, the probe,
    whose outcome decides whether it closes. The caller takes a ticket before a call and
    returns it with the outcome. Outcomes of calls that began in an earlier state are ignored, so a
    late one neither opens nor closes the breaker. If a probe never reports, another one is admitted
    after a further cool-down. ``clock`` returns monotonic seconds.

    Others that call the same model may share what is found out: `news` tells them, `hear` tells
    this one, and `may_probe` says whether the next probe is this one's.
    """

    __slots__ = (
        "_clock", "_failures", "_model", "_run", "_ticket", "_until", "cool_down", "may_probe",
        "news",
    )  # fmt: skip

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
        self.cool_down = cool_down
        self.may_probe: Callable[[], bool] = lambda: True
        self.news: Literal["up", "down"] | None = None
        """What was found out here last, until somebody has told the others."""
        self._clock = clock
        self._ticket = 0
        self._run = 0
        self._until: float | None = None

    @property
    def state(self) -> Literal["closed", "open", "half_open"]:
        """The state now."""
        if self._until is None:
            return "closed"
        return "open" if self._clock() < self._until else "half_open"

    def admit(self) -> int | Refused:
        """Return the ticket for a call, or why there must be none."""
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
            if not self.may_probe():
                detail = f"another process tries {self._model or 'the judge model'}, which was down"
                return Refused("circuit_open", detail, 1.0)
            self._ticket += 1  # a probe: older tickets are void, and it must report first
            self._until = now + self.cool_down
            return self._ticket

    def succeeded(self, ticket: int) -> None:
        """Report that the model answered, which closes the breaker."""
        with self._lock:
            if ticket == self._ticket:
                self._run = 0
                if self._until is not None:
                    self._until = None
                    self._ticket += 1
                    self.news = "up"

    def unused(self, ticket: int) -> None:
        """Report that no call was made, which says nothing; another may probe now."""
        with self._lock:
            if ticket == self._ticket and self._until is not None:
                self._until = self._clock()

    def failed(self, ticket: int) -> None:
        """Report a failure: a timeout, an error of the server, or a reply that cannot be read."""
        with self._lock:
            if ticket != self._ticket:
                return
            self._run += 1
            if self._until is not None or self._run >= self._failures:
                self._until = self._clock() + self.cool_down
                self._ticket += 1
                self.news = "down"

    def hear(self, news: Literal["up", "down"], seconds: float) -> None:
        """Take over what another process found out; a model that is down is spared for as long."""
        with self._lock:
            if news == "down" and self.state != "open":
                self._run = max(self._run, self._failures)
                self._until = self._clock() + seconds
                self._ticket += 1
            elif news == "up" and self._until is not None:
                self._until, self._run = None, 0
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
