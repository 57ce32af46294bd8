"""What judges said in a store, summed up by SQL so that estimates about all traffic can be made.

The sums are exact, and those of a million verdicts take about a second, because the index
``evaluations_summed`` holds all that they need in the order in which it is grouped. `verdicts`
reads single rows, for the estimates that need to know the record.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

from llmeval_sdk import _values
from llmeval_sdk.estimates.correction import PASS
from llmeval_sdk.estimates.funnel import NOT_SELECTED
from llmeval_sdk.estimates.tally import Tally
from llmeval_sdk.store.schema import WORD
from llmeval_sdk.store.summary import Scope


Key = tuple[str, str | None, int | None]
"""A judge, a span name, and the beginning of a period in nanoseconds since the epoch."""
LEAST_CHANCE = 1e-9
"""A smaller inclusion probability is none: one record would outweigh all others."""


@dataclass(slots=True)
class Judged:
    """What one judge said, and did not say, about the spans of one name in one period."""

    origin: float = 0.0
    """What is subtracted from each verdict in `tally`, to keep the sums of large ones exact."""
    tally: Tally = field(default_factory=Tally)
    """Sums over the verdicts that are numbers and have an inclusion probability."""
    passed: int = 0
    """How many of those are passes."""
    passed_weight: float = 0.0
    """The sum of the inverses of the inclusion probabilities of the passes."""
    low: float = inf
    high: float = -inf
    """The range of those verdicts."""
    numbers: int = 0
    """How many verdicts are numbers, with an inclusion probability or without."""
    total: float = 0.0
    """The sum of those, less `origin` each."""
    is_out_of_scale: bool = False
    """Whether any of them is outside 0..1."""
    passed_over: int = 0
    """How many records were not escalated or not sampled."""
    categories: Counter[str] = field(default_factory=Counter)
    """How often it gave each word that is no number, including neutral ones such as ``skipped``."""
    answered: int = 0
    """How many judgements have no error, whether or not they are numbers."""
    reasons: Counter[str] = field(default_factory=Counter)
    cost_usd: float | None = None
    versions: set[str] = field(default_factory=set)
    """The versions of the judge that gave these verdicts."""

    @property
    def mean(self) -> float | None:
        """The plain mean of the verdicts that are numbers."""
        return self.total / self.numbers + self.origin if self.numbers else None

    def join(self, other: Judged) -> None:
        """Add what the same judge said in another period or about spans of another name."""
        self.origin = other.origin
        self.tally.join(other.tally)
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.is_out_of_scale |= other.is_out_of_scale
        for name in ("passed", "passed_weight", "numbers", "total", "passed_over", "answered"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.categories += other.categories
        self.reasons += other.reasons
        self.versions |= other.versions
        self.pay(other.cost_usd)

    def pay(self, cost_usd: float | None) -> None:
        """Add the cost of some judgements, where it is known."""
        if cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + cost_usd

    def add(self, sums: _Sums) -> None:
        """Add verdicts that are numbers, with an inclusion probability each or without."""
        self.numbers += sums.numbers
        self.total += sums.total
        self.is_out_of_scale |= sums.low < 0 or sums.high > 1
        if sums.known:
            self.low, self.high = min(self.low, sums.low), max(self.high, sums.high)
            self.passed += sums.passed
            self.passed_weight += sums.passed_weight
            self.tally.join(
                Tally(
                    count=sums.known, judged=sums.known, heaviest=1 / sums.least_chance,
                    w=sums.w, wy=sums.wy, ww=sums.ww, wwy=sums.wwy, wwyy=sums.wwyy,
                )
            )  # fmt: skip


class _Sums(NamedTuple):
    """What some verdicts add up to, as statements below return it; y is a verdict less the origin.

    If only some of them have an inclusion probability, what follows ``known`` is of those.
    """

    numbers: int
    low: float
    high: float
    total: float
    known: int = 0
    least_chance: float = 1.0
    w: float = 0.0
    ww: float = 0.0
    wy: float = 0.0
    wwy: float = 0.0
    wwyy: float = 0.0
    passed: int = 0
    passed_weight: float = 0.0


def judged(
    connection: sqlite3.Connection, scope: Scope, *, period_ns: int = 0, every_kind: bool = False
) -> dict[Key, Judged]:
    """Sum up what judges said, and count the records they did not judge, by `Key`.

    Args:
        connection: a store that is open.
        scope: which evaluations, and which judgements that did not run.
        period_ns: the length of a period; 0 puts all times into one.
        every_kind: whether heuristics are summed up as well as judges.
    """
    summing = _Summing(connection, scope, period_ns, every_kind=every_kind)
    by_key = summing.run()
    for name in {key[0] for key, sample in by_key.items() if sample.is_out_of_scale}:
        whole = Judged()
        for key, sample in by_key.items():
            if key[0] == name:
                whole.join(sample)
        mine = scope._replace(evaluator=name)
        again = _Summing(connection, mine, period_ns, every_kind=every_kind, origin=whole.mean)
        by_key |= again.run()
    return dict(sorted(by_key.items(), key=lambda item: tuple(str(part or "") for part in item[0])))


class _Summing:
    """One way through the statements below, which give their rows to the sample of their key."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        scope: Scope,
        period_ns: int,
        *,
        every_kind: bool,
        origin: float | None = None,
    ) -> None:
        self._connection = connection
        self._period = f"time_ns - time_ns % {int(period_ns)}" if period_ns else "NULL"
        self._by_period = f", {self._period}" if period_ns else ""
        self._scored = scope.where("name", "" if every_kind else "+evaluator_kind = 'judge'")
        self._not_run = scope.where("evaluator")
        self._every_kind = every_kind
        self._origin = origin or 0.0
        self._by_key: dict[Key, Judged] = {}

    def run(self) -> dict[Key, Judged]:
        """Sum up all that the scope holds."""
        self._add_words()
        self._add_scores()
        for *key, cost in self._rows(_FAILED, self._scored):
            self._at(key).pay(cost)
        for *key, reason, count in self._rows(_NOT_RUN, self._not_run):
            sample = self._at(key)
            sample.reasons[reason] += count
            sample.passed_over += count if reason in NOT_SELECTED else 0
        return self._by_key

    def _add_words(self) -> None:
        for row in self._rows(_WORDS, self._scored):
            version, word, cost, count, known, least, w, ww = row[3:]
            sample = self._at(row[:3])
            sample.pay(cost)
            sample.answered += count if word is not None or not self._every_kind else 0
            number = _values.number(word)
            if number is not None:
                y, passes = number - self._origin, number >= PASS
                sums = _Sums(count, number, number, count * y)
                if known:
                    sums = _Sums(
                        *sums[:4], known, least, w, ww, w * y, ww * y, ww * y * y,
                        known * passes, w * passes,
                    )  # fmt: skip
                sample.versions.add(version or "")
                sample.add(sums)
            elif isinstance(word, str):
                sample.categories[word] += count

    def _add_scores(self) -> None:
        for statement in (_SCORES, _OTHER_SCORES):
            for row in self._rows(statement, self._scored, self._origin):
                version, cost, count = row[3:6]
                sample = self._at(row[:3])
                sample.pay(cost)
                sample.answered += count
                sums = _Sums(*row[6:])
                if sums.numbers:
                    sample.versions.add(version or "")
                    sample.add(sums)

    def _rows(
        self, statement: str, where: tuple[str, tuple[Any, ...]], *parameters: float
    ) -> Iterator[Any]:
        condition, arguments = where
        sql = statement.format(where=condition, period=self._period, by_period=self._by_period)
        return self._connection.execute(sql, (*parameters, *arguments))

    def _at(self, key: Any) -> Judged:
        name, span_name, period = key
        sample = self._by_key.get((name, span_name, period))
        if sample is None:
            sample = self._by_key[name, span_name, period] = Judged(self._origin)
        return sample


