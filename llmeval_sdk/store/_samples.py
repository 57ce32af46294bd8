"""Sums up in SQL what judges said, so that estimates about all traffic can be made.

The sums are exact, and those of a million verdicts take about a second: the index
``evaluations_summed`` holds everything that they need, in the order of the groups. `_verdicts`
reads single rows, for estimates that need to know the records.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Container, Iterable, Sequence
from typing import Any, TypeAlias

from llmeval_sdk.model import values
from llmeval_sdk.statistics.funnels import NOT_SELECTED
from llmeval_sdk.statistics.labels import PASS
from llmeval_sdk.store._judged import Judged, Sums
from llmeval_sdk.store._schema import WORD
from llmeval_sdk.store.groups import CHANCED, COUNTS, GROUP, EvaluationScope, Group, period_sql


Key = tuple[str, str | None, int | None]
"""A judge, a span name, and the beginning of a period in nanoseconds since the epoch."""


def groups_by_judge(
    parts: Iterable[Group], by_model: Container[str], *, every_kind: bool = False
) -> dict[str, list[Group]]:
    """Return the groups whose verdicts count, by judge.

    With ``every_kind`` those of heuristics and decisions count as well, except for the evaluators
    in ``by_model`` (see `judged_by_model`).
    """
    by_judge: dict[str, list[Group]] = {}
    for part in parts:
        if part.evaluator_kind == "judge" or (every_kind and part.name not in by_model):
            by_judge.setdefault(part.name, []).append(part)
    return by_judge


def judged(
    connection: sqlite3.Connection,
    scope: EvaluationScope,
    parts: Sequence[Group],
    *,
    period_ns: int = 0,
    every_kind: bool = False,
) -> dict[Key, Judged]:
    """Sum up what one judge said, by `Key`.

    Args:
        connection: a store that is open.
        scope: which evaluations; it names the judge.
        parts: the judge's groups, as `groups_by_judge` returns them.
        period_ns: the length of a period; 0 puts all times into one.
        every_kind: whether evaluations that no judge gave are summed up as well.
    """
    period = period_sql(period_ns)
    scored = any(part.word is None and part.values for part in parts)
    where = scope.where("name", "" if every_kind else "+evaluator_kind = 'judge'")
    weights = _weights(connection, parts, where, period)
    scores = where if scored else None
    summing = _Summing(connection, parts, weights, scores, period, every_kind=every_kind)
    samples = summing.run()
    if any(sample.is_out_of_scale for sample in samples.values()):
        whole = Judged()
        for sample in samples.values():
            whole.join(sample)
        samples = summing.run(whole.mean or 0.0)
    return samples


def add_passed_over(
    connection: sqlite3.Connection,
    scope: EvaluationScope,
    samples: dict[Key, Judged],
    period_ns: int = 0,
) -> None:
    """Add to the samples of all judges how many records they did not judge, and why."""
    origins = {key[0]: sample.origin for key, sample in samples.items()}
    condition, arguments = scope.where("evaluator")
    period = period_sql(period_ns)
    rows = connection.execute(
        _NOT_RUN.format(where=condition, period=period, by_period=_by(period)), arguments
    )
    for *key, reason, count in rows:
        judge, span_name, begin = key
        none = Judged(origins.get(judge, 0.0))
        sample = samples.setdefault((judge, span_name, begin), none)
        sample.reasons[reason] += count
        sample.passed_over += count if reason in NOT_SELECTED else 0


def judged_by_model(connection: sqlite3.Connection, parts: Iterable[Group]) -> set[str]:
    """Return the evaluators whose decisions do not count as verdicts.

    For these a judge model is considered as well: it answered, or the store says why it did not.
    See `effective.UNJUDGED`, which decides the same for one record.
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


_Weight: TypeAlias = tuple[int, float, float, float]
"""How many have an inclusion probability, the least of them, the sum of their inverses, and that of
the squares."""
_Weights: TypeAlias = dict[tuple[Any, ...], _Weight]
"""By group of a word."""


def _weights(
    connection: sqlite3.Connection,
    parts: Iterable[Group],
    where: tuple[str, tuple[Any, ...]],
    period: str,
) -> _Weights:
    """Return what the words of an evaluator weigh; nothing is read where all were judged."""
    if all(part.is_whole for part in parts if part.word is not None and part.known):
        return {}
    condition, arguments = where
    sql = _WEIGHTS.format(where=condition, period=period, by_period=_by(period))
    return {row[:6]: row[6:] for row in connection.execute(sql, arguments)}


