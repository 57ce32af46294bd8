"""The keeper of a budget: it reserves every judge call before it is made and settles it afterwards.

A ledger stores the books, for this process or for all processes of a host. `books` decides what is
written in them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from llmeval_sdk._process.locks import Locked
from llmeval_sdk.policy import books
from llmeval_sdk.policy.admission import Refused
from llmeval_sdk.policy.backoff import Breaker
from llmeval_sdk.policy.books import Reservation, Used, Want
from llmeval_sdk.policy.budget import Budget


T = TypeVar("T")
HOLD_SECONDS = 600.0
"""After this time the money of a reservation that nobody has settled is free again."""


class Ledger(Protocol):
    """Stores the books: a text that is changed under an exclusive lock."""

    def update(self, change: Callable[[str], tuple[str | None, T]], /) -> T:
        """Change the text and return a result.

        ``change`` takes the text, which is empty at first, and returns the new text and the result;
        ``None`` as the new text leaves it unchanged, and so does an exception. ``change`` has to be
        quick and pure.
        """


class MemoryLedger(Locked):
    """Keeps the books in memory, for this process alone."""

    __slots__ = ("_text",)

    def __init__(self) -> None:
        super().__init__()
        self._text = ""

    def update(self, change: Callable[[str], tuple[str | None, T]], /) -> T:
        """Change the text; see `Ledger`."""
        with self._lock:
            text, result = change(self._text)
            if text is not None:
                self._text = text
            return result


class BudgetKeeper:
    """Grants and settles reservations against a `Budget`; exact with any number of threads.

    Processes that share a ledger share the limits. ``clock`` returns seconds since the epoch.
    """

    __slots__ = ("_budget", "_clock", "_ledger")

    hold_seconds = HOLD_SECONDS
    short_wait = 0.0
    """A call that is refused for this many seconds at most waits for them, however impatient."""

    def __init__(
        self,
        budget: Budget,
        ledger: Ledger | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._budget = budget
        self._ledger: Ledger = ledger or MemoryLedger()
        self._clock = clock

    def reserve(
        self, judge: str, *, calls: int = 1, tokens: int = 0, usd: float | None = None
    ) -> Reservation | Refused:
        """Reserve the most that a judgement may use; ``usd=None`` means that its price is unknown.

        If the ledger cannot be used, the answer is a refusal, because nothing is spent unchecked.
        """
        want = Want(calls, tokens, usd)
        limits = self._limits(judge)

        def change(text: str) -> tuple[str | None, Reservation | Refused]:
            state = books.load(text)
            now = self._clock()
            refused = books.refusal(state, limits, want, now)
            if refused is not None:
                return None, refused
            granted = books.reserve(state, limits, want, now, hold=self.hold_seconds)
            return books.dump(state), granted

        try:
            return self._ledger.update(change)
        except Exception as error:
            return Refused("over_budget", f"the ledger cannot be used: {type(error).__name__}", 1.0)

    def settle(
        self,
        reservation: Reservation,
        *,
        calls: int | None = None,
        tokens: int | None = None,
        usd: float | None = None,
    ) -> None:
        """Record what was used, once per reservation; ``None`` keeps the amount that was reserved.

        Raises whatever the ledger raises; the reservation then ends by itself.
        """

        def change(text: str) -> tuple[str | None, None]:
            state = books.load(text)
            books.settle(state, reservation, Want(calls, tokens, usd), self._clock())
            return books.dump(state), None

        self._ledger.update(change)

    def release(self, reservation: Reservation) -> None:
        """Return a reservation whose call was never made."""
        self.settle(reservation, calls=0, tokens=0, usd=0.0)

    def breaker(self, model: Any) -> Breaker:
        """Return a breaker of a model, for those who share this budget."""
        return Breaker(getattr(model, "model", ""))

    def stats(self) -> dict[str, int]:
        """Return what happened where the budget is shared with other hosts."""
        return {}

    def close(self) -> None:
        """Close the ledger; using it again opens it again."""
        close = getattr(self._ledger, "close", None)
        if close is not None:
            close()

    def used(self, judge: str | None = None) -> Used:
        """Return what all judges have used, or one judge that has limits of its own."""
        account = "" if judge is None else judge
        return self._ledger.update(
            lambda text: (None, books.used(books.load(text), account, self._clock()))
        )

    def _limits(self, judge: str) -> dict[str, Budget]:
        own = self._budget.judges.get(judge)
        return {"": self._budget} if own is None else {"": self._budget, judge: own}


class Unlimited(BudgetKeeper):
    """Grants everything and keeps no books, for offline runs without a budget."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(Budget(calls_per_minute=None, usd_per_day=None))

    def reserve(
        self, judge: str, *, calls: int = 1, tokens: int = 0, usd: float | None = None
    ) -> Reservation:
        """Grant the reservation."""
        return Reservation(0, (), 0.0, 0.0, calls, tokens, usd or 0.0)

    def settle(self, reservation: Reservation, **used: Any) -> None:
        """Do nothing."""
