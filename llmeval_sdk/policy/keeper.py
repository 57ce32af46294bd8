"""The budget's keeper: every judge call is reserved before it is made and settled afterwards.

The books are kept by a ledger, in this process or shared by all processes of a host; what is
written in them is decided by `books`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from llmeval_sdk.policy import books
from llmeval_sdk.policy._lock import Locked
from llmeval_sdk.policy.admission import Refused
from llmeval_sdk.policy.books import Reservation, Used, Want
from llmeval_sdk.policy.budget import Budget


T = TypeVar("T")
HOLD_SECONDS = 600.0
"""Money of a reservation that nobody settles is free again after this time."""


class Ledger(Protocol):
    """Where the books are kept: a text that is changed under an exclusive lock."""

    def update(self, change: Callable[[str], tuple[str | None, T]], /) -> T:
        """Replace the text by what ``change`` makes of it (``None``: leave it); return the rest.

        ``change`` is quick and pure. The first text is empty. An exception leaves it as it was.
        """


class MemoryLedger(Locked):
    """Books of this process alone."""

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
    """Grants and settles reservations against a Budget, exactly, with any number of threads.

    ``clock`` gives seconds since the epoch. Processes that share a ledger share its limits.
    """

    __slots__ = ("_budget", "_clock", "_ledger")

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
        """Ask for the most that a judgement may use; ``usd=None`` says that its price is unknown.

        A ledger that cannot be used refuses: no budget, no spending.
        """
        want = Want(calls, tokens, usd)
        limits = self._limits(judge)

        def change(text: str) -> tuple[str | None, Reservation | Refused]:
            state = books.load(text)
            now = self._clock()
            refused = books.refusal(state, limits, want, now)
            if refused is not None:
                return None, refused
            granted = books.reserve(state, limits, want, now, hold=HOLD_SECONDS)
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
        """Write down what was used; ``None`` keeps what was reserved. Call it once.

        Raises whatever the ledger raises; the reservation then runs out by itself.
        """

        def change(text: str) -> tuple[str | None, None]:
            state = books.load(text)
            books.settle(state, reservation, Want(calls, tokens, usd), self._clock())
            return books.dump(state), None

        self._ledger.update(change)

    def release(self, reservation: Reservation) -> None:
        """Give a reservation back: the call was never made."""
        self.settle(reservation, calls=0, tokens=0, usd=0.0)

    def close(self) -> None:
        """Let go of what the ledger holds; using it again opens it again."""
        close = getattr(self._ledger, "close", None)
        if close is not None:
            close()

    def used(self, judge: str | None = None) -> Used:
        """Return what was used, in all or by one judge that has limits of its own."""
        account = "" if judge is None else judge
        return self._ledger.update(
            lambda text: (None, books.used(books.load(text), account, self._clock()))
        )

    def _limits(self, judge: str) -> dict[str, Budget]:
        own = self._budget.judges.get(judge)
        return {"": self._budget} if own is None else {"": self._budget, judge: own}


class Unlimited(BudgetKeeper):
    """Grants everything and keeps no books: an offline run that was given no budget."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(Budget(calls_per_minute=None, usd_per_day=None))

    def reserve(
        self, judge: str, *, calls: int = 1, tokens: int = 0, usd: float | None = None
    ) -> Reservation:
        """Grant it."""
        return Reservation(0, (), 0.0, 0.0, calls, tokens, usd or 0.0)

    def settle(self, reservation: Reservation, **used: Any) -> None:
        """Write nothing down."""
