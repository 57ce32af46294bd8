"""What one process may use of the budget of all hosts, until its lease ends: pure arithmetic.

A lease has an account for all judges, and one for each judge that has limits of its own. What was
granted is *free* until a call takes it; then it is *held* until the call is settled, and then it is
*used*, and what the call did not need is free again. Only what is free ends with the lease: a call
that was made cannot be called back, and Redis goes on counting it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any, NamedTuple

from llmeval_sdk.evaluation.books import MINUTE, Reservation, Want
from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.process.forks import Locked


AMOUNTS = ("calls", "tokens", "usd", "slots")
"""What an account holds. Money is counted in millionths of a dollar, ``slots`` are calls at a
time."""

MICROS = 1_000_000
AHEAD_SECONDS = 4.0
"""A process holds as much ahead of use as it used lately in this time."""

Amounts = dict[str, float]
Need = Mapping[str, Amounts]
"""Amounts by account."""
Limits = Mapping[str, Mapping[str, Any]]
"""The most of each amount, by account; ``None`` is no limit. Calls count for ``window`` seconds."""


def limits_of(
    budget: Budget, concurrency: int | None, apart: Mapping[str, Budget] | None = None
) -> Limits:
    """Return the limits of a budget by account: ``""`` is that of all judges.

    The accounts that are ``apart`` have limits of their own, and none on calls at a time.
    """
    limits = {name: _limits(own) for name, own in {**budget.judges, **(apart or {})}.items()}
    return {"": {**_limits(budget), "slots": concurrency}, **limits}


def _limits(budget: Budget) -> dict[str, Any]:
    calls, tokens = budget.calls_per_minute, budget.tokens_per_minute
    slow = calls is not None and 0 < calls < 1
    if tokens is None and budget.usd_per_day is not None:
        tokens = budget.unpriced_tokens_per_minute
    return {
        "calls": None if calls is None else 1 if slow else int(calls),
        "window": MINUTE / calls if calls and slow else MINUTE,
        "tokens": None if tokens is None else int(tokens),
        "usd": None if budget.usd_per_day is None else int(budget.usd_per_day * MICROS),
        "slots": None,
    }


def need_of(
    limits: Mapping[str, Budget], calls: int, tokens: int, usd: float | None, *, slots: bool
) -> dict[str, Amounts]:
    """Return what a reservation takes of each account whose limits it is held to."""
    need: dict[str, Amounts] = {}
    for name, budget in limits.items():
        most = _limits(budget)
        amounts: Amounts = {}
        if most["calls"] is not None:
            amounts["calls"] = calls
        if budget.tokens_per_minute is not None:
            amounts["tokens"] = tokens
        elif most["tokens"] is not None and usd is None:  # see `books`: it takes a minute at most
            amounts["tokens"] = min(tokens, most["tokens"] or tokens)
        if most["usd"] is not None and usd is not None:
            amounts["usd"] = micros(usd)
        if slots and not name:
            amounts["slots"] = 1
        need[name] = amounts
    return need


class Held(NamedTuple):
    """What one reservation holds."""

    epoch: int
    day: int
    need: Need


@dataclass(slots=True)
class _LeasedAccount:
    free: Amounts = field(default_factory=lambda: dict.fromkeys(AMOUNTS, 0))
    held: Amounts = field(default_factory=lambda: dict.fromkeys(AMOUNTS, 0))
    used: Amounts = field(default_factory=lambda: dict.fromkeys(AMOUNTS, 0))
    taken: Amounts = field(default_factory=lambda: dict.fromkeys(AMOUNTS, 0))
    """Taken since the latest exchange."""
    pace: Amounts = field(default_factory=lambda: dict.fromkeys(AMOUNTS, 0))
    """Taken in a second, lately."""


class BudgetLease(Locked):
    """What this process may use. Whoever uses it holds its `lock`. Clocks are monotonic seconds."""

    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self._limits = limits
        self._accounts = {name: _LeasedAccount() for name in limits}
        self.epoch = 0
        """Grows when the data of Redis have begun anew: what was held before counts no more."""
        self.ends = float("-inf")
        self.day = -1
        self._open: dict[int, tuple[Held, Reservation, float]] = {}
        """What reservations of the host's books hold, and until when somebody may settle them."""
        self._slots = 0
        """Calls under way, of any epoch."""
        self._exchanged = 0.0

    @property
    def lock(self) -> Any:
        """The lock of this lease, which is replaced in a forked child."""
        return self._lock

    def take(self, need: Need, now: float) -> Held | None:
        """Hold what a call needs, out of what is free; ``None`` where too little is free."""
        if now >= self.ends:
            return None
        for name, amounts in need.items():
            free = self._accounts[name].free
            if any(free[what] < amount for what, amount in amounts.items()):
                return None
        for name, amounts in need.items():
            account = self._accounts[name]
            for what, amount in amounts.items():
                account.free[what] -= amount
                account.held[what] += amount
                account.taken[what] += amount
        self._slots += "slots" in need.get("", {})
        return Held(self.epoch, self.day, need)

    def settle(self, held: Held, used: Amounts, now: float) -> None:
        """Replace what a reservation holds by what was used; the rest is free again."""
        self._slots -= "slots" in held.need.get("", {})
        if held.epoch != self.epoch:
            return
        for name, amounts in held.need.items():
            account = self._accounts[name]
            for what, amount in amounts.items():
                if what == "usd" and held.day != self.day:
                    continue
                account.held[what] -= amount
                really = 0 if what == "slots" else used[what]
                account.used[what] += really
                account.free[what] = max(account.free[what] + amount - really, 0)
        if now >= self.ends:
            self._end()

    def note(self, reservation: Reservation, held: Held, until: float) -> None:
        """Remember what a reservation of the host's books holds here."""
        self._open[reservation.id] = (held, reservation, until)

    def settle_reservation(self, reservation: Reservation, actual: Want, now: float) -> None:
        """Settle what a reservation holds, once; ``None`` stands for what it reserved."""
        held, _, _ = self._open.pop(reservation.id, (None, None, None))
        if held is None:
            return
        usd = reservation.usd if actual.usd is None else actual.usd
        used: Amounts = {
            "calls": reservation.calls if actual.calls is None else actual.calls,
            "tokens": reservation.tokens if actual.tokens is None else actual.tokens,
            "usd": usd * MICROS,
        }
        self.settle(held, used, now)

    def drop_forgotten(self, now: float) -> None:
        """Count what nobody settled in time as used."""
        for _, reservation, until in list(self._open.values()):
            if now < until:
                break
            self.settle_reservation(reservation, Want(None, None, None), now)

    def begin_anew(self) -> None:
        """Forget everything but the calls under way: Redis knows none of it any more."""
        self.epoch += 1
        self.ends = float("-inf")
        self._accounts = {name: _LeasedAccount() for name in self._limits}

    def is_low(self) -> bool:
        """Return whether less is free than half of what will be used soon."""
        return any(
            account.free[what] < account.pace[what] * AHEAD_SECONDS / 2
            for account in self._accounts.values()
            for what in ("calls", "tokens", "usd")
        )

    def position(self, want: Need, now: float, *, leave: bool = False) -> dict[str, Any]:
        """Return what an exchange says of this lease, and let go of what is not needed."""
        if now >= self.ends or leave:
            self._end()
        elapsed = max(now - self._exchanged, 0.05)
        self._exchanged = now
        ahead: dict[str, Amounts] = {}
        for name, account in self._accounts.items():
            ahead[name] = {}
            for what in AMOUNTS:
                weight = min(elapsed / AHEAD_SECONDS, 1.0)
                pace = account.taken[what] / elapsed
                account.pace[what] += (pace - account.pace[what]) * weight
                account.taken[what] = 0
                wanted = want.get(name, {}).get(what, 0)
                target = max(ceil(account.pace[what] * AHEAD_SECONDS), wanted)
                if what == "slots":
                    target = 0
                if account.free[what] > 2 * target:
                    account.free[what] = target
                ahead[name][what] = max(target - account.free[what], 0)
        kept = {
            name: {what: account.free[what] + account.held[what] for what in AMOUNTS}
            for name, account in self._accounts.items()
        }
        kept[""]["slots"] = self._slots
        return {
            "used": {
                name: {what: ceil(account.used[what]) for what in AMOUNTS[:3]}
                for name, account in self._accounts.items()
            },
            "day": self.day,
            "kept": kept,
            "want": want,
            "ahead": {} if leave else ahead,
        }

    def take_in(self, granted: Need, ends: float, day: int) -> None:
        """Take in what an exchange has granted; all that is free lasts until ``ends``."""
        if day != self.day:  # yesterday's money can be neither used nor settled any more
            for account in self._accounts.values():
                account.free["usd"] = account.held["usd"] = account.used["usd"] = 0
            self.day = day
        for name, more in granted.items():
            for what, amount in more.items():
                self._accounts[name].free[what] += amount
        self.ends = ends

    def free(self) -> dict[str, Amounts]:
        """Return what is free now."""
        return {name: dict(account.free) for name, account in self._accounts.items()}

    def _end(self) -> None:
        for account in self._accounts.values():
            account.free = dict.fromkeys(AMOUNTS, 0)


def micros(usd: float | None) -> int:
    """Return an amount of money in millionths of a dollar, rounded up."""
    return ceil((usd or 0.0) * MICROS)
