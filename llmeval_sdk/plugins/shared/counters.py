"""One budget for all hosts: counters in Redis to which the most of each call is added before it.

What a call may use at most is added in one transaction, which says what all hosts have used with
it. Where that is too much it is given back at once, and when the call has ended what it did not
use. So the limit is never passed by more than calls cost beyond what was reserved for them. What a
process that died had reserved counts until its counters expire.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from hashlib import blake2b
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from llmeval_sdk.evaluation.admission import Refused
from llmeval_sdk.evaluation.backoff import Breaker
from llmeval_sdk.evaluation.books import MINUTE, Want, room
from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.model import DAY_SECONDS
from llmeval_sdk.plugins.shared.breaker import BreakerNews
from llmeval_sdk.plugins.shared.redis_client import KEYS, RedisThread, elapsed
from llmeval_sdk.process.shield import tell


if TYPE_CHECKING:
    from redis import Redis


MICROS = 1_000_000
"""Dollars are counted in millionths."""
PARTS = 12
"""A window of calls or tokens has so many counters, and the one that has begun. All of them count,
so that no window ever holds a call too many; a call counts a twelfth of its window longer."""
MAX_UNSETTLED = 10_000
"""Calls whose use waits to be counted while Redis is away; of more, the oldest stay as they are."""

_WORDS = {
    "calls": "{:g} calls a minute are used up",
    "tokens": "{:g} tokens a minute are used up",
    "usd": "USD {:g} a day are used up or reserved",
}


class Limit(NamedTuple):
    """One limit of one account: ``most`` of ``calls``, ``tokens`` or ``usd`` in a window."""

    account: str
    what: str
    most: int
    window: float

    @property
    def seconds(self) -> float:
        """For how long one counter counts: money for a UTC day, all else for a part of a window."""
        return self.window if self.what == "usd" else self.window / PARTS

    def keys(self, budget: str, now: float) -> list[str]:
        """Return the keys that count now, the newest first; braces keep them on one server.

        Redis sees no name of an account, which may be a user's: a hash stands for it.
        """
        account = blake2b(self.account.encode("utf-8", "replace"), digest_size=12).hexdigest()
        newest = int(now // self.seconds)
        count = 1 if self.what == "usd" else PARTS + 1
        start = f"{KEYS}{{shared}}.{budget}.{account}.{self.what}."
        return [f"{start}{newest - place}" for place in range(count)]

    def refusal(self, amount: int, used: list[int], now: float) -> Refused | None:
        """Return why ``amount`` had no room beside what was ``used`` by counter, newest first."""
        if not amount or sum(used) + amount <= self.most:
            return None
        is_money = self.what == "usd"
        most = self.most / MICROS if is_money else self.most * MINUTE / self.window
        detail = _WORDS[self.what].format(most)
        begun = now // self.seconds * self.seconds
        if is_money:
            wait = None if amount > self.most else begun + DAY_SECONDS - now
        else:
            ends = [int(begun - place * self.seconds + self.seconds) for place in range(len(used))]
            recent = [(end - 1, n) for end, n in zip(reversed(ends), reversed(used), strict=True)]
            wait = room(recent, self.most, amount, self.window, now)
        return Refused(
            "over_budget", f"{self.account or 'all judges'}, over all hosts: {detail}", wait
        )


def limits_of(account: str, budget: Budget) -> Iterator[Limit]:
    """Yield the limits of an account."""
    calls, tokens = budget.calls_per_minute, budget.tokens_per_minute
    if calls is not None:
        is_slow = 0 < calls < 1
        window = MINUTE / calls if is_slow else MINUTE
        yield Limit(account, "calls", 1 if is_slow else int(calls), window)
    if tokens is not None:
        yield Limit(account, "tokens", int(tokens), MINUTE)
    elif budget.usd_per_day is not None and budget.unpriced_tokens_per_minute is not None:
        yield Limit(account, "tokens", int(budget.unpriced_tokens_per_minute), MINUTE)
    if budget.usd_per_day is not None:
        yield Limit(account, "usd", round(budget.usd_per_day * MICROS), float(DAY_SECONDS))


def _amounts_of(limits: Mapping[str, Budget], want: Want) -> dict[Limit, int]:
    """Return how much of each limit a call may use at most."""
    amounts: dict[Limit, int] = {}
    for account, budget in limits.items():
        for limit in limits_of(account, budget):
            if limit.what == "calls":
                amounts[limit] = want.calls or 0
            elif limit.what == "usd":
                if want.usd is not None:
                    amounts[limit] = micros(want.usd)
            elif budget.tokens_per_minute is not None:
                amounts[limit] = want.tokens or 0
            elif want.usd is None:  # of unknown price; see `books`: it takes a minute at most
                amounts[limit] = min(want.tokens or 0, limit.most)
    return amounts


def micros(usd: float) -> int:
    """Return an amount of money in millionths of a dollar, rounded up."""
    return ceil(round(usd * MICROS, 3))


@dataclass(slots=True)
class CountedCall:
    """The amounts that were added to the counters for one call; see `limiter.Counted`."""

    counters: RedisCounters
    amounts: dict[Limit, int]
    want: Want
    answer: Future[Any] = field(init=False)
    """A `Refused` or ``True``; ``None`` where Redis did not answer."""
    keys: dict[Limit, str] = field(default_factory=dict)
    """The counters that hold its worst case: none before it is added, or after it is given back."""

    async def refusal(self) -> Refused | None:
        """Say why the budget of all hosts has no room for the call; see `limiter.Counted`."""
        return self._read(await self.counters.link.heard(self.answer))

    def refusal_now(self) -> Refused | None:
        """Do what `refusal` does, on a thread that may block."""
        return self._read(self.counters.link.heard_now(self.answer))

    def _read(self, answer: Any) -> Refused | None:
        if answer is None:
            self.counters.note_own_limit()
        return answer if isinstance(answer, Refused) else None

    def settle(self, used: Want) -> None:
        """Count what was used instead of what was reserved. The call does not wait for Redis."""
        self.counters.settle(self, used)

    def used_of(self, limit: Limit, used: Want) -> int:
        """Return what was used of a limit; what is not known was used as it was reserved."""
        amount = self.amounts[limit]
        if limit.what == "usd":
            return amount if used.usd is None else micros(used.usd)
        own = used.calls if limit.what == "calls" else used.tokens
        return amount if own is None else own


class RedisCounters:
    """What all hosts use of one budget, in Redis. The thread of the link does all the counting.

    All times are those of Redis, so the clocks of the hosts may differ.

    Args:
        link: Talks to Redis.
        name: Of the budget.
        now: Returns seconds since the epoch by the clock of Redis, where it is not asked.
    """

    def __init__(
        self,
        link: RedisThread,
        *,
        name: str = "judges",
        now: Callable[[Redis], float] | None = None,
    ) -> None:
        self.link = link
        """Talks to the Redis of all hosts."""
        self._name = name
        self._now = now or self._server_time
        self._offset: float | None = None
        self._unsettled: deque[tuple[CountedCall, Want]] = deque()
        link.join(self)

    def count(self, limits: Mapping[str, Budget], want: Want, /) -> CountedCall:
        """Begin to add the most that a call may use; see `limiter.AllHosts`."""
        call = CountedCall(self, _amounts_of(limits, want), want)
        call.answer = self.link.ask(lambda redis: self.add(redis, call))
        return call

    def settle(self, call: CountedCall, used: Want) -> None:
        """Count what a call used, now or when Redis is there again."""
        if len(self._unsettled) >= MAX_UNSETTLED:
            self._unsettled.popleft()
            self.link.counts.add("not settled")
        self._unsettled.append((call, used))
        self.link.ask(self.exchange)

    def share(self, breaker: Breaker, model: Any, /) -> None:
        """Share the breaker of a model, if the model has an address."""
        if getattr(model, "base_url", None) is not None:
            self.link.join(BreakerNews(breaker, model, self.link))

    def stats(self) -> dict[str, int]:
        """Return what happened at Redis; see `Stats.shared`."""
        return self.link.counts.snapshot()

    def close(self) -> None:
        """Count what is settled, and end the thread; it starts again when it is needed."""
        self.link.close()

    def note_own_limit(self) -> None:
        """Count and say that a call is held to the budget of this host alone."""
        self.link.counts.add("own limit")
        tell(
            "budget",
            f"{self.link.place} does not answer: until it does, this host keeps to the budget by"
            " itself, and what it uses is counted when Redis is back",
        )

    # -- on the link's thread -------------------------------------------------------------------

    def add(self, redis: Redis, call: CountedCall) -> Refused | bool:
        """Add the most that a call may use; give it back where one of its limits is passed."""
        now = self._now(redis)
        keys = {limit: limit.keys(self._name, now) for limit in call.amounts}
        with redis.pipeline(transaction=True) as changes:
            for limit, amount in call.amounts.items():
                self._increase(changes, limit, keys[limit][0], amount)
                changes.mget(keys[limit])
            changes.time()
            *replies, (seconds, microseconds) = changes.execute()
        self._offset = seconds + microseconds / 1e6 - elapsed()
        call.keys = {limit: own[0] for limit, own in keys.items()}
        self.link.counts.add("calls counted")
        for (limit, amount), texts in zip(call.amounts.items(), replies[2::3], strict=True):
            newest, *earlier = (int(text or 0) for text in texts)
            refused = limit.refusal(amount, [newest - amount, *earlier], now)
            if refused is not None:
                self._write(redis, [(call, Want(0, 0, 0.0))])
                call.keys = {}
                return refused
        return True

    def exchange(self, redis: Redis, /) -> None:
        """Count what calls have used.

        While Redis is away it waits. Where its answer is lost, what was given back may have been
        taken, so it is not given back again: the most of these calls counts.
        """
        settled: list[tuple[CountedCall, Want]] = []
        while self._unsettled and len(settled) < MAX_UNSETTLED:
            settled.append(self._unsettled.popleft())
        try:
            self._write(redis, settled)
        except BaseException:
            never_added = [(call, used) for call, used in settled if not call.keys]
            self._unsettled.extendleft(reversed(never_added))
            raise

    def _write(self, redis: Redis, settled: list[tuple[CountedCall, Want]]) -> None:
        """Replace what was reserved by what was used, at the counters that it was taken from.

        What was never added, because Redis was away, is added to the counters of now.
        """
        more: dict[tuple[str, Limit], int] = {}
        for call, used in settled:
            for limit, amount in call.amounts.items():
                key = call.keys.get(limit) or limit.keys(self._name, self._now(redis))[0]
                delta = call.used_of(limit, used) - (amount if limit in call.keys else 0)
                more[key, limit] = more.get((key, limit), 0) + delta
        changed = {place: amount for place, amount in more.items() if amount}
        if changed:
            with redis.pipeline(transaction=True) as changes:
                for (key, limit), amount in changed.items():
                    self._increase(changes, limit, key, amount)
                changes.execute()

    @staticmethod
    def _increase(changes: Any, limit: Limit, key: str, amount: int) -> None:
        changes.incrby(key, amount)
        changes.pexpire(key, int(limit.seconds * (2 if limit.what == "usd" else PARTS + 2) * 1000))

    def used(self, redis: Redis, limit: Limit) -> int:
        """Return what all hosts have used of a limit, with what is reserved."""
        texts: Any = redis.mget(limit.keys(self._name, self._now(redis)))
        return sum(int(text or 0) for text in texts)

    def forked(self) -> None:
        """Leave to the parent what it has to settle."""
        self._unsettled.clear()

    def _server_time(self, redis: Redis) -> float:
        if self._offset is None:
            seconds, microseconds = redis.time()  # type: ignore[misc, unused-ignore]
            self._offset = seconds + microseconds / 1e6 - elapsed()
        return elapsed() + self._offset
