"""The limiter of a budget: it reserves every judge call before it is made and settles it after.

A ledger stores the books, for this process or for all processes of a host. `books` decides what is
written in them.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.evaluation import books
from llmeval_sdk.evaluation.admission import Refused
from llmeval_sdk.evaluation.backoff import Breaker
from llmeval_sdk.evaluation.books import BookState, Reservation, Used, Want
from llmeval_sdk.evaluation.budget import Budget, limits_dollars
from llmeval_sdk.evaluation.groups import NO_TAGS
from llmeval_sdk.process.forks import Locked


T = TypeVar("T")
HOLD_SECONDS = 600.0
"""After this time the money of a reservation that nobody has settled is free again."""
BUSY_SECONDS = 0.1
"""After this time a ledger that other processes use is tried again."""
SILENT_SECONDS = 5.0
"""A ledger that has not answered for so long is taken for dead until it does."""
MOST_AHEAD = 16
"""How many reservations are made ahead at a time."""
_MARGIN = 1.25
"""How much larger they are than the one that they follow, since not all calls are alike."""
_PART = 10
"""They are made only where so many times as much is left."""


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


class BudgetLimiter:
    """Grants and settles reservations against a `Budget`; exact with any number of threads.

    Processes that share a ledger share the limits.

    Args:
        budget: The limits of all judges, and of single ones.
        ledger: Stores the books.
        apart: Accounts whose use does not count in the budget of all judges, such as that of the
            decision model, each with its own limits.
        clock: Returns seconds since the epoch.
    """

    __slots__ = (
        "_asked", "_clock", "_in_second", "_ledger", "_settled", "_spares", "apart", "budget",
    )  # fmt: skip

    hold_seconds = HOLD_SECONDS
    short_wait = 0.0
    """A call that is refused for this many seconds at most waits for them, however impatient."""

    def __init__(
        self,
        budget: Budget,
        ledger: Ledger | None = None,
        *,
        apart: Mapping[str, Budget] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if budget.is_of_group:
            raise ConfigurationError(
                "a Budget with where= or per= goes into the budget of all judges:"
                " Budget(usd_per_day=5, groups=[Budget(usd_per_day=0.5, per='tag:tenant')])"
            )
        self.budget = budget
        self.apart = dict(apart or {})
        self._ledger: Ledger = ledger or MemoryLedger()
        self._clock = clock
        self._settled: deque[tuple[int, Reservation, Want]] = deque()
        """By process, what was used; it counts in full, as it was reserved, until it is written."""
        self._spares: deque[_Spare] = deque()
        self._asked: float | None = None
        """Since when the ledger has been asked and has not answered, on the monotonic clock."""
        self._in_second = (0, 0)
        """A second, and how many transactions have reserved something in it."""

    def reserve(
        self,
        judge: str,
        *,
        calls: int = 1,
        tokens: int = 0,
        usd: float | None = None,
        ahead: bool = False,
        tags: Mapping[str, str] = NO_TAGS,
    ) -> Reservation | Refused:
        """Reserve the most that a judgement may use; ``usd=None`` means that its price is unknown.

        The ``tags`` of what is judged say whose limits count as well.

        With ``ahead`` a process that reserves often does so for several calls at a time, as long as
        that is a small part of what is left. What it has not used by the end of the second is given
        back: the books count by the second, so no minute ever holds a call too many.

        If the ledger cannot be used, the answer is a refusal, because nothing is spent unchecked.
        One that says when to try again is of a ledger that others use at the moment.
        """
        want = Want(calls, tokens, usd)
        if (spare := self._spare(judge, want)) is not None:
            return spare
        of_judge = self._limits(judge)
        groups = () if judge in self.apart else self.budget.groups
        more = self._ahead() if ahead and not groups else 0  # the next call may be of another group

        def limits(state: BookState, now: float) -> Mapping[str, Budget]:
            return {**of_judge, **books.limits_of_groups(state, groups, tags, now)}

        granted = self._grant(want, limits, more=more)
        if isinstance(granted, Refused):
            return granted
        self._spares.extend(_Spare(os.getpid(), judge, usd is None, one) for one in granted[1:])
        return granted[0]

    def _grant(
        self,
        want: Want,
        limits_in: Callable[[BookState, float], Mapping[str, Budget]],
        *,
        more: int = 0,
    ) -> Refused | list[Reservation]:
        """Reserve an amount in the books, and up to so many ``more`` of it ahead."""

        def change(state: BookState, now: float) -> Refused | list[Reservation]:
            limits = limits_in(state, now)
            refused = books.refusal(state, limits, want, now)
            if refused is not None:
                return refused
            books.prune(state, limits, now)
            reserve = partial(books.reserve, state, limits, now=now, hold=self.hold_seconds)
            made = [reserve(want)]
            if more and books.refusal(state, limits, _times(want, _PART * more), now) is None:
                spare = _larger(want)  # one by one: some limits take any amount as one call
                while len(made) <= more and books.refusal(state, limits, spare, now) is None:
                    made.append(reserve(spare))
            return made

        try:
            return self._change(change, lambda result: isinstance(result, list))
        except Exception as error:
            from llmeval_sdk.store.files import is_locked

            if is_locked(error):
                return Refused("no_ledger", "other processes use the ledger", BUSY_SECONDS)
            return Refused(
                "no_ledger", f"the ledger cannot be used: {type(error).__name__}: {error}"
            )

    def _spare(self, judge: str, want: Want) -> Reservation | None:
        """Return a reservation that was made ahead; those that do not fit are given back."""
        second = int(self._clock())
        for spare in self._spares_left():
            if spare.name == judge and int(spare.reservation.at) == second and spare.covers(want):
                return spare.reservation
            self._settled.append((os.getpid(), spare.reservation, _NOTHING))
        return None

    def _spares_left(self) -> Iterator[_Spare]:
        """Take one after the other; a fork has none, since those are its parent's."""
        with suppress(IndexError):  # another thread may take the last one
            while True:
                spare = self._spares.popleft()
                if spare.process == os.getpid():
                    yield spare

    def _ahead(self) -> int:
        """Return how many reservations to make beside the one that is wanted: more and more."""
        second = int(self._clock())
        times = self._in_second[1] if self._in_second[0] == second else 0
        self._in_second = (second, times + 1)
        return min((1 << min(times, 10)) - 1, MOST_AHEAD)

    def settle(
        self,
        reservation: Reservation,
        *,
        calls: int | None = None,
        tokens: int | None = None,
        usd: float | None = None,
        later: bool = False,
    ) -> None:
        """Record what was used, once per reservation; ``None`` keeps the amount that was reserved.

        With ``later`` it is written with the next change of the books, or by `write`: half the
        transactions where one call follows another. Until then, what was reserved counts.

        Raises whatever the ledger raises; it is then written with the next change.
        """
        self._settled.append((os.getpid(), reservation, Want(calls, tokens, usd)))
        if not later:
            self.write()

    def write(self) -> None:
        """Write what was settled, and give back what is reserved ahead.

        Raises whatever the ledger raises.
        """
        left = self._spares_left()
        self._settled.extend((os.getpid(), spare.reservation, _NOTHING) for spare in left)
        if self._settled:
            self._change(lambda *_: None, lambda _: False)

    def _change(
        self, change: Callable[[BookState, float], T], has_changed: Callable[[T], bool]
    ) -> T:
        """Change the books, together with what was settled meanwhile."""
        settled: list[tuple[int, Reservation, Want]] = []
        with suppress(IndexError):  # another thread may take some of them
            while True:
                settled.append(self._settled.popleft())

        def changed(text: str) -> tuple[str | None, T]:
            state, now = books.load(text), self._clock()
            for process, reservation, actual in settled:
                if process == os.getpid():  # a fork leaves its parent's to the parent
                    books.settle(state, reservation, actual, now)
            result = change(state, now)
            return books.dump(state) if settled or has_changed(result) else None, result

        self._asked = time.monotonic()
        try:
            return self._ledger.update(changed)
        except BaseException:
            self._settled.extendleft(reversed(settled))
            raise
        finally:
            self._asked = None

    @property
    def silence(self) -> str:
        """Say that the ledger, as on a network disk that is dead, does not answer; empty: it does.

        A call into such a disk comes back when the disk does, and nothing can end it.
        """
        asked = self._asked
        if asked is None or time.monotonic() - asked < SILENT_SECONDS:
            return ""
        place = getattr(self._ledger, "path", None) or "the ledger"
        return f"{place} has not answered for {SILENT_SECONDS:g} s"

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
        """Let go of all files and links; using them again opens them again."""
        self.close_ledger()

    def close_ledger(self) -> None:
        """Write what is settled and close the ledger; using it again opens it again."""
        with suppress(Exception):  # what could not be written ends by itself
            self.write()
        close = getattr(self._ledger, "close", None)
        if close is not None:
            close()

    def used(self, judge: str = "", seconds: float = books.MINUTE) -> Used:
        """Return what all judges used in the last ``seconds``, or one that has its own limits."""
        return self._change(partial(books.used, name=judge, seconds=seconds), lambda _: False)

    def limits_dollars(self, judge: str, tags: Mapping[str, str] = NO_TAGS) -> bool:
        """Say whether the app has set a limit in dollars for a judgement with these tags."""
        groups = () if judge in self.apart else self.budget.groups
        about = [budget for budget in groups if budget.account_of(tags) is not None]
        return any(map(limits_dollars, (*self._limits(judge).values(), *about)))

    def _limits(self, judge: str) -> dict[str, Budget]:
        if judge in self.apart:
            return {judge: self.apart[judge]}
        own = self.budget.judges.get(judge)
        return {"": self.budget} if own is None else {"": self.budget, judge: own}


