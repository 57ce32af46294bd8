"""What the scores say, over many records: counts, means, shares and distributions."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


BINS = 10


@dataclass(frozen=True, slots=True)
class ScoreSummary:
    """The evaluations of one evaluator on the spans of one name."""

    evaluator: str
    evaluator_kind: str
    span_name: str | None
    count: int = 0
    """Evaluations that have a value."""
    errors: int = 0
    not_applicable: int = 0
    """Evaluations that have neither a value nor an error."""
    mean: float | None = None
    """Plain mean of the scores; ``None`` where there are only categories."""
    corrected_mean: float | None = None
    """Mean over all traffic: each score weighs the inverse of its inclusion probability."""
    low: float | None = None
    high: float | None = None
    """The range of `histogram`: 0..1 where every score lies in it, else smallest to largest."""
    histogram: tuple[int, ...] = ()
    """Scores in ten equal parts of the range, lowest first."""
    categories: Mapping[str, int] = field(default_factory=dict)
    """How often each category was given, most frequent first; for booleans ``pass``, ``fail``."""
    cost_usd: float | None = None
    total_tokens: int = 0


@dataclass(frozen=True, slots=True)
class NotRunSummary:
    """How often one judge did not run for one reason."""

    evaluator: str
    reason: str
    count: int
    detail: str
    """The latest one's words."""


def score_summary(connection: sqlite3.Connection, where: str, given: Row) -> list[ScoreSummary]:
    """Summarise the evaluations that a condition selects, in one pass over them."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for evaluator, kind, span_name, *rest in connection.execute(_GROUPS.format(where), given):
        groups.setdefault((evaluator, kind, span_name), []).append(tuple(rest))
    return [
        _summary(connection, key, groups[key], where, given)
        for key in sorted(groups, key=lambda key: tuple(str(part or "") for part in key))
    ]


def not_run_summary(connection: sqlite3.Connection, where: str, given: Row) -> list[NotRunSummary]:
    """Count the judges that did not run, by judge and reason, most frequent first."""
    found = connection.execute(_NOT_RUN.format(where), given)
    return [NotRunSummary(row[0], row[1], row[2], row[3] or "") for row in found]


Row = tuple[Any, ...]

_GROUPS = """
SELECT name, evaluator_kind, span_name, typeof(value) AS type,
  CASE typeof(value)
    WHEN 'real' THEN CASE WHEN value BETWEEN 0 AND 1 THEN min(CAST(value * 10 AS INTEGER), 9) END
    ELSE value
  END AS part,
  count(*), sum(error_type IS NOT NULL), sum(value),
  sum(value / inclusion_probability), sum(1 / inclusion_probability),
  min(value), max(value), sum(cost_usd), sum(total_tokens)
FROM evaluations {}
GROUP BY name, evaluator_kind, span_name, type, part
"""

_BINS = """
SELECT min(CAST((value - ?) * 10 / ? AS INTEGER), 9) AS part, count(*)
FROM evaluations {} {} name = ? AND evaluator_kind IS ? AND span_name IS ?
  AND typeof(value) = 'real'
GROUP BY part
"""

_NOT_RUN = """
SELECT evaluator, reason, count(*) AS times, detail, max(time_ns)
FROM not_run {} GROUP BY evaluator, reason ORDER BY evaluator, times DESC, reason
"""


def _summary(
    connection: sqlite3.Connection, key: Row, parts: list[Row], where: str, given: Row
) -> ScoreSummary:
    scores = [part for part in parts if part[0] == "real"]
    count = sum(part[2] for part in parts if part[0] != "null")
    errors = sum(part[3] for part in parts)
    costs = [part[9] for part in parts if part[9] is not None]
    names = {"integer": {0: "fail", 1: "pass"}}
    categories = {
        names.get(part[0], {}).get(part[1], str(part[1])): part[2]
        for part in parts
        if part[0] in ("text", "integer")
    }
    low, high, histogram = _histogram(connection, key, scores, where, given)
    number = sum(part[2] for part in scores)
    weight = sum(part[6] or 0.0 for part in scores)
    evaluator, evaluator_kind, span_name = key
    return ScoreSummary(
        evaluator,
        evaluator_kind,
        span_name,
        count=count,
        errors=errors,
        not_applicable=sum(part[2] - part[3] for part in parts if part[0] == "null"),
        mean=sum(part[4] for part in scores) / number if number else None,
        corrected_mean=sum(part[5] or 0.0 for part in scores) / weight if weight else None,
        low=low,
        high=high,
        histogram=histogram,
        categories=dict(sorted(categories.items(), key=lambda item: (-item[1], item[0]))),
        cost_usd=sum(costs) if costs else None,
        total_tokens=sum(part[10] or 0 for part in parts),
    )


def _histogram(
    connection: sqlite3.Connection, key: Row, scores: list[Row], where: str, given: Row
) -> tuple[float | None, float | None, tuple[int, ...]]:
    """Return the range and the counts; scores beyond 0..1 need a second pass for their range."""
    if not scores:
        return None, None, ()
    bins = [0] * BINS
    if all(part[1] is not None for part in scores):
        for part in scores:
            bins[part[1]] += part[2]
        return 0.0, 1.0, tuple(bins)
    low, high = min(part[7] for part in scores), max(part[8] for part in scores)
    query = _BINS.format(where, "AND" if where else "WHERE")
    width = (high - low) or 1.0
    # the bounds come first in the text of the statement, before what the condition was given
    for part, times in connection.execute(query, (low, width, *given, *key)):
        bins[part] += times
    return low, high, tuple(bins)
