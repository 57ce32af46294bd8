"""The app's own traffic: how slow, how dear and how faulty it is, by span name, model, tag or user.

All figures are exact. A million spans are read in about a second, from an index that holds what is
summed up in the order of the groups, so that no row is read and nothing is sorted by SQLite.

Only spans of models (``llm``, ``embedding``) have tokens and money of their own. A request is the
first span of a trace: it has what all model calls of its trace used, and so has its session, user
or tag, unless a call has another one itself.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.store._traffic_reading import TAG, TrafficReading, TrafficScope, key_of
from llmeval_sdk.store._traffic_sums import Percentiles, Pricing, TrafficGroup, TrafficSums


__all__ = [
    "GROUPINGS", "Percentiles", "Pricing", "Traffic", "TrafficGroup", "TrafficScope", "check",
    "from_the_future", "overall", "traffic",
]  # fmt: skip

GROUPINGS = ("name", "request", "model", "user", "session", "tag:KEY")
MOST_GROUPS = 1_000
"""How many groups a report has; those with the least money and spans are added up as one."""
MOST_MODELS = 20
"""How many models a report names whose price is unknown, and how many without usage."""
OTHERS = "(others)"


@dataclass(frozen=True, slots=True)
class Traffic:
    """The traffic of a scope: all of it, and by group."""

    by: str
    total: TrafficGroup
    """All requests, with what all model calls used."""
    groups: tuple[TrafficGroup, ...]
    """Those with most money, or most spans, come first."""
    left_out: int
    """How many further groups are added up in the last one."""
    unpriced_models: Mapping[str, int]
    """How many calls have no known price, by model."""
    silent_models: Mapping[str, int]
    """How many calls succeeded without reporting the tokens they used, by model."""


def check(by: str) -> str:
    """Return a grouping that can be used; raises `ConfigurationError` for another word."""
    if by in GROUPINGS[:-1] or (by.startswith(TAG) and by != TAG):
        return by
    raise ConfigurationError(
        f"{by!r} is no grouping: expected {', '.join(GROUPINGS)}, such as tag:release"
    )


def traffic(
    connection: sqlite3.Connection,
    scope: TrafficScope = TrafficScope(),  # noqa: B008 - it never changes
    by: str = "name",
    pricing: Pricing | None = None,
) -> Traffic:
    """Sum up the traffic of a scope.

    Raises `ConfigurationError` for a grouping that is none of `GROUPINGS`.
    """
    check(by)
    reading = TrafficReading(connection, scope, pricing or Pricing())
    if by in ("name", "model"):
        units = reading.in_order(by)
    else:
        units = reading.by_trace(key_of(by), by, with_answers=True)
    if by == "name":
        reading.add_answers()
    sums = reading.sums
    ranked = sorted(sums, key=lambda key: (-(sums[key].cost_usd or 0.0), -sums[key].count))
    rest = TrafficSums()
    for key in ranked[MOST_GROUPS:]:
        rest.merge(sums[key])
    groups = [sums[key].group(key, units[key]) for key in ranked[:MOST_GROUPS]]
    left_out = len(ranked) - len(groups)
    if left_out:
        groups.append(rest.group(OTHERS, units[ranked[-1]]))
    unknown = [
        dict(models.most_common(MOST_MODELS))
        for models in (reading.pricing.unpriced, reading.pricing.silent)
    ]
    return Traffic(by, reading.all_calls.group(None, "call"), tuple(groups), left_out, *unknown)


def overall(connection: sqlite3.Connection, scope: TrafficScope, pricing: Pricing) -> TrafficGroup:
    """Sum up all requests of a scope as one group."""
    reading = TrafficReading(connection, scope, pricing)
    reading.by_trace("NULL", "request")
    return reading.sums.get(None, TrafficSums()).group(None, "request")


def from_the_future(connection: sqlite3.Connection, now_ns: int) -> int:
    """Count the requests that began more than a minute after now: by a clock that was wrong."""
    sql = "SELECT count(*) FROM spans WHERE parent_id IS NULL AND start_ns > ?"
    return int(connection.execute(sql, (now_ns + 60_000_000_000,)).fetchone()[0])
