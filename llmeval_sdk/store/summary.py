"""Summaries of scores over many records: counts, means, shares and distributions."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

from llmeval_sdk import _values
from llmeval_sdk.store._schema import WORD
from llmeval_sdk.store.bins import BINS, has_bins
from llmeval_sdk.store.effective import HAS_CHANCE, IS_FORMER, IS_NEWEST


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


class EvaluationScope(NamedTuple):
    """Which evaluations, or which judgements that did not run, are summed up.

    ``since`` (inclusive) and ``until`` (exclusive) are nanoseconds since the epoch.
    """

    since: int | None = None
    until: int | None = None
    evaluator: str | None = None
    span_name: str | None = None

    def where(
        self, evaluator: str, *conditions: str, former: bool = False
    ) -> tuple[str, tuple[Any, ...]]:
        """Return the condition in SQL, and its arguments.

        Of evaluations, those are left out in whose place a newer one of the same session counts.

        Args:
            evaluator: the column that names the evaluator: ``name`` in the table of evaluations.
            conditions: further conditions, which come first; an empty one is none.
            former: whether only the evaluations are meant that are otherwise left out.
        """
        by_seq = "+" if former else ""  # few rows are former ones: SQLite is to look up just those
        bounds = {
            f"{by_seq}{evaluator} = ?": self.evaluator,
            "+span_name = ?": self.span_name,  # + keeps SQLite from sorting what is in order
            "time_ns >= ?": self.since,
            "time_ns < ?": self.until,
        }
        if evaluator == "name":
            which = IS_FORMER if former else IS_NEWEST
            if self.evaluator is None:
                conditions = (*conditions, which.format(table="evaluations", name="name"))
            else:
                bounds[which.format(table="evaluations", name="?")] = self.evaluator
        present = {bound: value for bound, value in bounds.items() if value is not None}
        values = (value for bound, value in present.items() for _ in range(bound.count("?")))
        return f"WHERE {' AND '.join(filter(None, (*conditions, *present))) or '1'}", tuple(values)


class Group(NamedTuple):
    """What the evaluations of one evaluator, span name, kind, version and word add up to.

    All scores of a group stand in one `Group` whose ``word`` is ``None``, with the evaluations that
    have no value.
    """

    name: str
    span_name: str | None
    evaluator_kind: str
    version: str | None
    period: int | None
    word: Any
    """A category, 1 or 0 for pass and fail, or ``None``."""
    rows: int
    values: int
    errors: int
    not_applicable: int
    low: Any
    high: Any
    total: float
    """The sum of the scores, where ``word`` is ``None``."""
    cost_usd: float | None
    total_tokens: int | None
    known: int | None
    """How many have an inclusion probability, and neither an error nor no value."""
    probable: int
    """How many say how likely the outcome is good."""
    probability: float | None
    """The sum of those probabilities."""
    sampled: int | None
    """How many have another inclusion probability than 1; ``None`` where nothing has any."""

    @property
    def is_whole(self) -> bool:
        """Whether every inclusion probability is 1, so that nothing has to be weighted."""
        return self.sampled == 0


def period_sql(period_ns: int) -> str:
    """Return the beginning of a record's period in SQL, or NULL where all times are one."""
    return f"time_ns - time_ns % {int(period_ns)}" if period_ns else "NULL"


def groups(
    connection: sqlite3.Connection, scope: EvaluationScope, period_ns: int = 0
) -> list[Group]:
    """Add up the evaluations of a scope, in one pass over them.

    The index ``evaluations_summed`` has them in the order of their groups. Without it SQLite would
    sort the rows first, which takes longer than all the rest. What former verdicts on sessions used
    stands in groups without rows: they count no more, and were paid for.
    """
    where, arguments = scope.where("name")
    period = period_sql(period_ns)
    by_period = f", {period}" if period_ns else ""
    sql = _GROUPS.format(where=where, period=period, by_period=by_period)
    counting = [Group(*row) for row in connection.execute(sql, arguments)]
    where, arguments = scope.where("name", "cost_usd IS NOT NULL", former=True)
    sql = _FORMER.format(where=where, period=period, by_period=by_period)
    return counting + [Group(*row) for row in connection.execute(sql, arguments)]


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

    def add(self, group: Group) -> None:
        """Add what one version said, or said in one word."""
        if group.word is not None:
            text = group.word if type(group.word) is str else _values.word(group.word)
            self.categories[text] += group.rows
        elif group.values:
            self.scores += group.values
            self.total += group.total
            self.low, self.high = min(self.low, group.low), max(self.high, group.high)
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
            if (rating := _values.number(word)) is not None:
                count += times
                total += rating * times
            elif not _values.is_neutral(word):
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


GROUP = "name, span_name, evaluator_kind, evaluator_version"
"""The beginning of the index, in whose order nothing has to be sorted.

A condition such as ``evaluator_kind = 'judge'`` needs a ``+`` before the column: SQLite leaves a
column that is constant out of the grouping, and then takes the rest to be in no order.
"""
CHANCED = HAS_CHANCE.format(table="evaluations")
COUNTS = f"error_type IS NULL AND value IS NOT NULL AND {CHANCED}"

_GROUPS = f"""
SELECT {GROUP}, {{period}}, {WORD}, count(*), count(value), count(error_type),
  count(*) - count(ifnull(value, error_type)), min(value), max(value), total(value),
  sum(cost_usd), sum(total_tokens), sum({COUNTS}), count(probability), sum(probability),
  sum(inclusion_probability <> 1)
FROM evaluations {{where}} GROUP BY {GROUP}, {WORD} {{by_period}}
"""  # noqa: S608 - constants

_FORMER = f"""
SELECT {GROUP}, {{period}}, NULL, 0, 0, 0, 0, NULL, NULL, 0.0, sum(cost_usd), sum(total_tokens),
  0, 0, NULL, NULL
FROM evaluations {{where}} GROUP BY {GROUP} {{by_period}}
"""  # noqa: S608

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
        histogram=_histogram(connection, scope, key, low, high),
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
    return tuple((digits or "").count(str(number)) for number in range(BINS))


_BINS = f"""
SELECT group_concat(max(0, min({BINS - 1}, CAST((value - ?) * ? AS INTEGER))), '')
FROM evaluations {{where}}
"""  # noqa: S608 - constants
"""The part of each score as one digit: two thirds of the time that a sum for each part takes."""
