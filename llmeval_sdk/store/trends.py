"""The latest scores of one evaluator, read from an index alone however many there are."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any


MOST = 20_000
"""Scores of one evaluator that a page sums up; older ones are left out, and it says so."""
MOST_JUDGED = 10_000
MOST_REFUSED = 50_000
"""The same for a judge: what it said, and what it was not asked."""


@dataclass(frozen=True, slots=True)
class Recent:
    """The latest evaluations of one evaluator, newest first."""

    times: tuple[int, ...]
    values: tuple[Any, ...]
    """A float, 0 or 1 for a bool, a text, or ``None`` for a failure or what is not applicable."""
    failed: int
    capped: bool
    """There are more than `MOST`."""


@dataclass(frozen=True, slots=True)
class Effort:
    """What the latest evaluations took."""

    durations: tuple[float, ...]
    """Seconds, shortest first."""
    total_tokens: int
    cost_usd: float | None


def recent(connection: sqlite3.Connection, name: str, since: int | None) -> Recent:
    """Return the evaluations since a time in nanoseconds, at most `MOST`."""
    given = {"name": name, "since": since or 0, "limit": MOST + 1}
    rows = connection.execute(_RECENT, given).fetchall()
    capped = len(rows) > MOST
    rows = rows[:MOST]
    given["since"] = rows[-1][0] if rows else 0
    failed = connection.execute(_FAILED, given).fetchone()[0]
    return Recent(tuple(row[0] for row in rows), tuple(row[1] for row in rows), failed, capped)


def window(connection: sqlite3.Connection, judge: str, since: int | None) -> int | None:
    """Return since when a judge has at most as many records as a page sums up."""
    for sql, most in ((_NTH_JUDGED, MOST_JUDGED), (_NTH_REFUSED, MOST_REFUSED)):
        found = connection.execute(sql, (judge, since or 0, most)).fetchone()
        since = found[0] + 1 if found else since
    return since


def effort(connection: sqlite3.Connection, name: str, since: int | None) -> Effort:
    """Return what the evaluations since a time took."""
    rows = connection.execute(
        _EFFORT, {"name": name, "since": since or 0, "limit": MOST}
    ).fetchall()
    costs = [cost for _, _, cost in rows if cost is not None]
    return Effort(
        tuple(sorted(duration for duration, _, _ in rows if duration is not None)),
        sum(tokens or 0 for _, tokens, _ in rows),
        sum(costs) if costs else None,
    )


_RECENT = """
SELECT time_ns, value FROM evaluations WHERE name = :name AND time_ns >= :since
ORDER BY time_ns DESC LIMIT :limit
"""

_NTH_JUDGED = """
SELECT time_ns FROM evaluations WHERE name = ? AND time_ns >= ?
ORDER BY time_ns DESC LIMIT 1 OFFSET ?
"""
_NTH_REFUSED = """
SELECT time_ns FROM not_run WHERE evaluator = ? AND time_ns >= ?
ORDER BY time_ns DESC LIMIT 1 OFFSET ?
"""

_FAILED = """
SELECT count(*) FROM evaluations
WHERE name = :name AND time_ns >= :since AND value IS NULL AND error_type IS NOT NULL
"""

_EFFORT = """
SELECT duration, total_tokens, cost_usd FROM evaluations
WHERE name = :name AND time_ns >= :since ORDER BY time_ns DESC LIMIT :limit
"""
