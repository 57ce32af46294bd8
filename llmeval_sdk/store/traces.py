"""What one trace holds, without its texts, and how it is tied to others."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import NamedTuple


MAX_SPANS = 2_000


class Outline(NamedTuple):
    """One span of a trace, as a waterfall shows it."""

    span_id: str
    parent_id: str | None
    name: str
    kind: str
    start_ns: int
    end_ns: int
    error_type: str | None
    model_name: str | None
    total_tokens: int | None
    cost_usd: float | None
    evaluations: int
    """How many were made of it."""
    chunks: bool
    """It retrieved something."""


@dataclass(frozen=True, slots=True)
class JudgeRun:
    """The trace of a judge's run on a span."""

    trace_id: str
    span_id: str
    judge: str
    start_ns: int
    error_type: str | None


def outline(connection: sqlite3.Connection, trace_id: str) -> tuple[list[Outline], bool]:
    """Return the first `MAX_SPANS` spans in the order they began, and whether that is all."""
    rows = connection.execute(_OUTLINE, (trace_id, MAX_SPANS + 1)).fetchall()
    return [Outline(*row) for row in rows[:MAX_SPANS]], len(rows) <= MAX_SPANS


def judge_runs(connection: sqlite3.Connection, span_id: str) -> list[JudgeRun]:
    """Return the runs of judges that link to a span, in order of time."""
    return [JudgeRun(*row) for row in connection.execute(_LINKED, (span_id,))]


def traces_like(
    connection: sqlite3.Connection, prefix: str, limit: int = 2
) -> list[tuple[str, str | None]]:
    """Return the traces, and the span of each, whose id or whose span's id begins so."""
    given = {"low": prefix, "high": prefix + "g", "limit": limit}
    return connection.execute(_LIKE, given).fetchall()


_OUTLINE = """
SELECT span_id, parent_id, name, kind, start_ns, end_ns, error_type, model_name, total_tokens,
  cost_usd, (SELECT count(*) FROM evaluations e WHERE e.span_id = s.span_id),
  retrieved_context IS NOT NULL
FROM spans s WHERE trace_id = ? ORDER BY start_ns, seq LIMIT ?
"""

_LINKED = """
SELECT trace_id, span_id, name, start_ns, error_type FROM spans
WHERE substr(links, 39, 16) = ? AND links IS NOT NULL AND parent_id IS NULL
ORDER BY start_ns, seq LIMIT 100
"""

_LIKE = """
SELECT trace_id, NULL FROM spans WHERE trace_id >= :low AND trace_id < :high GROUP BY trace_id
UNION ALL
SELECT trace_id, span_id FROM spans WHERE span_id >= :low AND span_id < :high
LIMIT :limit
"""
