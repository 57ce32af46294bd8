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
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from llmeval_sdk.evaluation.admission import Refused
from llmeval_sdk.evaluation.backoff import Breaker
from llmeval_sdk.evaluation.books import Reservation, Want
from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.evaluation.limiter import HOLD_SECONDS, BudgetLimiter, Ledger
from llmeval_sdk.model import DAY_SECONDS
from llmeval_sdk.plugins.shared._breaker import SharedBreaker
from llmeval_sdk.plugins.shared._lease import (
    AMOUNTS,
    BudgetLease,
    Held,
    Need,
    limits_of,
    micros,
    need_of,
)
from llmeval_sdk.plugins.shared._script import keys, script, why_closed, why_refused
from llmeval_sdk.plugins.shared.host import Host
from llmeval_sdk.plugins.shared.link import RedisLink, elapsed


if TYPE_CHECKING:
    from redis import Redis


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
    """

    __slots__ = (
        "_concurrency", "_generation", "_holder", "_host", "_lease", "_lease_seconds", "_limits_of",
        "_longest", "_name", "_offset", "_pending", "_rebuild", "_refusals",
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
        link: RedisLink,
        name: str = "judges",
        concurrency: int | None = None,
        longest: float = 60.0,
        lease: float = LEASE_SECONDS,
        rebuild: float = REBUILD_SECONDS,
        apart: Mapping[str, Budget] | None = None,
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
        self, judge: str, *, calls: int = 1, tokens: int = 0, usd: float | None = None, **how: Any
    ) -> Reservation | Refused:
        """Reserve the most that a judgement may use, out of the lease; see `BudgetLimiter`.

        The lease is ahead of use itself, so the host's books are written for one call at a time.

        It waits for at most `PATIENCE_SECONDS`, and not at all while Redis is away.
        """
        self.link.start()
        slots = self._concurrency is not None
        held = self._take(need_of(self._limits(judge), calls, tokens, usd, slots=slots))
        if isinstance(held, Refused):
            return held
        granted = super().reserve(judge, calls=calls, tokens=tokens, usd=usd)
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

    def _take(self, need: Need) -> Held | Refused:
        """Take what is needed out of the lease, after asking for more where it is too little."""
        with self._lease.lock:
            held = self._lease.take(need, elapsed())
            if held is not None:
                if self._lease.is_low():
                    self.link.wake()
                return held
            refused = self._refusal(need)
            if refused is not None:
                return refused
            pending = self._pending = (need, threading.Event())
        if not self.link.is_away:
            self.link.wake()
            pending[1].wait(PATIENCE_SECONDS)
        with self._lease.lock:
            return self._lease.take(need, elapsed()) or self._refusal(need) or self._no_answer()

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
                ends = sent + (reply["ends"] - reply["now"]) * (1 - MARGIN)
                self._lease.take_in(reply.get("granted") or {}, ends, reply["day"])
            self._note_refusal(reply)
        return reply

    def _begin_anew(self, generation: str) -> None:
        """Hold nothing of what was leased before, and go by another name."""
        self._generation = generation
        self._holder, self._seq = uuid4().hex[:16], 0
        self._lease.begin_anew()

    def _who(self) -> dict[str, Any]:
        return {
            "generation": self._generation,
            "holder": self._holder,
            "host": self._host.name,
            "limits": self._limits_of,
            "lease": self._lease_seconds,
            "longest": self._longest,
            "longest_window": max(limits["window"] for limits in self._limits_of.values()),
            "rebuild": self._rebuild,
        }

    def _note_refusal(self, reply: dict[str, Any]) -> None:
        """Keep why nothing was granted, for as long as asking again would not help."""
        self._refusals.clear()
        if self._status == "closed":
            refused = Refused("over_budget", why_closed(reply), max(reply["opens_in"], 1.0))
            self._refusals = dict.fromkeys(self._limits_of, (elapsed() + 1.0, refused))
        elif reply.get("refused"):
            name, what = reply["refused"]["account"], reply["refused"]["what"]
            wait = reply["refused"].get("wait")
            detail = why_refused(reply["refused"], self._limits_of)
            rest = BRIEF_SECONDS / 4 if what == "slots" else min(wait or 1.0, 1.0)
            self._refusals[name] = (elapsed() + rest, Refused("over_budget", detail, wait))

    def _report(self) -> dict[str, Any]:
        """Return what this host spent, from its own books, and who else it knows of."""
        used = {}
        for name in self._limits_of:
            use = super().used(name, self._limits_of[name]["window"])
            usd = micros(use.usd + use.reserved_usd)
            used[name] = {"calls": use.calls, "tokens": use.tokens, "usd": usd}
        return {
            "day": int(self.now() // DAY_SECONDS),
            "used": used,
            "known": self._host.known(self._name) or False,
        }
