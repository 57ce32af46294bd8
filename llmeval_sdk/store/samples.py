"""What is needed to say something about all traffic from the records that were judged."""

from __future__ import annotations

import sqlite3
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from llmeval_sdk import _values


Key = tuple[str, str | None, int | None]
"""Judge, span name and where its period began, in nanoseconds since the epoch."""
Row = tuple[Any, ...]


@dataclass(slots=True)
class Judged:
    """One judge on the spans of one name in one period."""

    values: list[float] = field(default_factory=list)
    """Numbers: scores, and 1 or 0 for pass, fail, yes and no."""
    chances: list[float] = field(default_factory=list)
    """The inclusion probability of each value; 0 where it is unknown."""
    span_ids: list[str] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)
    """The spans that were not escalated or not sampled."""
    categories: Counter[str] = field(default_factory=Counter)
    """How often it answered a word that is no number; neutral ones, such as skipped, included."""
    answered: int = 0
    """Judgements without an error, also those that are no number."""
    reasons: Counter[str] = field(default_factory=Counter)
    cost_usd: float | None = None
    versions: set[str] = field(default_factory=set)
    """The versions of the judge whose verdicts these are."""

    def add(self, other: Judged) -> None:
        """Join in another period, or another span name."""
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
    """Collect judgements, and the records without one, by judge, span name and period.

    ``scores`` and ``not_run`` are conditions with their arguments; a ``period_ns`` of 0 is one
    period for all. Heuristics count as judges with ``every_kind``.
    """
    found: dict[Key, Judged] = {}

    def at(name: str, span_name: str | None, time_ns: int) -> Judged:
        key = name, span_name, time_ns - time_ns % period_ns if period_ns else None
        if (each := found.get(key)) is None:
            each = found[key] = Judged()
        return each

    kind = "" if every_kind else "AND evaluator_kind = 'judge'"
    where, given = scores
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
    ) in connection.execute(_JUDGED.format(where or "WHERE 1", kind), given):
        each = at(name, span_name, time_ns)
        if cost is not None:
            each.cost_usd = (each.cost_usd or 0.0) + cost
        each.answered += not failed and (value is not None or not every_kind)
        if failed:
            continue
        if type(value) is float:
            number = _values.number(value)
        elif value in numbers:
            number = numbers[value]
        else:
            number = numbers[value] = _values.number(value)
        if number is not None:
            each.versions.add(version or "")
            each.values.append(number)
            each.chances.append(chance or 0.0)
            each.span_ids.append(span_id)
        elif isinstance(value, str):
            each.categories[value] += 1
    where, given = not_run
    for name, span_name, time_ns, span_id, reason in connection.execute(
        _NOT_RUN.format(where), given
    ):
        each = at(name, span_name, time_ns)
        each.reasons[reason] += 1
        if reason in ("not_escalated", "not_sampled"):
            each.passed_over.append(span_id)
    return dict(sorted(found.items(), key=lambda item: tuple(str(part or "") for part in item[0])))


def scores_by_span(connection: sqlite3.Connection, name: str) -> dict[str, float]:
    """Return an evaluator's scores by span."""
    found = connection.execute(_BY_SPAN, (name,))
    return {span_id: float(value) for span_id, value in found}


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
