"""Summaries of scores over many records: counts, means, shares and distributions."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf

from llmeval_sdk.model import values
from llmeval_sdk.store.groups import BINS, DIGIT, EvaluationScope, Group, has_bins, histogram_of


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


@dataclass(slots=True)
class _Summed:
    """The sums for one evaluator and span name, over versions and words."""

    scores: int = 0
    total: float = 0.0
    low: float = inf
    high: float = -inf
    categories: Counter[str] = field(default_factory=Counter)
    errors: int = 0
    not_applicable: int = 0
    cost: float | None = None
    tokens: int = 0
    probable: int = 0
    probability: float = 0.0
    digits: list[str | None] = field(default_factory=list)
    """Those of each group with scores; ``None`` for a group that was read without them."""

    def add(self, group: Group) -> None:
        """Add what one version said, or said in one word."""
        if group.word is not None:
            text = group.word if type(group.word) is str else values.word(group.word)
            self.categories[text] += group.rows
        elif group.values:
            self.scores += group.values
            self.total += group.total
            self.low, self.high = min(self.low, group.low), max(self.high, group.high)
            self.digits.append(group.digits)
        self.errors += group.errors
        self.not_applicable += group.not_applicable
        self.tokens += group.total_tokens or 0
        self.probable += group.probable
        self.probability += group.probability or 0.0
        if group.cost_usd is not None:
            self.cost = (self.cost or 0.0) + group.cost_usd

    def mean(self) -> float | None:
        """Return the mean, or ``None`` if any answer is neither a number nor neutral."""
        count, total = self.scores, self.total
        for word, times in self.categories.items():
            if (rating := values.number(word)) is not None:
                count += times
                total += rating * times
            elif not values.is_neutral(word):
                return None
        return total / count if count else None


def score_summary(
    connection: sqlite3.Connection, scope: EvaluationScope, parts: Iterable[Group]
) -> list[ScoreSummary]:
    """Summarise the evaluations of a scope; ``parts`` is what `groups` made of it."""
    summed: dict[tuple[str, str, str | None], _Summed] = {}
    for part in parts:
        key = part.name, part.evaluator_kind, part.span_name
        summed.setdefault(key, _Summed()).add(part)
    keys = sorted(summed, key=lambda key: tuple(part or "" for part in key))
    return [_summary(connection, scope, key, summed[key]) for key in keys]


def not_run_summary(connection: sqlite3.Connection, scope: EvaluationScope) -> list[NotRunSummary]:
    """Count the judges that did not run, by judge and reason, most frequent first."""
    where, arguments = scope.where("evaluator")
    counts: Counter[tuple[str, str]] = Counter()
    latest: dict[tuple[str, str], tuple[int, str | None]] = {}
    rows = connection.execute(_NOT_RUN.format(where), arguments)
    for evaluator, reason, span_name, times, last_ns in rows:
        key = evaluator, reason
        counts[key] += times
        if key not in latest or latest[key][0] < last_ns:
            latest[key] = last_ns, span_name
    summaries = []
    for (evaluator, reason), times in counts.items():
        last_ns, span_name = latest[evaluator, reason]
        found = connection.execute(_DETAIL, (evaluator, span_name, reason, last_ns)).fetchone()
        summaries.append(NotRunSummary(evaluator, reason, times, found[0] or ""))
    return sorted(summaries, key=lambda each: (each.evaluator, -each.count, each.reason))


_NOT_RUN = """
SELECT evaluator, reason, span_name, count(*), max(time_ns) FROM not_run {}
GROUP BY evaluator, span_name, reason
"""

_DETAIL = """
SELECT detail FROM not_run
WHERE evaluator = ? AND span_name IS ? AND reason IS ? AND time_ns = ? ORDER BY seq LIMIT 1
"""


def _summary(
    connection: sqlite3.Connection,
    scope: EvaluationScope,
    key: tuple[str, str, str | None],
    group: _Summed,
) -> ScoreSummary:
    evaluator, kind, span_name = key
    low, high = (group.low, group.high) if group.scores else (None, None)
    if low is not None and high is not None and low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    if (low, high) == (0.0, 1.0) and None not in group.digits:
        histogram = histogram_of("".join(filter(None, group.digits)))
    else:
        histogram = _histogram(connection, scope, key, low, high)
    return ScoreSummary(
        evaluator,
        kind,
        span_name,
        count=group.scores + group.categories.total(),
        errors=group.errors,
        not_applicable=group.not_applicable,
        mean=group.mean(),
        low=low,
        high=high,
        histogram=histogram,
        categories=dict(sorted(group.categories.items(), key=lambda item: (-item[1], item[0]))),
        cost_usd=group.cost,
        total_tokens=group.tokens,
        mean_probability=group.probability / group.probable if group.probable else None,
    )


def _histogram(
    connection: sqlite3.Connection, scope: EvaluationScope, key: tuple[str, str, str | None],
    low: float | None, high: float | None,
) -> tuple[int, ...]:  # fmt: skip
    """Count the scores in each of ten equal parts of the range, as `bin_of` sorts them."""
    if low is None or high is None or not has_bins(low, high):
        return ()
    evaluator, *which = key
    where, arguments = scope._replace(evaluator=evaluator, span_name=None).where(
        "name", "evaluator_kind IS ?", "span_name IS ?", "typeof(value) = 'real'"
    )
    scale = low, BINS / ((high - low) or 1.0)
    query = _BINS.format(where=where), (*scale, *which, *arguments)
    (digits,) = connection.execute(*query).fetchone()
    return histogram_of(digits or "")


_BINS = f"""
SELECT group_concat({DIGIT.format(low="?", scale="?")}, '')
FROM evaluations {{where}}
"""  # noqa: S608 - constants
