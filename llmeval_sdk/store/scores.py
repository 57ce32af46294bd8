"""The scores of evaluators: summed by group over a scope, and the newest of one evaluator."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import Any, NamedTuple

from llmeval_sdk.model import values
from llmeval_sdk.store._schema import WORD
from llmeval_sdk.store.latest import HAS_CHANCE, IS_FORMER, IS_NEWEST, UNJUDGED


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


def _histogram_of(digits: str) -> tuple[int, ...]:
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
    rows = connection.execute(_NOT_RUN_COUNTS.format(where), arguments)
    for evaluator, reason, span_name, times, last_ns in rows:
        key = evaluator, reason
        counts[key] += times
        if key not in latest or latest[key][0] < last_ns:
            latest[key] = last_ns, span_name
    summaries = []
    for (evaluator, reason), times in counts.items():
        last_ns, span_name = latest[evaluator, reason]
        found = connection.execute(
            _NOT_RUN_DETAIL, (evaluator, span_name, reason, last_ns)
        ).fetchone()
        summaries.append(NotRunSummary(evaluator, reason, times, found[0] or ""))
    return sorted(summaries, key=lambda each: (each.evaluator, -each.count, each.reason))


_NOT_RUN_COUNTS = """
SELECT evaluator, reason, span_name, count(*), max(time_ns) FROM not_run {}
GROUP BY evaluator, span_name, reason
"""

_NOT_RUN_DETAIL = """
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
        histogram = _histogram_of("".join(filter(None, group.digits)))
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
    query = _BIN_DIGITS.format(where=where), (*scale, *which, *arguments)
    (digits,) = connection.execute(*query).fetchone()
    return _histogram_of(digits or "")


_BIN_DIGITS = f"""
SELECT group_concat({DIGIT.format(low="?", scale="?")}, '')
FROM evaluations {{where}}
"""  # noqa: S608 - constants


MAX_SCORES = 20_000
"""How many scores of one evaluator a page sums up; it says so when it leaves out older ones."""
MAX_JUDGED = 10_000
MAX_REFUSED = 50_000
"""The same for the judgements of a judge, and for the records that it did not judge."""


@dataclass(frozen=True, slots=True)
class RecentEvaluations:
    """The latest evaluations of one evaluator, newest first."""

    times: tuple[int, ...]
    values: tuple[Any, ...]
    """A float, 0 or 1 for a bool, a text, or ``None`` if it failed or does not apply."""
    failed: int
    capped: bool
    """Whether there are more than `MAX_SCORES`."""


@dataclass(frozen=True, slots=True)
class EvaluationEffort:
    """The time, tokens and money that the latest evaluations took, and how sure they were."""

    durations: tuple[float, ...]
    """Seconds, shortest first."""
    total_tokens: int
    cost_usd: float | None
    probabilities: tuple[float, ...] = ()
    """Of a good outcome, where a decision model said it; newest first."""


def recent_evaluations(
    connection: sqlite3.Connection, name: str, since: int | None, *, judge: bool = False
) -> RecentEvaluations:
    """Return the evaluations since a time in nanoseconds, at most `MAX_SCORES`.

    Of a judge, decisions that its judge model has replaced are left out. No other evaluator has
    any, and without that condition an index answers alone.
    """
    unjudged = f"AND {UNJUDGED.format(table='evaluations')}" if judge else ""
    arguments = {"name": name, "since": since or 0, "limit": MAX_SCORES + 1}
    rows = connection.execute(_RECENT_EVALUATIONS.format(unjudged), arguments).fetchall()
    capped = len(rows) > MAX_SCORES
    rows = rows[:MAX_SCORES]
    arguments["since"] = rows[-1][0] if rows else 0
    failed = connection.execute(_FAILED_COUNT, arguments).fetchone()[0]
    return RecentEvaluations(
        tuple(row[0] for row in rows), tuple(row[1] for row in rows), failed, capped
    )


def summed_since(connection: sqlite3.Connection, judge: str, since: int | None) -> int | None:
    """Return the time since which a judge has at most as many records as a page sums up.

    It is ``since``, or a later time if there are more records than that.
    """
    for sql, most in ((_NTH_JUDGED, MAX_JUDGED), (_NTH_REFUSED, MAX_REFUSED)):
        row = connection.execute(sql, (judge, since or 0, most)).fetchone()
        since = row[0] + 1 if row else since
    return since


def effort_of(connection: sqlite3.Connection, name: str, since: int | None) -> EvaluationEffort:
    """Return what the evaluations since a time took, in seconds, tokens and US dollars."""
    rows = connection.execute(
        _EFFORT, {"name": name, "since": since or 0, "limit": MAX_SCORES}
    ).fetchall()
    durations, tokens, costs, probabilities = zip(*rows, strict=True) if rows else ((),) * 4
    paid = [cost for cost in costs if cost is not None]
    return EvaluationEffort(
        tuple(sorted(duration for duration in durations if duration is not None)),
        sum(count or 0 for count in tokens),
        sum(paid) if paid else None,
        tuple(chance for chance in probabilities if chance is not None),
    )


_NEWEST = IS_NEWEST.format(table="evaluations", name=":name")
_RECENT_EVALUATIONS = f"""
SELECT time_ns, value FROM evaluations WHERE name = :name AND time_ns >= :since AND {_NEWEST} {{}}
ORDER BY time_ns DESC LIMIT :limit
"""  # noqa: S608 - constants

_NTH_JUDGED = """
SELECT time_ns FROM evaluations WHERE name = ? AND time_ns >= ?
ORDER BY time_ns DESC LIMIT 1 OFFSET ?
"""
_NTH_REFUSED = """
SELECT time_ns FROM not_run WHERE evaluator = ? AND time_ns >= ?
ORDER BY time_ns DESC LIMIT 1 OFFSET ?
"""

_FAILED_COUNT = f"""
SELECT count(*) FROM evaluations
WHERE name = :name AND time_ns >= :since AND value IS NULL AND error_type IS NOT NULL AND {_NEWEST}
"""  # noqa: S608

_EFFORT = """
SELECT duration, total_tokens, cost_usd, probability FROM evaluations
WHERE name = :name AND time_ns >= :since ORDER BY time_ns DESC LIMIT :limit
"""