class _Spare(NamedTuple):
    """A reservation that was made ahead."""

    process: int
    name: str
    is_unpriced: bool
    reservation: Reservation

    def covers(self, want: Want) -> bool:
        """Say whether it pays for a call."""
        spare = self.reservation
        return (
            spare.calls == want.calls
            and self.is_unpriced is (want.usd is None)
            and spare.tokens >= (want.tokens or 0)
            and spare.usd >= (want.usd or 0.0)
        )


_NOTHING = Want(0, 0, 0.0)


def _larger(want: Want) -> Want:
    """Return what a call that is somewhat larger wants."""
    usd = None if want.usd is None else want.usd * _MARGIN
    return Want(want.calls, int((want.tokens or 0) * _MARGIN), usd)


def _times(want: Want, count: int) -> Want:
    """Return what so many such calls want."""
    usd = None if want.usd is None else want.usd * count
    return Want((want.calls or 0) * count, (want.tokens or 0) * count, usd)


# The limiter of runs that have no budget.


class Unlimited(BudgetLimiter):
    """Grants everything and keeps no books, for offline runs without a budget."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(Budget(calls_per_minute=None, usd_per_day=None))

    def reserve(
        self,
        judge: str,
        *,
        calls: int = 1,
        tokens: int = 0,
        usd: float | None = None,
        **how: object,
    ) -> Reservation:
        """Grant the reservation."""
        return Reservation(0, (), 0.0, 0.0, calls, tokens, usd or 0.0)

    def settle(self, reservation: Reservation, **used: object) -> None:
        """Do nothing."""
