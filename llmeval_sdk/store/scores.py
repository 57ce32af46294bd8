"""The scores of evaluators: summed by group, tier by tier of a cascade, and the newest ones."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import NamedTuple

from llmeval_sdk.model import values
from llmeval_sdk.statistics.labels import PASS
from llmeval_sdk.store._schema import WORD
from llmeval_sdk.store.latest import (
    StoredValue,
    chance_of,
    has_chance,
    is_former,
    is_newest,
    is_verdict,
)
from llmeval_sdk.store.splits import WHOLE, Part, Split


# The ten equal parts of a range in which the scores of a distribution are counted.

BINS = 10


def _digit(low: str, scale: str) -> str:
    """Return SQL for the part of a range in which a score lies, as one digit.

    Joining the digits of all scores takes two thirds of the time of ten sums, one for each part.
    """
    return f"max(0, min({BINS - 1}, CAST((value - {low}) * {scale} AS INTEGER)))"


def has_bins(low: float, high: float) -> bool:
    """Return whether a range can be divided into ten parts: it is finite, and not too small."""
    return isfinite(high - low) and isfinite(BINS / ((high - low) or 1.0))


def bin_of(value: float, low: float, high: float) -> int:
    """Say in which of the ten parts of a range a value lies, the lowest being 0."""
    return min(int((value - low) * (BINS / ((high - low) or 1.0))), BINS - 1)


def _histogram_of(digits: str) -> tuple[int, ...]:
    """Return how many scores lie in each of the ten parts, from a digit for each score."""
    return tuple(digits.count(str(number)) for number in range(BINS))


# The evaluations of a scope, summed by group.


class EvaluationScope(NamedTuple):
    """Selects the evaluations, or the judgements that did not run, that are summed up.

    ``since`` (inclusive) and ``until`` (exclusive) are nanoseconds since the epoch.
    """

    since: int | None = None
    until: int | None = None
    evaluator: str | None = None
    span_name: str | None = None

    def of_evaluations(self, *conditions: str) -> str:
        """Return the WHERE of a statement about ``evaluations``; the fields are its arguments.

        Only the newest evaluation of a session is selected, because it replaces the former ones.
        Further conditions come first; empty ones are ignored.
        """
        newest = _NEWEST_OF_ALL if self.evaluator is None else _NEWEST_OF_ONE
        return _where(*conditions, *self._bounds("name"), newest)

    def of_former_evaluations(self, *conditions: str) -> str:
        """Return the same for the former evaluations of sessions, which newer ones replace."""
        former = _FORMER_OF_ALL if self.evaluator is None else _FORMER_OF_ONE
        # Few rows are former ones: because of the + SQLite looks up just those.
        return _where(*conditions, *self._bounds("+name"), former)

    def of_not_run(self, *conditions: str) -> str:
        """Return the WHERE of a statement about ``not_run``; the fields are its arguments."""
        return _where(*conditions, *self._bounds("evaluator"))

    def _bounds(self, evaluator: str) -> Iterator[str]:
        if self.evaluator is not None:
            yield f"{evaluator} = :evaluator"
        if self.span_name is not None:
            yield "+span_name = :span_name"  # the + keeps SQLite from sorting what is in order
        if self.since is not None:
            yield "time_ns >= :since"
        if self.until is not None:
            yield "time_ns < :until"


_NEWEST_OF_ONE = is_newest("evaluations", ":evaluator")
_NEWEST_OF_ALL = is_newest("evaluations", "name")
_FORMER_OF_ONE = is_former("evaluations", ":evaluator")
_FORMER_OF_ALL = is_former("evaluations", "name")


def _where(*conditions: str) -> str:
    return f"WHERE {' AND '.join(filter(None, conditions)) or '1'}"


class Group(NamedTuple):
    """Sums over the evaluations that share an evaluator, span name, kind, version and word.

    The scores, which are no words, share one `Group` whose ``word`` is ``None``. The evaluations
    that have no value are in it as well.
    """

    name: str
    span_name: str | None
    evaluator_kind: str
    version: str | None
    part: Part
    word: StoredValue
    """The category that was given, 1 for pass or 0 for fail; ``None`` for scores."""
    rows: int
    values: int
    errors: int
    not_applicable: int
    low: float | None
    high: float | None
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
    squares: float
    """The sum of the squares of the scores."""
    passed: int | None
    """How many scores are passes."""
    digits: str | None = None
    """For each score one digit: the tenth of the range from 0 to 1 in which it lies. A score
    outside of that range has the digit of the nearer end. ``None`` unless `groups` was asked for
    digits."""

    @property
    def is_whole(self) -> bool:
        """Whether every inclusion probability is 1, so that nothing has to be weighted."""
        return self.sampled == 0


def groups(
    connection: sqlite3.Connection,
    scope: EvaluationScope,
    split: Split = WHOLE,
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
    newest = _groups_sql(scope, with_digits=with_digits), scope._asdict()
    former = _former_groups_sql(scope, split), scope._asdict()
    statements = [newest] if split == WHOLE else _statements_of_parts(connection, scope, split)
    return [
        Group(*row)
        for sql, arguments in (*statements, former)
        for row in connection.execute(sql, arguments)
    ]


GROUP = "name, span_name, evaluator_kind, evaluator_version"
"""The beginning of the index, in whose order nothing has to be sorted.

