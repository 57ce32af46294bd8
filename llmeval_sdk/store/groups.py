"""Sums over the evaluations of a store, which SQL makes by evaluator, span name and word."""

from __future__ import annotations

import sqlite3
from math import isfinite
from typing import Any, NamedTuple

from llmeval_sdk.store._schema import WORD
from llmeval_sdk.store.effective import HAS_CHANCE, IS_FORMER, IS_NEWEST


# The ten equal parts of a range in which the scores of a distribution are counted.

BINS = 10
DIGIT = f"max(0, min({BINS - 1}, CAST((value - {{low}}) * {{scale}} AS INTEGER)))"
"""SQL: the part of a range in which a score lies, as one digit.

Joining the digits of all scores takes two thirds of the time of ten sums, one for each part."""


def has_bins(low: float, high: float) -> bool:
    """Return whether a range can be divided into ten parts: it is finite, and not too small."""
    return isfinite(high - low) and isfinite(BINS / ((high - low) or 1.0))


def bin_of(value: float, low: float, high: float) -> int:
    """Say in which of the ten parts of a range a value lies, the lowest being 0."""
    return min(int((value - low) * (BINS / ((high - low) or 1.0))), BINS - 1)


def histogram_of(digits: str) -> tuple[int, ...]:
    """Return how many scores lie in each of the ten parts; ``digits`` has one `DIGIT` for each."""
    return tuple(digits.count(str(number)) for number in range(BINS))


class EvaluationScope(NamedTuple):
    """Selects the evaluations, or the judgements that did not run, that are summed up.

    ``since`` (inclusive) and ``until`` (exclusive) are nanoseconds since the epoch.
    """

    since: int | None = None
    until: int | None = None
    evaluator: str | None = None
    span_name: str | None = None

    def where(
        self, evaluator: str, *conditions: str, former: bool = False
    ) -> tuple[str, tuple[Any, ...]]:
        """Return a WHERE clause in SQL, and its arguments.

        Only the newest evaluation of a session is selected, because it replaces the former ones.

        Args:
            evaluator: the column that names the evaluator: ``name`` in the table of evaluations.
            conditions: further conditions, which come first; empty ones are ignored.
            former: whether to select the replaced evaluations of sessions instead.
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
    """Sums over the evaluations that share an evaluator, span name, kind, version and word.

    The scores, which are no words, share one `Group` whose ``word`` is ``None``. The evaluations
    that have no value are in it as well.
    """

    name: str
    span_name: str | None
    evaluator_kind: str
    version: str | None
    period: int | None
    word: Any
    """The category that was given, 1 for pass or 0 for fail; ``None`` for scores."""
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
    """How many have an inclusion probability and a value, and no error."""
    probable: int
    """How many have a ``probability``, which says how likely the outcome is good."""
    probability: float | None
    """The sum of these probabilities."""
    sampled: int | None
    """How many have an inclusion probability other than 1; ``None`` if no evaluation has one."""
    digits: str | None = None
    """For each score one digit: the tenth of the range from 0 to 1 in which it lies. A score
    outside of that range has the digit of the nearer end. ``None`` unless `groups` was asked for
    digits."""

    @property
    def is_whole(self) -> bool:
        """Whether every inclusion probability is 1, so that nothing has to be weighted."""
        return self.sampled == 0


def period_sql(period_ns: int) -> str:
    """Return SQL for the start of a record's period; NULL where all times are one period."""
    return f"time_ns - time_ns % {int(period_ns)}" if period_ns else "NULL"


def groups(
    connection: sqlite3.Connection,
    scope: EvaluationScope,
    period_ns: int = 0,
    *,
    with_digits: bool = False,
) -> list[Group]:
    """Sum up the evaluations of a scope in one pass.

    The index ``evaluations_summed`` has them in the order of their groups. Without it SQLite would
    sort the rows first, which takes longer than all the rest. Former verdicts on sessions no longer
    count, but they were paid for: their costs and tokens are in groups that have no rows.

    With ``with_digits``, groups also have the digits of their scores, from which the histograms of
    scores between 0 and 1 are made without another pass.
    """
    where, arguments = scope.where("name")
    period = period_sql(period_ns)
    by_period = f", {period}" if period_ns else ""
    digits = _DIGITS if with_digits else "NULL"
    sql = _GROUPS.format(where=where, period=period, by_period=by_period, digits=digits)
    counting = [Group(*row) for row in connection.execute(sql, arguments)]
    where, arguments = scope.where("name", "cost_usd IS NOT NULL", former=True)
    sql = _FORMER.format(where=where, period=period, by_period=by_period)
    return counting + [Group(*row) for row in connection.execute(sql, arguments)]


GROUP = "name, span_name, evaluator_kind, evaluator_version"
"""The beginning of the index, in whose order nothing has to be sorted.

A condition such as ``evaluator_kind = 'judge'`` needs a ``+`` before the column: SQLite leaves a
column that is constant out of the grouping, and then takes the rest to be in no order.
"""
CHANCED = HAS_CHANCE.format(table="evaluations")
COUNTS = f"error_type IS NULL AND value IS NOT NULL AND {CHANCED}"

_DIGITS = f"""
group_concat(CASE WHEN {WORD} IS NULL THEN {DIGIT.format(low=0.0, scale=float(BINS))} END, '')
"""

_GROUPS = f"""
SELECT {GROUP}, {{period}}, {WORD}, count(*), count(value), count(error_type),
  count(*) - count(ifnull(value, error_type)), min(value), max(value), total(value),
  sum(cost_usd), sum(total_tokens), sum({COUNTS}), count(probability), sum(probability),
  sum(inclusion_probability <> 1), {{digits}}
FROM evaluations {{where}} GROUP BY {GROUP}, {WORD} {{by_period}}
"""  # noqa: S608 - constants

_FORMER = f"""
SELECT {GROUP}, {{period}}, NULL, 0, 0, 0, 0, NULL, NULL, 0.0, sum(cost_usd), sum(total_tokens),
  0, 0, NULL, NULL, NULL
FROM evaluations {{where}} GROUP BY {GROUP} {{by_period}}
"""  # noqa: S608
