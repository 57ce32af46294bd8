"""Keeps one budget for all hosts: their processes lease it from Redis, and spend from their leases.

Each process leases for itself, not each host: the end of a lease is then a matter of one monotonic
clock and of one lock, and a process that dies takes nothing with it but its own lease. What the
host spent still stands in the host's ledger, as without Redis. From there the day's spend is
rebuilt when Redis has lost it.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from llmeval_sdk.evaluation import books
from llmeval_sdk.evaluation.admission import Refused
from llmeval_sdk.evaluation.backoff import Breaker
from llmeval_sdk.evaluation.books import BookState, Reservation, Used, Want
from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.evaluation.groups import NO_TAGS
from llmeval_sdk.evaluation.limiter import HOLD_SECONDS, BudgetLimiter, Ledger
from llmeval_sdk.model import DAY_SECONDS
from llmeval_sdk.plugins.shared.amounts import (
    AMOUNTS,
    MICROS,
    Amounts,
    Limits,
    Need,
    limits_of,
    micros,
    need_of,
)
from llmeval_sdk.plugins.shared.breaker import SharedBreaker
from llmeval_sdk.plugins.shared.groups import SharedGroups
from llmeval_sdk.plugins.shared.redis_client import KEYS, RedisThread, elapsed
from llmeval_sdk.process.forks import Locked


if TYPE_CHECKING:
    from redis import Redis


AHEAD_SECONDS = 4.0
"""A process holds as much ahead of use as it used lately in this time."""
IDLE_SECONDS = 8.0
"""An account of a group that is not used for so long is given back."""


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
    latest: float = 0.0
    """When something was taken."""
    reservations: int = 0
    """How many hold something of it."""


class BudgetLease(Locked):
    """What this process may use. Whoever uses it holds its `lock`. Clocks are monotonic seconds.

    It always has the accounts of ``limits``, and those of groups while they are used.
    """

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
        self._idle: dict[str, float] = {}
        """Accounts that are forgotten once Redis knows all that was used of them, and by when."""

    @property
    def lock(self) -> Any:
        """The lock of this lease, which is replaced in a forked child."""
        return self._lock

    def take(self, need: Need, now: float) -> Held | None:
        """Hold what a call needs, out of what is free; ``None`` where too little is free."""
        if now >= self.ends:
            return None
        for name, amounts in need.items():
            account = self._accounts.get(name)
            if account is None:
                return None
            free = account.free
            if any(free[what] < amount for what, amount in amounts.items()):
                return None
        for name, amounts in need.items():
            account = self._accounts[name]
            account.latest = now
            account.reservations += 1
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
            account.reservations -= 1
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
        self._idle = {}

    def is_low(self, need: Need) -> bool:
        """Return whether less is free than half of what will soon be used of these accounts."""
        accounts = [self._accounts[name] for name in need]
        return any(
            account.free[what] < account.pace[what] * AHEAD_SECONDS / 2
            for account in accounts
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
        self._idle = self._find_idle(want, now)
        for name in self._idle:
            self._accounts[name].free = dict.fromkeys(AMOUNTS, 0)
            del ahead[name]
        kept: dict[str, Amounts] = {
            name: {what: account.free[what] + account.held[what] for what in AMOUNTS}
            for name, account in self._accounts.items()
        }
        kept[""]["slots"] = self._slots
        used: dict[str, Amounts] = {
            name: {what: ceil(account.used[what]) for what in AMOUNTS[:3]}
            for name, account in self._accounts.items()
        }
        return {
            "used": _without_zeros(used),
            "day": self.day,
            "kept": _without_zeros(kept),
            "want": want,
            "ahead": {} if leave else _without_zeros(ahead),
        }

    def take_in(self, granted: Need, ends: float, day: int) -> None:
        """Take in what an exchange has granted; all that is free lasts until ``ends``."""
        if day != self.day:  # yesterday's money can be neither used nor settled any more
            for account in self._accounts.values():
                account.free["usd"] = account.held["usd"] = account.used["usd"] = 0
            self.day = day
        for name, latest in self._idle.items():
            if self._accounts[name].latest == latest:
                del self._accounts[name]
        self._idle = {}
        for name, more in granted.items():
            account = self._accounts.setdefault(name, _LeasedAccount())
            for what, amount in more.items():
                account.free[what] += amount
        self.ends = ends

    def _find_idle(self, want: Need, now: float) -> dict[str, float]:
        """Find the accounts of groups that nobody has used lately."""
        return {
            name: account.latest
            for name, account in self._accounts.items()
            if name not in self._limits
            and name not in want
            and not account.reservations
            and now - account.latest > IDLE_SECONDS
        }

    def _end(self) -> None:
        for account in self._accounts.values():
            account.free = dict.fromkeys(AMOUNTS, 0)


def _without_zeros(need: Need) -> Need:
    """Return amounts as they are sent, most of which are 0 where there are many accounts."""
    some = {name: {what: n for what, n in amounts.items() if n} for name, amounts in need.items()}
    return {name: amounts for name, amounts in some.items() if amounts}


_PARTS = ("books", "leases", "groups", "generations", "exchange")
_KEYS = ("state", "leases", "ends", "hosts", "groups")
_WORDS = {
    "calls": "calls a minute are used up",
    "tokens": "tokens a minute are used up",
    "slots": "calls at a time are under way",
}


def script() -> str:
    """Return the text of the script."""
    folder = Path(__file__).parent
    return "\n".join((folder / f"{part}.lua").read_text("utf-8") for part in _PARTS)


def keys(name: str) -> list[str]:
    """Return the keys of a budget; the braces keep them on one server of a cluster."""
    return [f"{KEYS}{{shared}}.{name}.{part}" for part in _KEYS]


def _why_closed(reply: dict[str, Any]) -> str:
    """Say why nobody may pay, and what is waited for."""
    seconds, missing = reply["opens_in"], ", ".join(reply["awaited"])
    waits = f"{seconds:.0f} s more" if seconds else f"hosts that have not reported: {missing}"
    return (
        "the budget of all hosts is being rebuilt, because Redis had no data of it or was "
        f"restarted; {waits}"
    )


def _why_refused(name: str, what: str, most: float) -> str:
    """Say which limit of which account was met."""
    words = f"{most:g} {_WORDS[what]}" if what in _WORDS else ""
    if what == "usd":
        words = f"USD {most / MICROS:g} a day are used up or reserved"
    return f"{name or 'all judges'}, over all hosts: {words}"


WRITE_SECONDS = 5.0


class Host:
    """The identity of this host, shared by its processes through a small file beside the store.

    Where the file cannot be kept, each process is a host of its own.
    """

    def __init__(self, ledger: Ledger, *, clock: Callable[[], float] = monotonic) -> None:
        self._ledger = ledger
        self._clock = clock
        self._written = float("-inf")
        self._name: str | None = None

    @property
    def name(self) -> str:
        """The random name of this host. It reads a file: never ask on the app's thread."""
        if self._name is None:
            self._name = self._ledger.update(_name)
        return self._name

    def known(self, budget: str) -> dict[str, Any] | None:
        """Return what was last known of all hosts that share a budget."""
        known: dict[str, Any] | None = self._ledger.update(
            lambda text: (None, _read(text).get("known", {}).get(budget))
        )
        return known

    def remember(self, budget: str, known: dict[str, Any]) -> None:
        """Keep what is known of all hosts, every few seconds, unless the file has it newer."""
        if self._clock() - self._written < WRITE_SECONDS:
            return
        self._written = self._clock()

        def change(text: str) -> tuple[str | None, None]:
            content = _read(text)
            kept = content.setdefault("known", {})
            if kept.get(budget, {}).get("version", -1) >= known["version"]:
                return None, None
            kept[budget] = known
            return json.dumps(content), None

        self._ledger.update(change)

    def close(self) -> None:
        """Close the file; using it again opens it again."""
        close = getattr(self._ledger, "close", None)
        if close is not None:
            close()