A condition such as ``evaluator_kind = 'judge'`` needs a ``+`` before the column: SQLite leaves a
column that is constant out of the grouping, and then takes the rest to be in no order.
"""
CHANCED = has_chance("evaluations")


def _groups_sql(scope: EvaluationScope, *, with_digits: bool) -> str:
    digit = f"CASE WHEN {WORD} IS NULL THEN {_digit('0.0', f'{BINS}.0')} END"
    return f"""
SELECT {GROUP}, NULL, {WORD}, {_SUMS}, {f"group_concat({digit}, '')" if with_digits else "NULL"}
FROM evaluations {scope.of_evaluations()}
GROUP BY {GROUP}, {WORD}
"""  # noqa: S608 - constants


def _statements_of_parts(
    connection: sqlite3.Connection, scope: EvaluationScope, split: Split
) -> list[tuple[str, dict[str, StoredValue]]]:
    """Return the statements that sum up by the parts of a split, with their arguments.

    SQLite has to sort for that. Each statement is about one beginning of the index, so that what is
    sorted does not hold it: that takes a third less time.
    """
    of_one = "name = :evaluator" if scope.evaluator is not None else "1"
    beginnings = connection.execute(
        f"""
SELECT DISTINCT {GROUP} FROM main.evaluations
WHERE {of_one} AND ifnull(+span_name = :span_name, 1)
""",  # noqa: S608 - constants
        scope._asdict(),
    )
    mine = scope._replace(evaluator="")
    where = mine.of_evaluations(
        "span_name IS :of_span", "evaluator_kind IS :kind", "evaluator_version IS :version"
    )
    sql = f"""
SELECT :evaluator, :of_span, :kind, :version, {split.part}, {WORD}, {_SUMS}, NULL
FROM evaluations {where}
GROUP BY {WORD}, {split.part}
"""  # noqa: S608 - constants
    return [
        (
            sql,
            {**scope._asdict(), "evaluator": name, "of_span": span, "kind": kind, "version": of},
        )
        for name, span, kind, of in beginnings
    ]


_SUMS = f"""
  count(*), count(value), count(error_type), count(*) - count(ifnull(value, error_type)),
  min(value), max(value), total(value), sum(cost_usd), sum(total_tokens),
  sum(error_type IS NULL AND value IS NOT NULL AND {CHANCED}),
  count(probability), sum(probability), sum(inclusion_probability <> 1),
  total(value * value), sum(value >= {PASS})"""
"""What a `Group` has of its evaluations, from ``rows`` to ``passed``."""


def _former_groups_sql(scope: EvaluationScope, split: Split) -> str:
    return f"""
SELECT {GROUP}, {split.part}, NULL, 0, 0, 0, 0, NULL, NULL, 0.0, sum(cost_usd), sum(total_tokens),
  0, 0, NULL, NULL, 0.0, 0, NULL
FROM evaluations {scope.of_former_evaluations("cost_usd IS NOT NULL")}
GROUP BY {GROUP} {split.and_part}
"""  # noqa: S608 - constants


# Summaries of groups: counts, means, shares and distributions.


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
    """The mean probability of a good outcome, over the records that a decision model rated."""
    weighted_mean: float | None = None
    """The mean over all traffic of a free score of which some gave way to others."""


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
    sampled: int = 0
    """How many have an inclusion probability other than 1."""
    digits: list[str | None] = field(default_factory=list)
    """The digits of each group with scores; ``None`` for a group that was read without them."""

    def add(self, group: Group) -> None:
        """Add what one version said, or said in one word."""
        if group.word is not None:
            text = group.word if type(group.word) is str else values.word(group.word)
            self.categories[text] += group.rows
        elif group.low is not None and group.high is not None:
            self.scores += group.values
            self.total += group.total
            self.low, self.high = min(self.low, group.low), max(self.high, group.high)
            self.digits.append(group.digits)
        self.errors += group.errors
        self.not_applicable += group.not_applicable
        self.tokens += group.total_tokens or 0
        self.sampled += group.sampled or 0
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
    counts: Counter[tuple[str, str]] = Counter()
    latest: dict[tuple[str, str], tuple[int, str | None]] = {}
    rows = connection.execute(
        f"""
