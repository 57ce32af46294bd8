"""Summaries of scores over many records: counts, means, shares and distributions."""

from __future__ import annotations

import sqlite3
from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from llmeval_sdk import _values


BINS = 10
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ScoreSummary:
    """A summary of what one evaluator said about the spans of one name."""

    evaluator: str
    evaluator_kind: str
    span_name: str | None
    count: int = 0
    """How many evaluations have a value."""
    errors: int = 0
    not_applicable: int = 0
    """How many evaluations have neither a value nor an error."""
    mean: float | None = None
    """The plain mean, counting pass and yes as 1, fail and no as 0; ``None`` for other words."""
    low: float | None = None
    high: float | None = None
    """The range of `histogram`: 0 to 1 if all scores lie in it, else smallest to largest."""
    histogram: tuple[int, ...] = ()
    """How many scores lie in each of ten equal parts of the range, lowest first."""
    categories: Mapping[str, int] = field(default_factory=dict)
    """How often each category was given, most frequent first; booleans are ``pass``, ``fail``."""
    cost_usd: float | None = None
    total_tokens: int = 0
    mean_probability: float | None = None
    """Of a good outcome, over the records for which a decision model said it."""


@dataclass(frozen=True, slots=True)
class NotRunSummary:
    """How often one judge did not run for one reason."""

    evaluator: str
    reason: str
    count: int
    detail: str
    """The detail of the latest of them."""


class _Group:
    """The running sums for one evaluator and span name."""

    __slots__ = (
        "categories", "cost", "errors", "not_applicable", "probabilities", "scores", "tokens",
    )  # fmt: skip

    def __init__(self) -> None:
        self.scores = array("d")
        self.probabilities = array("d")
        self.categories: Counter[str] = Counter()
        self.errors = self.not_applicable = self.tokens = 0
        self.cost: float | None = None

    def mean(self) -> float | None:
        """Return the mean, or ``None`` if any answer is neither a number nor neutral."""
        count, total = len(self.scores), sum(self.scores)
        for word, times in self.categories.items():
            if (rating := _values.number(word)) is not None:
                count += times
                total += rating * times
            elif not _values.is_neutral(word):
                return None
        return total / count if count else None


def score_summary(connection: sqlite3.Connection, where: str, arguments: Row) -> list[ScoreSummary]:
    """Summarise the evaluations that a condition selects, in one pass over them.

    The sums are made here because SQLite's GROUP BY would sort the rows first, which doubles the
    time for millions of them.
    """
    groups: dict[tuple[str, str, str | None], _Group] = {}
    for name, kind, span_name, value, failed, cost, tokens, probability in connection.execute(
        _SCORES.format(where), arguments
    ):
        group = groups.get((name, kind, span_name))
        if group is None:
            group = groups[name, kind, span_name] = _Group()
        if type(value) is float:
            group.scores.append(value)
        elif value is not None:
            group.categories[value if type(value) is str else _values.word(value)] += 1
        elif not failed:
            group.not_applicable += 1
        group.errors += failed
        if cost is not None:
            group.cost = (group.cost or 0.0) + cost
        if tokens:
            group.tokens += tokens
        if probability is not None:
            group.probabilities.append(probability)
    keys = sorted(groups, key=lambda key: tuple(part or "" for part in key))
    return [_summary(*key, groups[key]) for key in keys]


def not_run_summary(
    connection: sqlite3.Connection, where: str, arguments: Row
) -> list[NotRunSummary]:
    """Count the judges that did not run, by judge and reason, most frequent first."""
    rows = connection.execute(_NOT_RUN.format(where), arguments)
    return [NotRunSummary(row[0], row[1], row[2], row[3] or "") for row in rows]


_SCORES = """
SELECT name, evaluator_kind, span_name, value, error_type IS NOT NULL, cost_usd, total_tokens,
  probability
FROM evaluations {}
"""

_NOT_RUN = """
SELECT evaluator, reason, count(*) AS times, detail, max(time_ns)
FROM not_run {} GROUP BY evaluator, reason ORDER BY evaluator, times DESC, reason
"""


def _summary(evaluator: str, kind: str, span_name: str | None, group: _Group) -> ScoreSummary:
    low, high = (min(group.scores), max(group.scores)) if group.scores else (None, None)
    if low is not None and high is not None and low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    return ScoreSummary(
        evaluator,
        kind,
        span_name,
        count=len(group.scores) + group.categories.total(),
        errors=group.errors,
        not_applicable=group.not_applicable,
        mean=group.mean(),
        low=low,
        high=high,
        histogram=_histogram(group.scores, low, high),
        categories=dict(sorted(group.categories.items(), key=lambda item: (-item[1], item[0]))),
        cost_usd=group.cost,
        total_tokens=group.tokens,
        mean_probability=_mean(group.probabilities),
    )


def _mean(numbers: array[float]) -> float | None:
    return sum(numbers) / len(numbers) if numbers else None


def _histogram(scores: array[float], low: float | None, high: float | None) -> tuple[int, ...]:
    if low is None or high is None:
        return ()
    bins = [0] * BINS
    scale = BINS / ((high - low) or 1.0)
    if not isfinite(scale) or not isfinite(high - low):
        return ()
    for value in scores:
        bins[min(int((value - low) * scale), BINS - 1)] += 1
    return tuple(bins)