GROUP = "name, span_name, evaluator_kind, evaluator_version"
"""The beginning of the index, in whose order nothing has to be sorted.

A condition such as ``evaluator_kind = 'judge'`` needs a ``+`` before the column: SQLite 3.40 leaves a
column that is constant out of the grouping, and then takes the rest to be in no order.
"""
HAS_CHANCE = f"inclusion_probability > {LEAST_CHANCE}"
_IS_USABLE = "value BETWEEN -1e100 AND 1e100"
"""The square of such a score is a number; only a file made by hand holds others."""

_WORDS = f"""
SELECT name, span_name, {{period}}, evaluator_version, {WORD}, sum(cost_usd), count(*),
  sum({HAS_CHANCE}), min(CASE WHEN {HAS_CHANCE} THEN inclusion_probability END),
  sum(CASE WHEN {HAS_CHANCE} THEN 1 / inclusion_probability END),
  sum(CASE WHEN {HAS_CHANCE} THEN 1 / (inclusion_probability * inclusion_probability) END)
FROM evaluations {{where}} AND error_type IS NULL AND typeof(value) != 'real'
GROUP BY {GROUP}, {WORD} {{by_period}}
"""  # noqa: S608 - constants
"""Verdicts that are no scores, by word: passes and fails too, which are stored as 1 and 0."""

_SCORES = f"""
SELECT name, span_name, {{period}}, evaluator_version, sum(cost_usd), count(*),
  count(*), min(value), max(value), sum(value - ?1), count(*), min(inclusion_probability),
  sum(1 / inclusion_probability), sum(1 / (inclusion_probability * inclusion_probability)),
  sum((value - ?1) / inclusion_probability),
  sum((value - ?1) / (inclusion_probability * inclusion_probability)),
  sum((value - ?1) * (value - ?1) / (inclusion_probability * inclusion_probability)),
  sum(value >= {PASS}), sum((value >= {PASS}) / inclusion_probability)
FROM evaluations {{where}} AND error_type IS NULL AND typeof(value) = 'real'
  AND {HAS_CHANCE} AND {_IS_USABLE}
GROUP BY {GROUP} {{by_period}}
"""  # noqa: S608

_OTHER_SCORES = f"""
SELECT name, span_name, {{period}}, evaluator_version, sum(cost_usd), count(*),
  sum({_IS_USABLE}), min(CASE WHEN {_IS_USABLE} THEN value END),
  max(CASE WHEN {_IS_USABLE} THEN value END), sum(CASE WHEN {_IS_USABLE} THEN value - ?1 END)
FROM evaluations {{where}} AND error_type IS NULL AND typeof(value) = 'real'
  AND NOT (ifnull({HAS_CHANCE}, 0) AND {_IS_USABLE})
GROUP BY {GROUP} {{by_period}}
"""  # noqa: S608
"""Scores without an inclusion probability, and what no estimate can use."""

_FAILED = f"""
SELECT name, span_name, {{period}}, sum(cost_usd)
FROM evaluations {{where}} AND error_type IS NOT NULL AND cost_usd IS NOT NULL
GROUP BY {GROUP} {{by_period}}
"""  # noqa: S608

_NOT_RUN = """
SELECT evaluator, span_name, {period}, reason, count(*) FROM not_run {where}
GROUP BY evaluator, span_name, reason {by_period} ORDER BY min(seq)
"""
