"""The judged records of a store, collected so that estimates about all traffic can be made."""

from __future__ import annotations

import sqlite3
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from llmeval_sdk import _values


Key = tuple[str, str | None, int | None]
"""A judge, a span name, and the beginning of a period in nanoseconds since the epoch."""
Row = tuple[Any, ...]


@dataclass(slots=True)
class Judged:
    """What one judge said, and did not say, about the spans of one name in one period."""

    values: list[float] = field(default_factory=list)
    """The scores, with 1 for pass and yes and 0 for fail and no."""
    chances: list[float] = field(default_factory=list)
    """The inclusion probability of each value; 0 stands for an unknown one."""
    span_ids: list[str] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)
    """The ids of the spans that were not escalated or not sampled."""
    categories: Counter[str] = field(default_factory=Counter)
    """How often it gave each word that is no number, including neutral ones such as ``skipped``."""
    answered: int = 0
    """How many judgements have no error, whether or not they are numbers."""
    reasons: Counter[str] = field(default_factory=Counter)
    cost_usd: float | None = None
    versions: set[str] = field(default_factory=set)
    """The versions of the judge that gave these verdicts."""

    def add(self, other: Judged) -> None:
        """Add what the judge said in another period or about spans of another name."""
        self.values += other.values
        self.chances += other.chances
        self.span_ids += other.span_ids
        self.passed_over += other.passed_over
        self.categories += other.categories
        self.answered += other.answered
        self.reasons += other.reasons
        self.versions |= other.versions
        if other.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + other.cost_usd


def judged(  # noqa: C901
    connection: sqlite3.Connection,
    scores: tuple[str, Row],
    not_run: tuple[str, Row],
    *,
    period_ns: int = 0,
    every_kind: bool = False,
) -> dict[Key, Judged]:
    """Collect what judges said, and which records they did not judge, by `Key`.

    Args:
        connection: a store that is open.
        scores: SQL that selects evaluations, and its arguments.
        not_run: SQL that selects judgements that did not run, and its arguments.
        period_ns: the length of a period; 0 puts all times into one.
        every_kind: whether heuristics are collected as well as judges.
    """
    by_key: dict[Key, Judged] = {}

    def at(name: str, span_name: str | None, time_ns: int) -> Judged:
        key = name, span_name, time_ns - time_ns % period_ns if period_ns else None
        if (sample := by_key.get(key)) is None:
            sample = by_key[key] = Judged()
        return sample

    kind = "" if every_kind else "AND evaluator_kind = 'judge'"
    where, arguments = scores
    numbers: dict[Any, float | None] = {}
    for (
        name,
        span_name,
        time_ns,
        span_id,
        value,
        failed,
        chance,
        cost,
        version,
    ) in connection.execute(_JUDGED.format(where or "WHERE 1", kind), arguments):
        sample = at(name, span_name, time_ns)
        if cost is not None:
            sample.cost_usd = (sample.cost_usd or 0.0) + cost
        sample.answered += not failed and (value is not None or not every_kind)
        if failed:
            continue
        if type(value) is float:
            number = _values.number(value)
        elif value in numbers:
            number = numbers[value]
        else:
            number = numbers[value] = _values.number(value)
        if number is not None:
            sample.versions.add(version or "")
            sample.values.append(number)
            sample.chances.append(chance or 0.0)
            sample.span_ids.append(span_id)
        elif isinstance(value, str):
            sample.categories[value] += 1
    where, arguments = not_run
    for name, span_name, time_ns, span_id, reason in connection.execute(
        _NOT_RUN.format(where), arguments
    ):
        sample = at(name, span_name, time_ns)
        sample.reasons[reason] += 1
        if reason in ("not_escalated", "not_sampled"):
            sample.passed_over.append(span_id)
    return dict(sorted(by_key.items(), key=lambda item: tuple(str(part or "") for part in item[0])))


def scores_by_span(connection: sqlite3.Connection, name: str) -> dict[str, float]:
    """Return an evaluator's scores by span id."""
    rows = connection.execute(_BY_SPAN, (name,))
    return {span_id: float(value) for span_id, value in rows}


_JUDGED = """
SELECT name, span_name, time_ns, span_id, value, error_type IS NOT NULL, inclusion_probability,
  cost_usd, evaluator_version
FROM evaluations {} {}
"""

_NOT_RUN = "SELECT evaluator, span_name, time_ns, span_id, reason FROM not_run {}"

_BY_SPAN = """
SELECT span_id, value FROM evaluations
WHERE name = ? AND typeof(value) IN ('real', 'integer') AND span_id != ''
"""
