"""The limiter of a budget: it reserves every judge call before it is made and settles it after.

A ledger stores the books, for this process or for all processes of a host. `books` decides what is
written in them. Where the budget is that of all hosts, what is reserved here is counted there too.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar

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


class Ledger(Protocol):
    """Stores the books: a text that is changed under an exclusive lock."""

    def update(self, change: Callable[[str], tuple[str | None, T]], /) -> T:
        """Change the text and return a result.

        ``change`` takes the text, which is empty at first, and returns the new text and the result;
        ``None`` as the new text leaves it unchanged, and so does an exception. ``change`` has to be
        quick and pure.
        """


class Counted(Protocol):
    """A reservation as the budget of all hosts knows it."""

    async def refusal(self) -> Refused | None:
        """Say why the budget of all hosts has no room for the reservation.

        The answer is ``None`` if it has room, and also if Redis does not answer in time.
        """

    def refusal_now(self) -> Refused | None:
        """Do what `refusal` does, on a thread that may block."""

    def settle(self, used: Want) -> None:
        """Count what was used instead of what was reserved. The call does not wait for Redis."""


class AllHosts(Protocol):
    """Counts what all hosts use of one budget, beside the books of each."""

    def count(self, limits: Mapping[str, Budget], want: Want, /) -> Counted:
        """Begin to count a reservation in every account whose limit applies to it."""

    def share(self, breaker: Breaker, model: Any, /) -> None:
        """Let the breaker of a model hear what other hosts find out, and tell them."""

    def stats(self) -> dict[str, int]:
        """Return what happened, by word; see `Stats.shared`."""

    def close(self) -> None:
        """Count what is settled and let go; using it again begins again."""


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
        all_hosts: Counts what other hosts use of the same budget, where it is theirs too.
        clock: Returns seconds since the epoch.
    """

    __slots__ = ("_all_hosts", "_asked", "_clock", "_ledger", "_settled", "apart", "budget")

    def __init__(
        self,
        budget: Budget,
        ledger: Ledger | None = None,
        *,
        apart: Mapping[str, Budget] | None = None,
        all_hosts: AllHosts | None = None,
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
        self._all_hosts = all_hosts
        self._clock = clock
        self._settled: deque[tuple[int, Reservation, Want]] = deque()
        """By process, what was used; it counts in full, as it was reserved, until it is written."""
        self._asked: float | None = None
        """Since when the ledger has been asked and has not answered, on the monotonic clock."""

    def shared_by(self, all_hosts: AllHosts) -> BudgetLimiter:
        """Return a limiter of the same budget with the same ledger, which other hosts share."""
        return BudgetLimiter(self.budget, self._ledger, apart=self.apart, all_hosts=all_hosts)

    def reserve(
        self,
        judge: str,
        *,
        calls: int = 1,
        tokens: int = 0,
        usd: float | None = None,
        tags: Mapping[str, str] = NO_TAGS,
    ) -> Reservation | Refused:
        """Reserve the most that a judgement may use; ``usd=None`` means that its price is unknown.

        The ``tags`` of what is judged say whose limits count as well. Before the call is made,
        `confirm` asks whether other hosts leave it room.

        If the ledger cannot be used, the answer is a refusal, because nothing is spent unchecked.
        One that says when to try again is of a ledger that others use at the moment.
        """
        want = Want(calls, tokens, usd)
        of_judge = self._limits(judge)
        groups = () if judge in self.apart else self.budget.groups

        def change(
            state: BookState, now: float
        ) -> Refused | tuple[Reservation, Mapping[str, Budget]]:
            limits = {**of_judge, **books.limits_of_groups(state, groups, tags, now)}
            refused = books.refusal(state, limits, want, now)
            if refused is not None:
                return refused
            books.prune(state, limits, now)
            return books.reserve(state, limits, want, now, hold=HOLD_SECONDS), limits

        try:
            granted = self._change(change, lambda result: not isinstance(result, Refused))
        except Exception as error:
            from llmeval_sdk.store.files import is_locked

            if is_locked(error):
                return Refused("no_ledger", "other processes use the ledger", BUSY_SECONDS)
            return Refused(
                "no_ledger", f"the ledger cannot be used: {type(error).__name__}: {error}"
            )
        if isinstance(granted, Refused):
            return granted
        made, limits = granted
        if self._all_hosts is None:
            return made
        return replace(made, counted=self._all_hosts.count(limits, want))

    async def confirm(self, reservation: Reservation) -> Refused | None:
        """Say why other hosts leave no room for a reservation, which is then given back."""
        counted: Counted | None = reservation.counted
        if counted is None:
            return None
        try:
            refused = await counted.refusal()
        except BaseException:  # the judgement was stopped
            self.release(reservation, later=True)
            raise
        if refused is not None:
            self.release(reservation, later=True)
        return refused

    def confirm_now(self, reservation: Reservation) -> Refused | None:
        """Do what `confirm` does, on a thread that may wait."""
        counted: Counted | None = reservation.counted
        refused = None if counted is None else counted.refusal_now()
        if refused is not None:
            self.release(reservation, later=True)
        return refused

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
        used = Want(calls, tokens, usd)
        self._settled.append((os.getpid(), reservation, used))
        if reservation.counted is not None:
            reservation.counted.settle(used)
        if not later:
            self.write()

    def write(self) -> None:
        """Write into the ledger what was settled with ``later``.

        An error of the ledger is raised; what could not be written stays for the next change.
        """
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

    def release(self, reservation: Reservation, *, later: bool = False) -> None:
        """Give back a reservation whose call was never made; see `settle` for ``later``."""
        self.settle(reservation, calls=0, tokens=0, usd=0.0, later=later)

    def breaker(self, model: Any) -> Breaker:
        """Return a breaker of a model, for those who share this budget."""
        breaker = Breaker(getattr(model, "model", ""))
        if self._all_hosts is not None:
            self._all_hosts.share(breaker, model)
        return breaker

    def stats(self) -> dict[str, int]:
        """Return what happened where the budget is shared with other hosts."""
        return {} if self._all_hosts is None else self._all_hosts.stats()

    def close(self) -> None:
        """Let go of all files and links; using them again opens them again."""
        if self._all_hosts is not None:
            self._all_hosts.close()
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
