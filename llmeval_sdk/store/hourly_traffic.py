"""The traffic by hour, kept up to date as spans arrive: for pages that must answer at once.

The first look reads the index that reports sum up; every further one reads only the spans that
have arrived since. Latencies are kept with three digits, so that a percentile is off by half a
percent at most. What stands for traces that were left out counts with its weight. A span that is
delivered twice after the first look counts twice, one that is
pruned still counts, and so does a request whose caller's span arrives later: what is exact is
`traffic`.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from llmeval_sdk.model import HOUR_NS, JUDGE_TAG
from llmeval_sdk.store.selection import read_by
from llmeval_sdk.store.weighted import weight_of


MAX_HOURS = 31 * 24
"""How many hours are kept, counted from the newest."""
MAX_NAMES = 100
"""How many models, and how many names of requests, are told apart; the rest is ``_OTHER``."""
OTHER = "_OTHER"
MAX_NEW = 200_000
"""How many spans one look reads beyond the first."""


class SpanFacts(NamedTuple):
    """The facts about one span that are counted."""

    start_ns: int
    took_ns: int
    name: str
    kind: str | None
    is_request: int
    model: str | None
    error: str | None
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    time_to_first_token: float | None
    inclusion_probability: float | None = None


@dataclass(slots=True)
class TrafficHour:
    """The requests of one name, or the calls of one model, in an hour."""

    count: float = 0
    failed: float = 0
    tokens: float = 0
    cost_usd: float = 0.0
    unpriced: float = 0
    """Calls that ended well and have no cost."""
    latencies: dict[str, float] = field(default_factory=dict)
    """How often each duration was measured, by its nanoseconds in three digits."""
    stored: int = 0
    """How many of ``count`` are stored; more are counted where some stand for others."""
    variance: float = 0.0
    """Of ``count``."""

    def add(self, other: TrafficHour) -> None:
        """Add another hour."""
        self.count += other.count
        self.failed += other.failed
        self.tokens += other.tokens
        self.cost_usd += other.cost_usd
        self.unpriced += other.unpriced
        self.stored += other.stored
        self.variance += other.variance
        for took, times in other.latencies.items():
            self.latencies[took] = self.latencies.get(took, 0) + times

    def percentile(self, share: float) -> float | None:
        """Return a percentile in seconds, to within half a percent; ``None`` without requests."""
        wanted, seen = share * sum(self.latencies.values()), 0.0
        for value, times in sorted((float(text), times) for text, times in self.latencies.items()):
            seen += times
            if seen >= wanted:
                return value / 1e9
        return None


Hours = dict[int, dict[str, TrafficHour]]


class HourlyTraffic:
    """Requests by name and model calls by model, hour by hour; safe to use from several threads.

    Args:
        past: Whether the first look also takes in what is stored already.
    """

    def __init__(self, *, past: bool = True) -> None:
        self._past = past
        self._lock = threading.Lock()
        self._place: tuple[int, str] | None = None
        """Up to which row the spans were read, and of which store."""
        self.requests: Hours = {}
        self.calls: Hours = {}
        self._listeners: list[Callable[[SpanFacts], None]] = []

    def listen(self, listener: Callable[[SpanFacts], None]) -> None:
        """Have each span told that arrives after the first look."""
        self._listeners.append(listener)

    def has_read(self, store: str) -> bool:
        """Return whether the first look at a store is over."""
        return self._place is not None and self._place[1] == store

    def expect(self, store: str) -> None:
        """Note that a store does not exist yet: everything that it will hold is to be counted."""
        with self._lock:
            if self._place is None:
                self._place = 0, store

    def look(self, connection: sqlite3.Connection, now_ns: int, store: str = "") -> None:
        """Take in what has arrived. ``store`` says which file it is: another one begins anew."""
        with self._lock:
            if self._place is None or self._place[1] != store:
                self.requests, self.calls = {}, {}
                last = connection.execute("SELECT ifnull(max(seq), 0) FROM spans").fetchone()[0]
                if self._past:
                    since = now_ns - MAX_HOURS * HOUR_NS
                    first = _FIRST.replace(":spans", read_by(connection, "spans", "spans_summed"))
                    self._begin(connection.execute(first, {"since": since, "tag": _TAG}))
                self._place = last, store
            else:
                # SQLite gives the numbers of the newest rows again after these were deleted.
                last = connection.execute("SELECT ifnull(max(seq), 0) FROM spans").fetchone()[0]
                self._place = min(self._place[0], last), store
                new = connection.execute(_NEW, (self._place[0], MAX_NEW)).fetchall()
                for seq, is_judges, *row in new:
                    self._place = seq, store
                    if not is_judges:
                        self._add(SpanFacts(*row))
            newest = max((*self.requests, *self.calls), default=0)
            for hours in (self.requests, self.calls):
                for hour in [hour for hour in hours if hour < newest - MAX_HOURS * HOUR_NS]:
                    del hours[hour]

    def total(self, of: str, since_ns: int, until_ns: int) -> dict[str, TrafficHour]:
        """Add up the hours of a period by name: of ``requests``, or of ``calls``."""
        summed: dict[str, TrafficHour] = {}
        with self._lock:
            for hour, by_name in getattr(self, of).items():
                if since_ns <= hour < until_ns:
                    for name, part in by_name.items():
                        summed.setdefault(name, TrafficHour()).add(part)
        return summed

    def by_hour(self, of: str, since_ns: int, until_ns: int) -> dict[int, TrafficHour]:
        """Add up all names of each hour of a period."""
        summed: dict[int, TrafficHour] = {}
        with self._lock:
            for hour, by_name in sorted(getattr(self, of).items()):
                if since_ns <= hour < until_ns:
                    for part in by_name.values():
                        summed.setdefault(hour, TrafficHour()).add(part)
        return summed

    def _begin(self, rows: Iterable[tuple[Any, ...]]) -> None:
        for hour, is_request, name, model, kind, took, chance, *sums in rows:
            self._put(hour, is_request, kind, (name, model), _part(took, chance, *sums))

    def _add(self, span: SpanFacts) -> None:
        tokens = (span.input_tokens or 0) + (span.output_tokens or 0)
        took = f"{span.took_ns:.2e}" if span.took_ns >= 0 else None
        unpriced = span.cost_usd is None and span.error is None
        sums = 1, span.error is not None, tokens, span.cost_usd or 0.0, unpriced
        part = _part(took, span.inclusion_probability, *sums)
        hour = span.start_ns - span.start_ns % HOUR_NS
        self._put(hour, span.is_request, span.kind, (span.name, span.model), part)
        for listener in self._listeners:
            listener(span)

    def _put(
        self, hour: int, is_request: int, kind: str | None, names: tuple[str, str | None],
        part: TrafficHour,
    ) -> None:  # fmt: skip
        if is_request:
            _slot(self.requests, hour, names[0]).add(part)
        if kind in ("llm", "embedding"):
            _slot(self.calls, hour, names[1] or "-").add(part)


def _part(  # noqa: PLR0917 - in the order of the columns
    took: str | None, chance: float | None, count: int, failed: int, tokens: float, usd: float,
    unpriced: int,
) -> TrafficHour:  # fmt: skip
    """Return the sums of spans of one duration that stayed with a chance."""
    weight = weight_of(chance)
    variance = count * weight * (weight - 1)
    return TrafficHour(
        count * weight, failed * weight, int(tokens) * weight, usd * weight, unpriced * weight,
        {took: count * weight} if took else {}, count, variance,
    )  # fmt: skip


def _slot(hours: Hours, hour: int, name: str) -> TrafficHour:
    by_name = hours.setdefault(hour, {})
    if name not in by_name and len(by_name) >= MAX_NAMES:
        name = OTHER
    return by_name.setdefault(name, TrafficHour())


_TAG = f'"{JUDGE_TAG}"'

_FIRST = f"""
SELECT start_ns - start_ns % {HOUR_NS}, parent_id IS NULL, name, model_name, kind,
  CASE WHEN end_ns >= start_ns THEN printf('%.2e', end_ns - start_ns) END,
  inclusion_probability, count(*), count(error_type), total(input_tokens) + total(output_tokens),
  total(cost_usd),
  count(*) FILTER (WHERE cost_usd IS NULL AND error_type IS NULL)
FROM :spans
WHERE start_ns >= :since AND (parent_id IS NULL OR kind IN ('llm', 'embedding'))
  AND (tags IS NULL OR instr(tags, :tag) = 0)
GROUP BY 1, 2, 3, 4, 5, 6, 7
"""  # noqa: S608 - constants

_NEW = f"""
SELECT seq, instr(ifnull(tags, ''), '{_TAG}') > 0, start_ns + 0, end_ns - start_ns, name, kind,
  parent_id IS NULL, model_name, error_type, input_tokens + 0, output_tokens + 0, cost_usd + 0.0,
  time_to_first_token + 0.0, inclusion_probability + 0.0
FROM spans WHERE seq > ? ORDER BY seq LIMIT ?
"""  # noqa: S608 - constants