SELECT evaluator, reason, span_name, count(*), max(time_ns) FROM not_run {scope.of_not_run()}
GROUP BY evaluator, span_name, reason
""",  # noqa: S608 - constants
        scope._asdict(),
    )
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
    mean, weighted = group.mean(), None
    if kind == "heuristic" and group.sampled and mean is not None:
        weighted = _weighted_mean(connection, scope, key)
    return ScoreSummary(
        evaluator,
        kind,
        span_name,
        count=group.scores + group.categories.total(),
        errors=group.errors,
        not_applicable=group.not_applicable,
        mean=mean,
        low=low,
        high=high,
        histogram=histogram,
        categories=dict(sorted(group.categories.items(), key=lambda item: (-item[1], item[0]))),
        cost_usd=group.cost,
        total_tokens=group.tokens,
        mean_probability=group.probability / group.probable if group.probable else None,
        weighted_mean=weighted,
    )


def _weighted_mean(
    connection: sqlite3.Connection, scope: EvaluationScope, key: tuple[str, str, str | None]
) -> float | None:
    """Return the mean of the scores of which each stands for as many as its chance says."""
    evaluator, kind, span_name = key
    where = scope._replace(evaluator=evaluator, span_name=None).of_evaluations(
        "evaluator_kind IS :kind", "span_name IS :of_span", "value < ''"
    )
    about = {
        **scope._asdict(), "evaluator": evaluator, "kind": kind, "of_span": span_name,
    }  # fmt: skip
    chance = f"ifnull({chance_of('evaluations')}, 1)"
    sql = f"SELECT sum(value / {chance}) / sum(1.0 / {chance}) FROM evaluations {where}"  # noqa: S608
    found: float | None = connection.execute(sql, about).fetchone()[0]
    return found


def _histogram(
    connection: sqlite3.Connection, scope: EvaluationScope, key: tuple[str, str, str | None],
    low: float | None, high: float | None,
) -> tuple[int, ...]:  # fmt: skip
    """Count the scores in each of ten equal parts of the range, as `bin_of` sorts them."""
    if low is None or high is None or not has_bins(low, high):
        return ()
    evaluator, kind, span_name = key
    where = scope._replace(evaluator=evaluator, span_name=None).of_evaluations(
        "evaluator_kind IS :kind", "span_name IS :of_span", "typeof(value) = 'real'"
    )
    about = {
        **scope._asdict(), "evaluator": evaluator, "kind": kind, "of_span": span_name,
        "low": low, "scale": BINS / ((high - low) or 1.0),
    }  # fmt: skip
    sql = f"SELECT group_concat({_digit(':low', ':scale')}, '') FROM evaluations {where}"  # noqa: S608
    (digits,) = connection.execute(sql, about).fetchone()
    return _histogram_of(digits or "")


def scores_by_span(connection: sqlite3.Connection, name: str) -> dict[str, float]:
    """Return an evaluator's scores by span id; of several of one span, the greatest."""
    scores: dict[str, float] = {}
    for span_id, value in connection.execute(_BY_SPAN, (name,)):
        if span_id not in scores or value > scores[span_id]:
            scores[span_id] = value
    return scores


_BY_SPAN = """
SELECT span_id, value FROM evaluations
WHERE name = ? AND typeof(value) IN ('real', 'integer') AND span_id != '' ORDER BY time_ns
"""
"""Rows were mostly written in the order of time, so neighbours share a page of the file.
In the order of values, nearly each row is on another page."""

# The newest evaluations of one evaluator.

MAX_SCORES = 20_000
"""How many scores of one evaluator a page sums up; it says so when it leaves out older ones."""
MAX_JUDGED = 10_000
MAX_REFUSED = 50_000
"""The largest numbers of judgements and of records without one that a page sums up of a judge."""


@dataclass(frozen=True, slots=True)
class RecentEvaluations:
    """The latest evaluations of one evaluator, newest first."""

    times: tuple[int, ...]
    values: tuple[StoredValue, ...]
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
    """The probabilities of a good outcome that decision models gave; newest first."""


def recent_evaluations(
    connection: sqlite3.Connection, name: str, since: int | None, *, judge: bool = False
) -> RecentEvaluations:
    """Return the evaluations since a time in nanoseconds, at most `MAX_SCORES`.

    Of a judge, decisions that its judge model has replaced are left out. No other evaluator has
    any, and without that condition an index answers alone.
    """
    arguments = {"name": name, "since": since or 0, "limit": MAX_SCORES + 1}
    rows = connection.execute(
        _RECENT_VERDICTS if judge else _RECENT_EVALUATIONS, arguments
    ).fetchall()
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