def _name(text: str) -> tuple[str | None, str]:
    content = _read(text)
    name = content.get("host")
    if isinstance(name, str):
        return None, name
    content["host"] = uuid4().hex[:16]
    return json.dumps(content), content["host"]


def _read(text: str) -> dict[str, Any]:
    try:
        content = json.loads(text) if text else {}
    except ValueError:
        content = {}
    return content if isinstance(content, dict) else {}


LEASE_SECONDS = 5.0
"""For how long a process may spend without a word from Redis."""
MARGIN = 0.1
"""This part of a lease is never used, for clocks that do not run equally fast."""
REBUILD_SECONDS = 10.0
"""For how long nobody pays after Redis has lost its data: longer than any lease, so that what the
hosts report is all that they spent."""
PATIENCE_SECONDS = 0.05
"""How long a call may wait for the thread that leases. It waits on the judges' thread."""
BRIEF_SECONDS = 0.1
"""A refusal that may pass within this time is no refusal yet: the call is tried again."""


class SharedLimiter(BudgetLimiter):
    """Grants reservations from a lease, and keeps the host's own books beside it.

    Args:
        budget: the limits, over all hosts.
        ledger: where this host keeps what it spent.
        host: what this host is called.
        link: talks to Redis.
        name: of the budget.
        concurrency: calls at a time over all hosts, if that is limited.
        longest: seconds that a call takes at most.
        lease: seconds for which a lease lasts.
        rebuild: seconds for which hosts are waited for when Redis has no data.
        apart: accounts that do not count in the budget; see `BudgetLimiter`.
        names: whether Redis may see the tags and values by which groups are told.
    """

    __slots__ = (
        "_concurrency", "_generation", "_groups", "_holder", "_host", "_lease", "_lease_seconds",
        "_limits_of", "_longest", "_name", "_offset", "_pending", "_rebuild", "_refusals",
        "_script", "_seq", "_status", "link",
    )  # fmt: skip

    short_wait = BRIEF_SECONDS
    hold_seconds = (
        DAY_SECONDS  # or a rebuild would miss what a process was spending when it was killed
    )

    def __init__(
        self,
        budget: Budget,
        ledger: Ledger,
        *,
        host: Host,
        link: RedisThread,
        name: str = "judges",
        concurrency: int | None = None,
        longest: float = 60.0,
        lease: float = LEASE_SECONDS,
        rebuild: float = REBUILD_SECONDS,
        apart: Mapping[str, Budget] | None = None,
        names: bool = True,
    ) -> None:
        super().__init__(budget, ledger, apart=apart, clock=self.now)
        self._concurrency = concurrency
        self._host = host
        self.link = link
        """Talks to the Redis of all hosts."""
        self._name = name
        self._longest = longest
        self._lease_seconds = lease
        self._rebuild = rebuild
        self._groups = SharedGroups(budget.groups, names=names)
        self._limits_of = limits_of(budget, concurrency, self.apart)
        self._pending: tuple[Need, threading.Event] | None = None
        self.forked()
        link.join(self)

    @classmethod
    def instead_of(cls, limiter: BudgetLimiter, **options: Any) -> SharedLimiter:
        """Return a limiter of the same budget with the same ledger, which other hosts share."""
        return cls(limiter.budget, limiter._ledger, apart=limiter.apart, **options)

    # -- what judges ask ------------------------------------------------------------------------

    def reserve(
        self,
        judge: str,
        *,
        calls: int = 1,
        tokens: int = 0,
        usd: float | None = None,
        tags: Mapping[str, str] = NO_TAGS,
        **how: Any,
    ) -> Reservation | Refused:
        """Reserve the most that a judgement may use, out of the lease; see `BudgetLimiter`.

        The lease is ahead of use itself, so the host's books are written for one call at a time.

        It waits for at most `PATIENCE_SECONDS`, and not at all while Redis is away.
        """
        self.link.start()
        want = Want(calls, tokens, usd)
        taken = self._take(judge, want, tags)
        if isinstance(taken, Refused):
            return taken
        limits, held = taken

        def of_host(state: BookState, now: float) -> Mapping[str, Budget]:
            for name in limits:  # Redis says which accounts there are; here idle ones make way
                if prefix := self._groups.prefix_of(name):
                    books.make_room(state, prefix, name, now)
            return limits

        made = self._grant(want, of_host)
        granted = made if isinstance(made, Refused) else made[0]
        with self._lease.lock:
            if isinstance(granted, Refused):
                self._lease.settle(held, dict.fromkeys(AMOUNTS, 0), elapsed())
            else:
                self._lease.note(granted, held, elapsed() + HOLD_SECONDS)
        return granted

    def settle(
        self,
        reservation: Reservation,
        *,
        calls: int | None = None,
        tokens: int | None = None,
        usd: float | None = None,
        **how: Any,
    ) -> None:
        """Settle a reservation in the lease and in the host's books; see `BudgetLimiter.settle`."""
        with self._lease.lock:
            self._lease.settle_reservation(reservation, Want(calls, tokens, usd), elapsed())
        super().settle(reservation, calls=calls, tokens=tokens, usd=usd, **how)

    def breaker(self, model: Any) -> Breaker:
        """Return a breaker of a model that all hosts share, if the model has an address."""
        is_known = getattr(model, "base_url", None) is not None
        return SharedBreaker(model, self.link) if is_known else super().breaker(model)

    def stats(self) -> dict[str, int]:
        """Return what happened at Redis; see `Stats.shared`."""
        return self.link.counts.snapshot()

    def close(self) -> None:
        """Give the lease back, end the thread, and close the files; all open again when used."""
        self.link.close()
        self._host.close()
        super().close()

    def now(self) -> float:
        """Return the time of Redis, never too early; before it was heard, that of this host."""
        return time.time() if self._offset is None else elapsed() + self._offset

    def _take(
        self, judge: str, want: Want, tags: Mapping[str, str]
    ) -> tuple[Mapping[str, Budget], Held] | Refused:
        """Take what is wanted out of the lease, after asking for more where it is too little.

        Returns the limits to which it is held, by account, and what it holds.
        """
        slots = self._concurrency is not None
        with self._lease.lock:
            limits = self._limits_with_groups(judge, tags)
            need = need_of(limits, want, slots=slots)
            held = self._lease.take(need, elapsed())
            if held is not None:
                if self._lease.is_low(need):
                    self.link.wake()
                return limits, held
            refused = self._refusal(need)
            if refused is not None:
                return refused
            pending = self._pending = (need, threading.Event())
        if not self.link.is_away:
            self.link.wake()
            pending[1].wait(PATIENCE_SECONDS)
        with self._lease.lock:
            limits = self._limits_with_groups(judge, tags)  # as Redis may have said meanwhile
            need = need_of(limits, want, slots=slots)
            held = self._lease.take(need, elapsed())
            return (limits, held) if held else self._refusal(need) or self._no_answer()

    def _limits_with_groups(self, judge: str, tags: Mapping[str, str]) -> Mapping[str, Budget]:
        limits = self._limits(judge)
        if judge in self.apart or not self.budget.groups:
            return limits
        return {**limits, **self._groups.of(tags)}

    def _refusal(self, need: Need) -> Refused | None:
        """Return a refusal that is still good, so that Redis is not asked for each call."""
        for name in need:
            until, refused = self._refusals.get(name, (0.0, None))
            if elapsed() < until:
                return refused
        return None

    def _no_answer(self) -> Refused:
        place = self.link.place
        if self.link.is_away:
            seconds = self.link.away_seconds
            detail = f"{place} has been away for {seconds:.0f} s, and the lease is used up or ended"
            return Refused("over_budget", detail, 1.0)
        return Refused("over_budget", f"{place} has not answered yet", BRIEF_SECONDS / 2)

    # -- on the link's thread -------------------------------------------------------------------

    def exchange(self, redis: Redis, /) -> None:
        """Say what was used and lease more, or report what this host spent where that is due."""
        pending, self._pending = self._pending, None
        want = {} if pending is None else pending[0]
        try:
            reply = self._say(redis, want)
            if self._status != "open":  # the host's books are read by the time of Redis
                reply = self._say(redis, want, report=self._report())
            known = reply.get("known")
            if known is not None:
                self._host.remember(self._name, {**known, "live": list(known["live"])})
        finally:
            if pending is not None:
                pending[1].set()

    def leave(self, redis: Redis, /) -> None:
        """Give everything back that is not under way, and begin anew if it is used again."""
        if self._status == "open":
            self._say(redis, {}, leave=True)
            with self._lease.lock:
                self._begin_anew("")

    def forked(self) -> None:
        """Begin without the parent's lease: it is the parent's alone."""
        self._lease = BudgetLease(self._limits_of)
        self._groups.forget()
        self._pending = None
        self._refusals: dict[str, tuple[float, Refused]] = {}
        self._offset: float | None = None
        self._script: Any = None
        self._generation = ""
        self._status = "new"
        self._holder, self._seq = uuid4().hex[:16], 0

    def _say(
        self,
        redis: Redis,
        want: Need,
        *,
        report: dict[str, Any] | None = None,
        leave: bool = False,
    ) -> dict[str, Any]:
        """Make one exchange, and take in what it grants or refuses."""
        if self._script is None:
            self._script = redis.register_script(script())
        with self._lease.lock:
            sent = elapsed()
            self._lease.drop_forgotten(sent)
            self._seq += 1
            request = {
                **self._lease.position(want, sent, leave=leave),
                **self._who(),
                "seq": self._seq,
                "leave": leave,
                "report": report or False,
            }
        self.link.counts.add("exchanges")
        reply: dict[str, Any] = json.loads(
            self._script(keys=keys(self._name), args=[json.dumps(request)], client=redis)
        )
        with self._lease.lock:
            self._offset = reply["now"] - sent
            self._status = reply["status"]
            if reply["generation"] != self._generation:
                self._begin_anew(reply["generation"])
            if self._status == "open":
                self._groups.take_in(reply.get("taken") or {}, reply["day"])
                ends = sent + (reply["ends"] - reply["now"]) * (1 - MARGIN)
                self._lease.take_in(reply.get("granted") or {}, ends, reply["day"])
            self._note_refusal(reply)
        return reply

    def _begin_anew(self, generation: str) -> None:
        """Hold nothing of what was leased before, and go by another name."""
        self._generation = generation
        self._holder, self._seq = uuid4().hex[:16], 0
        self._lease.begin_anew()
        self._groups.forget()

    def _who(self) -> dict[str, Any]:
        groups = self._groups.limits()
        windows = (limits["window"] for limits in (*self._limits_of.values(), *groups.values()))
        return {
            "generation": self._generation,
            "holder": self._holder,
            "host": self._host.name,
            "limits": self._limits_of,
            "lease": self._lease_seconds,
            "longest": self._longest,
            "longest_window": max(windows),
            "rebuild": self._rebuild,
            **({"groups": groups} if groups else {}),
        }

    def _note_refusal(self, reply: dict[str, Any]) -> None:
        """Keep why nothing was granted, for as long as asking again would not help.

        What is granted to one group does not make another's refusal void.
        """
        now = elapsed()
        self._refusals = {
            name: kept
            for name, kept in self._refusals.items()
            if name not in self._limits_of and now < kept[0]
        }
        if self._status == "closed":
            refused = Refused("over_budget", _why_closed(reply), max(reply["opens_in"], 1.0))
            self._refusals = dict.fromkeys(self._limits_of, (now + 1.0, refused))
        elif reply.get("refused"):
            name, what = reply["refused"]["account"], reply["refused"]["what"]
            wait = reply["refused"].get("wait")
            limits = self._limits_at(name) or {}
            detail = _why_refused(name, what, limits[what])
            rest = BRIEF_SECONDS / 4 if what == "slots" else min(wait or 1.0, 1.0)
            self._refusals[name] = (now + rest, Refused("over_budget", detail, wait))

    def _limits_at(self, account: str) -> Mapping[str, Any] | None:
        return self._limits_of.get(account) or self._groups.limits_at(account)

    def _report(self) -> dict[str, Any]:
        """Return what this host spent, from its own books, and who else it knows of."""

        def all_used(state: BookState, now: float) -> dict[str, Used]:
            limits = {name: self._limits_at(name) for name in (*self._limits_of, *state.accounts)}
            return {
                name: books.used(state, now, name=name, seconds=own["window"])
                for name, own in limits.items()
                if own is not None
            }

        return {
            "day": int(self.now() // DAY_SECONDS),
            "used": {
                name: {
                    "calls": use.calls,
                    "tokens": use.tokens,
                    "usd": micros(use.usd + use.reserved_usd),
                }
                for name, use in self._change(all_used, lambda _: False).items()
            },
            "known": self._host.known(self._name) or False,
        }
