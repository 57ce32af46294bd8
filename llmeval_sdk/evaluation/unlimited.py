"""The limiter of runs that have no budget."""

from __future__ import annotations

from typing import Any

from llmeval_sdk.evaluation.books import Reservation
from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.evaluation.limiter import BudgetLimiter


class Unlimited(BudgetLimiter):
    """Grants everything and keeps no books, for offline runs without a budget."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(Budget(calls_per_minute=None, usd_per_day=None))

    def reserve(
        self, judge: str, *, calls: int = 1, tokens: int = 0, usd: float | None = None, **how: Any
    ) -> Reservation:
        """Grant the reservation."""
        return Reservation(0, (), 0.0, 0.0, calls, tokens, usd or 0.0)

    def settle(self, reservation: Reservation, **used: Any) -> None:
        """Do nothing."""
