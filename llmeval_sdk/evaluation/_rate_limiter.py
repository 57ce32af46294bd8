"""Decides when a call to a judge model may be made: concurrency, breaker, budget, patience."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.evaluation.admission import Refused
from llmeval_sdk.evaluation.backoff import AdaptiveLimit
from llmeval_sdk.evaluation.books import Reservation
from llmeval_sdk.evaluation.limiter import BudgetLimiter
from llmeval_sdk.judges.models.prices import cost
from llmeval_sdk.model import Usage
from llmeval_sdk.process.shield import shield


_INTERRUPTED = "interrupted"
"""The failure of a call that an exception ended, such as the timeout of the whole judgement."""
_TRANSIENT = (_INTERRUPTED, "timeout", "rate_limited", "unavailable")
MAX_WAIT_SECONDS = 61.0
"""A patient caller waits for the next minute's budget, and not for the next day's."""


@dataclass(slots=True)
class Permit:
    """One call that the rate limiter let through; whoever makes it notes here how it went."""

    place: int
    """Which of the places of `AdaptiveLimit` it takes."""
    failure: str | None = _INTERRUPTED
    """The type of the error; ``None`` where there was none."""
    is_unused: bool = False
    """True where no call was made after all, so that nothing is learnt about the model."""


class RateLimiter:
    """Limits the calls to one model: as many at a time as it can take, and none while it is down.

    Args:
        limiter: Keeps the budget that pays for the calls.
        concurrency: how many calls are made at a time at most.
        prices: the user's own prices by model, in USD per million input and output tokens.
        patience: for how many seconds a call waits for a model that is down. Above 0 a call also
            waits for the next minute's budget; with 0 it is refused at once.
        model: what is called, for its breaker.
    """

    def __init__(
        self,
        limiter: BudgetLimiter,
        *,
        concurrency: int,
        prices: Mapping[str, tuple[float, ...]] | None = None,
        patience: float = 0.0,
        model: Any = None,
    ) -> None:
        self.limiter = limiter
        self.breaker = limiter.breaker(model)
        self.limit = AdaptiveLimit(concurrency)
        self._prices = prices
        self._patience = patience
        self._freed = asyncio.Condition()
        self._down_since: float | None = None

    @asynccontextmanager
    async def passage(self) -> AsyncIterator[Permit]:
        """Wait for a place, and report to limit and breaker how the call in the block went.

        Raises `JudgeError` with the counted reason while the model is down.
        """
        passing = Permit(await self._enter())
        try:
            probe: int = _granted(self.breaker.admit())
            try:
                yield passing
            except JudgeError as error:
                passing.failure = error.type
                raise
            finally:
                self._report(probe, passing)
        finally:
            await self._leave(passing)

    @asynccontextmanager
    async def further_place(self) -> AsyncIterator[bool]:
        """Take another place for a call that makes several requests, if one is free now."""
        place = self.limit.enter()
        try:
            yield place is not None
        finally:
            if place is not None:
                self.limit.leave(place)
                await self._wake()

    async def _enter(self) -> int:
        async with self._freed:
            while True:
                place = self.limit.enter()
                if place is not None:
                    return place
                try:
                    await self._freed.wait()
                except BaseException:
                    self._freed.notify()  # the place that it was woken for is for another call
                    raise

    async def _leave(self, passing: Permit) -> None:
        self.limit.leave(
            passing.place,
            succeeded=passing.failure is None,
            rate_limited=passing.failure == "rate_limited",
        )
        if not self.limit.in_flight:  # nobody comes next, who would write it with a reservation
            with shield("budget", on_own_thread=True):
                self.limiter.write()
        await self._wake()

    async def _wake(self) -> None:
        """Wake as many of the calls that wait as there are places."""
        async with self._freed:
            self._freed.notify(max(self.limit.limit - self.limit.in_flight, 0))

    def _report(self, probe: int, passing: Permit) -> None:
        if passing.is_unused or passing.failure == "over_budget":
            self.breaker.unused(probe)
        elif passing.failure in _TRANSIENT:
            self.breaker.failed(probe)
        else:  # also an answer that is no verdict shows that the model is there
            self.breaker.succeeded(probe)

    def reserve(self, judge: str, model: str, most: Usage, *, calls: int = 1) -> Reservation:
        """Reserve the most that calls may use.

        Raises `JudgeError` with the counted reason where the budget refuses.
        """
        usd = self.cost(model, most)
        reserved: Reservation = _granted(
            self.limiter.reserve(judge, calls=calls, tokens=most.total_tokens, usd=usd, ahead=True)
        )
        return reserved

    def cost(self, model: str, used: Usage) -> float | None:
        """Return what a use costs in USD; ``None`` where the price is unknown."""
        return cost(model, used, own=self._prices)

    async def wait(self, refusal: JudgeError) -> None:
        """Sleep until a refused call may be tried again.

        Raises the refusal where waiting does not help, or has taken longer than the patience.
        """
        seconds = refusal.retry_after
        may_pass = refusal.type in ("over_budget", "circuit_open")
        most = MAX_WAIT_SECONDS if self._patience else self.limiter.short_wait
        if not most or not may_pass or seconds is None or seconds > most:
            raise refusal
        if refusal.type == "circuit_open":
            self._down_since = self._down_since or time.monotonic()
            if time.monotonic() - self._down_since > self._patience:
                raise refusal
        await asyncio.sleep(min(seconds, 1.0) + 0.01)

    def note_answer(self) -> None:
        """Note that the model is not down."""
        self._down_since = None


def _granted(answer: Any) -> Any:
    if isinstance(answer, Refused):
        raise JudgeError(answer.reason, answer.detail, retry_after=answer.retry_after)
    return answer