_NEWEST = is_newest("evaluations", ":name")
_RECENT_EVALUATIONS = f"""
SELECT time_ns, value FROM evaluations WHERE name = :name AND time_ns >= :since AND {_NEWEST}
ORDER BY time_ns DESC LIMIT :limit
"""  # noqa: S608 - constants
_RECENT_VERDICTS = f"""
SELECT time_ns, value FROM evaluations
WHERE name = :name AND time_ns >= :since AND {_NEWEST} AND {is_verdict("evaluations")}
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


# The tiers of a cascade: what decisions said and cost, and what the judge model changed.


@dataclass(slots=True)
class Tiers:
    """The decisions of one judge on the spans of one name, beside the verdicts of its model."""

    judge: str
    span_name: str | None
    eligible: int = 0
    """Records that were decided or judged, or that the store says could have been."""
    decided: int = 0
    judged: int = 0
    decision_mean: float | None = None
    """Mean probability of a good outcome over what was decided."""
    decision_cost_usd: float | None = None
    judge_cost_usd: float | None = None
    both: int = 0
    """Records on which both gave yes or no, or pass or fail."""
    changed: int = 0
    """Of `both`, those on which the judge model said otherwise."""
    to_good: int = 0
    """Of `changed`, those that the judge model found good."""
    unanswered: int = 0
    """Records on which the judge model failed, so that the decision counts."""
    left_out: int = 0
    """Records that were decided without the images or files of their request."""

    @property
    def shares(self) -> tuple[float, float]:
        """The parts of the eligible records that were decided and judged."""
        most = max(self.eligible, 1)
        return self.decided / most, self.judged / most


def tiers(
    connection: sqlite3.Connection, scope: EvaluationScope, parts: Iterable[Group]
) -> list[Tiers]:
    """Summarise every judge that a decision model was asked for, by span name.

    Args:
        connection: a store that is open.
        scope: which evaluations; its ``until`` is not used.
        parts: what `summary.groups` made of the scope.
    """
    about = {"since": scope.since, "evaluator": scope.evaluator, "span": scope.span_name}
    by_place: dict[tuple[str, str | None], Tiers] = {}
    has_decisions = any(part.evaluator_kind == "decision" for part in parts)
    for row in connection.execute(_PAIRS, about) if has_decisions else ():
        name, span, value, probability, cost, verdict, failed, judge_cost, left_out = row
        at = by_place.get((name, span))
        if at is None:
            at = by_place[name, span] = Tiers(name, span)
        _add_decision(at, probability, cost)
        at.left_out += bool(left_out)
        if verdict is not None or failed:
            _compare_answers(at, value, verdict, judge_cost, failed=bool(failed))
    for name, span, times in connection.execute(_LOST_DECISIONS, about):
        at = by_place.setdefault((name, span), Tiers(name, span))
        at.eligible += times
    return sorted(by_place.values(), key=lambda at: (at.judge, at.span_name or ""))


def _add_decision(at: Tiers, probability: float | None, cost: float | None) -> None:
    at.eligible += 1
    if cost is not None:
        at.decision_cost_usd = (at.decision_cost_usd or 0.0) + cost
    if probability is not None:
        at.decided += 1
        mean = at.decision_mean or 0.0
        at.decision_mean = mean + (probability - mean) / at.decided


def _compare_answers(
    at: Tiers, value: object, verdict: object, cost: float | None, *, failed: bool
) -> None:
    if cost is not None:
        at.judge_cost_usd = (at.judge_cost_usd or 0.0) + cost
    if failed:
        at.unanswered += 1
        return
    at.judged += 1
    before, after = values.number(value), values.number(verdict)
    if isinstance(value, float) or isinstance(verdict, float) or None in (before, after):
        return
    at.both += 1
    if before != after:
        at.changed += 1
        at.to_good += after == 1


_PAIRS = """
SELECT d.name, d.span_name, d.value, d.probability, d.cost_usd, j.value,
  j.error_type IS NOT NULL, j.cost_usd, instr(ifnull(d.metadata, ''), '"left_out"')
FROM evaluations d LEFT JOIN evaluations j
  ON j.span_id = d.span_id AND j.id = d.span_id || '-' || d.name AND j.evaluator_kind = 'judge'
WHERE d.evaluator_kind = 'decision' AND d.time_ns >= ifnull(:since, 0)
  AND ifnull(d.name = :evaluator, 1) AND ifnull(d.span_name = :span, 1)
"""

_LOST_DECISIONS = """
SELECT substr(n.evaluator, 1, length(n.evaluator) - 9), n.span_name, count(*) FROM not_run n
WHERE n.evaluator LIKE '%.decision' AND n.time_ns >= ifnull(:since, 0)
  AND n.reason NOT IN ('missing_inputs', 'cached')
  AND ifnull(n.evaluator = :evaluator || '.decision', 1) AND ifnull(n.span_name = :span, 1)
  AND NOT EXISTS (SELECT 1 FROM evaluations e WHERE e.span_id = n.span_id AND e.id = n.id)
GROUP BY 1, 2
"""