class _Summing:
    """Makes samples of what one judge said: words from their groups, scores by statements."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        parts: Sequence[Group],
        weights: _Weights,
        scores: tuple[str, tuple[Any, ...]] | None,
        period: str,
        *,
        every_kind: bool,
    ) -> None:
        self._connection = connection
        self._parts = parts
        self._weights = weights
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
        for statement in self._statements():
            where, arguments = self._scores or ("", ())
            sql = statement.format(where=where, period=self._period, by_period=_by(self._period))
            # A numbered placeholder would take it once, but not in a sequence from Python 3.14 on.
            origins = (origin,) * sql.count("value - ?")
            for row in self._connection.execute(sql, (*origins, *arguments)):
                sample = at(*row[:3])
                sums = Sums(*row[5:])
                sample.answered += row[4] if self._every_kind else 0
                if sums.numbers:
                    sample.versions.add(row[3] or "")
                    sample.add(sums)
        return by_key

    def _statements(self) -> list[str]:
        """Return the statements that sum up all scores: the cheapest, where nothing was sampled."""
        if self._scores is None:
            return []
        scores = [part for part in self._parts if part.word is None and part.values]
        usable = all(
            part.known == part.values and part.low >= -1e100 and part.high <= 1e100
            for part in scores
        )
        if not usable:
            return [_SCORES, _OTHER_SCORES]
        return [_WHOLE_SCORES if all(part.is_whole for part in scores) else _SCORES]

    def _add(self, sample: Judged, part: Group) -> None:
        """Add what a group says by itself: its cost, and its verdicts if they are words."""
        if part.cost_usd is not None:
            sample.cost_usd = (sample.cost_usd or 0.0) + part.cost_usd
        count = part.rows - part.errors
        if part.word is None:
            sample.answered += 0 if self._every_kind else count
            return
        sample.answered += count
        number = values.number(part.word)
        if number is None:
            sample.categories[part.word] += count
        elif count:
            y, passes = number - sample.origin, number >= PASS
            sums = Sums(count, number, number, count * y)
            known, least, w, ww = self._weight(part)
            if known:
                sums = Sums(
                    *sums[:4], known, least, w, ww, w * y, ww * y,
                    ww * y * y, known * passes, w * passes,
                )  # fmt: skip
            sample.versions.add(part.version or "")
            sample.add(sums)

    def _weight(self, part: Group) -> _Weight:
        """Return what the words of a group weigh; rows may have gone since the groups were read."""
        known = part.known or 0
        if part.is_whole:
            return known, 1.0, float(known), float(known)
        return self._weights.get(part[:6], (0, 1.0, 0.0, 0.0))


def _by(period: str) -> str:
    """Return what the statements group by after all else."""
    return "" if period == "NULL" else f", {period}"


_IS_USABLE = "value BETWEEN -1e100 AND 1e100"
"""The square of such a score is a number; only a file made by hand holds others."""

_WEIGHTS = f"""
SELECT {GROUP}, {{period}}, {WORD}, count(*), min(inclusion_probability),
  sum(1 / inclusion_probability), sum(1 / (inclusion_probability * inclusion_probability))
FROM evaluations {{where}} AND {WORD} IS NOT NULL AND {COUNTS}
GROUP BY {GROUP}, {WORD} {{by_period}}
"""  # noqa: S608 - constants

_SCORES = f"""
SELECT name, span_name, {{period}}, evaluator_version, count(*),
  count(*), min(value), max(value), sum(value - ?), count(*), min(inclusion_probability),
  sum(1 / inclusion_probability), sum(1 / (inclusion_probability * inclusion_probability)),
  sum((value - ?) / inclusion_probability),
  sum((value - ?) / (inclusion_probability * inclusion_probability)),
  sum((value - ?) * (value - ?) / (inclusion_probability * inclusion_probability)),
  sum(value >= {PASS}), sum((value >= {PASS}) / inclusion_probability)
FROM evaluations {{where}} AND error_type IS NULL AND typeof(value) = 'real'
  AND {CHANCED} AND {_IS_USABLE}
GROUP BY {GROUP} {{by_period}}
"""  # noqa: S608

_WHOLE_SCORES = f"""
SELECT name, span_name, period, evaluator_version, count, count, low, high, total, count, 1.0,
  count, count, total, total, squares, passed, passed
FROM (
  SELECT name, span_name, {{period}} AS period, evaluator_version, count(*) AS count,
    min(value) AS low, max(value) AS high, sum(value - ?) AS total,
    sum((value - ?) * (value - ?)) AS squares, sum(value >= {PASS}) AS passed
  FROM evaluations {{where}} AND error_type IS NULL AND typeof(value) = 'real'
  GROUP BY {GROUP} {{by_period}}
)
"""  # noqa: S608
"""The same where every inclusion probability is 1: a division by it costs as much as all else."""

_OTHER_SCORES = f"""
SELECT name, span_name, {{period}}, evaluator_version, count(*),
  sum({_IS_USABLE}), min(CASE WHEN {_IS_USABLE} THEN value END),
  max(CASE WHEN {_IS_USABLE} THEN value END), sum(CASE WHEN {_IS_USABLE} THEN value - ? END)
FROM evaluations {{where}} AND error_type IS NULL AND typeof(value) = 'real'
  AND NOT (ifnull({CHANCED}, 0) AND {_IS_USABLE})
GROUP BY {GROUP} {{by_period}}
"""  # noqa: S608
"""Scores without an inclusion probability, and what no estimate can use."""

_NOT_RUN = """
SELECT evaluator, span_name, {period}, reason, count(*) FROM not_run {where}
GROUP BY evaluator, span_name, reason {by_period} ORDER BY min(seq)
"""
