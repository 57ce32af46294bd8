"""What judges said in a store, summed up by SQL so that estimates about all traffic can be made.

The sums are exact, and those of a million verdicts take about a second, because the index
``evaluations_summed`` holds all that they need in the order in which it is grouped. `_verdicts`
reads single rows, for the estimates that need to know the record.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

from llmeval_sdk import _values
from llmeval_sdk.estimates.correction import PASS
from llmeval_sdk.estimates.funnels import NOT_SELECTED
from llmeval_sdk.estimates.tally import Tally
from llmeval_sdk.store.summary import GROUP, LEAST_CHANCE, EvaluationScope, Group


Key = tuple[str, str | None, int | None]
"""A judge, a span name, and the beginning of a period in nanoseconds since the epoch."""


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
        if other.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + other.cost_usd

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
    connection: sqlite3.Connection,
    scope: EvaluationScope,
    parts: Iterable[Group],
    *,
    period_ns: int = 0,
    every_kind: bool = False,
) -> dict[Key, Judged]:
    """Sum up what judges said, and count the records they did not judge, by `Key`.

    Args:
        connection: a store that is open.
        scope: which evaluations, and which judgements that did not run.
        parts: what `summary.groups` made of it.
        period_ns: the length of a period; 0 puts all times into one.
        every_kind: whether heuristics are summed up as well as judges.
    """
    parts = list(parts)
    by_model = judged_by_model(connection, parts)
    mine = [
        part
        for part in parts
        if part.evaluator_kind == "judge" or (every_kind and part.name not in by_model)
    ]
    by_name: dict[str, list[Group]] = {part.name: [] for part in mine}
    for part in mine:
        by_name[part.name].append(part)
    by_key: dict[Key, Judged] = {}
    origins: dict[str, float] = {}
    period = f"time_ns - time_ns % {int(period_ns)}" if period_ns else "NULL"
    for name, of_name in by_name.items():
        scored = any(part.word is None and part.values for part in of_name)
        all_kinds = every_kind and name not in by_model
        kind = "" if all_kinds else "+evaluator_kind = 'judge'"
        where = scope._replace(evaluator=name).where("name", kind) if scored else None
        summing = _Summing(connection, of_name, where, period, every_kind=all_kinds)
        samples = summing.run()
        if any(sample.is_out_of_scale for sample in samples.values()):
            whole = Judged()
            for sample in samples.values():
                whole.join(sample)
            origins[name] = whole.mean or 0.0
            samples = summing.run(origins[name])
        by_key |= samples
    condition, arguments = scope.where("evaluator")
    rows = connection.execute(
        _NOT_RUN.format(where=condition, period=period, by_period=_by(period)), arguments
    )
    for *key, reason, count in rows:
        judge, span_name, begin = key
        none = Judged(origins.get(judge, 0.0))
        sample = by_key.setdefault((judge, span_name, begin), none)
        sample.reasons[reason] += count
        sample.passed_over += count if reason in NOT_SELECTED else 0
    return dict(sorted(by_key.items(), key=lambda item: tuple(str(part or "") for part in item[0])))


def judged_by_model(connection: sqlite3.Connection, parts: Iterable[Group]) -> set[str]:
    """Return the evaluators whose decisions are no verdicts: a judge model is considered as well.

    It answered, or is said not to have. See `effective.UNJUDGED`, which says so for one record.
    """
    kinds: dict[str, set[str]] = {}
    for part in parts:
        kinds.setdefault(part.name, set()).add(part.evaluator_kind)
    return {
        name
        for name, its in kinds.items()
        if "decision" in its
        and ("judge" in its or connection.execute(_IS_CONSIDERED, (name,)).fetchone())
    }


_IS_CONSIDERED = "SELECT 1 FROM not_run WHERE evaluator = ? LIMIT 1"


class _Summing:
    """Makes samples of what one judge said: words from their groups, scores by statements."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        parts: Sequence[Group],
        scores: tuple[str, tuple[Any, ...]] | None,
        period: str,
        *,
        every_kind: bool,
    ) -> None:
        self._connection = connection
        self._parts = parts
        self._scores = scores
        """The condition for the statements, and its arguments, where there are any scores."""
        self._period = period
        self._every_kind = every_kind

    def run(self, origin: float = 0.0) -> dict[Key, Judged]:
        """Sum up all verdicts, less the origin each."""
        by_key: dict[Key, Judged] = {}

        def at(name: str, span_name: str | None, period: int | None) -> Judged:
            return by_key.setdefault((name, span_name, period), Judged(origin))

        for part in self._parts:
            self._add(at(part.name, part.span_name, part.period), part)
        for statement in (_SCORES, _OTHER_SCORES):
            if self._scores is None or (statement is _OTHER_SCORES and self._is_plain()):
                continue
            where, arguments = self._scores
            sql = statement.format(where=where, period=self._period, by_period=_by(self._period))
            for row in self._connection.execute(sql, (origin, *arguments)):
                sample = at(*row[:3])
                sums = _Sums(*row[5:])
                sample.answered += row[4] if self._every_kind else 0
                if sums.numbers:
                    sample.versions.add(row[3] or "")
                    sample.add(sums)
        return by_key

    def _is_plain(self) -> bool:
        """Say whether all scores are usable and have an inclusion probability."""
        return all(
            part.known == part.values and part.low >= -1e100 and part.high <= 1e100
            for part in self._parts
            if part.word is None and part.values
        )

    def _add(self, sample: Judged, part: Group) -> None:
        """Add what a group says by itself: its cost, and its verdicts if they are words."""
        if part.cost_usd is not None:
            sample.cost_usd = (sample.cost_usd or 0.0) + part.cost_usd
        count = part.rows - part.errors
        if part.word is None:
            sample.answered += 0 if self._every_kind else count
            return
        sample.answered += count
        number = _values.number(part.word)
        if number is None:
            sample.categories[part.word] += count
        elif count:
            y, passes = number - sample.origin, number >= PASS
            sums = _Sums(count, number, number, count * y)
            if part.known:
                w, ww = part.w or 0.0, part.ww or 0.0
                sums = _Sums(
                    *sums[:4], part.known, part.least_chance or 1.0, w, ww, w * y, ww * y,
                    ww * y * y, part.known * passes, w * passes,
                )  # fmt: skip
            sample.versions.add(part.version or "")
            sample.add(sums)


def _by(period: str) -> str:
    """Return what the statements group by after all else."""
    return "" if period == "NULL" else f", {period}"


HAS_CHANCE = f"inclusion_probability > {LEAST_CHANCE}"
_IS_USABLE = "value BETWEEN -1e100 AND 1e100"
"""The square of such a score is a number; only a file made by hand holds others."""

_SCORES = f"""
SELECT name, span_name, {{period}}, evaluator_version, count(*),
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
SELECT name, span_name, {{period}}, evaluator_version, count(*),
  sum({_IS_USABLE}), min(CASE WHEN {_IS_USABLE} THEN value END),
  max(CASE WHEN {_IS_USABLE} THEN value END), sum(CASE WHEN {_IS_USABLE} THEN value - ?1 END)
FROM evaluations {{where}} AND error_type IS NULL AND typeof(value) = 'real'
  AND NOT (ifnull({HAS_CHANCE}, 0) AND {_IS_USABLE})
GROUP BY {GROUP} {{by_period}}
"""  # noqa: S608
"""Scores without an inclusion probability, and what no estimate can use."""

_NOT_RUN = """
SELECT evaluator, span_name, {period}, reason, count(*) FROM not_run {where}
GROUP BY evaluator, span_name, reason {by_period} ORDER BY min(seq)
"""
