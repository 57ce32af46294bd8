"""What each tier of a cascade said and cost, and what the judge model changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from llmeval_sdk.model import values
from llmeval_sdk.store.scores import EvaluationScope, Group


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
        _add(at, probability, cost)
        at.left_out += bool(left_out)
        if verdict is not None or failed:
            _compare(at, value, verdict, judge_cost, failed=bool(failed))
    for name, span, times in connection.execute(_LOST, about):
        at = by_place.setdefault((name, span), Tiers(name, span))
        at.eligible += times
    return sorted(by_place.values(), key=lambda at: (at.judge, at.span_name or ""))


def _add(at: Tiers, probability: float | None, cost: float | None) -> None:
    at.eligible += 1
    if cost is not None:
        at.decision_cost_usd = (at.decision_cost_usd or 0.0) + cost
    if probability is not None:
        at.decided += 1
        mean = at.decision_mean or 0.0
        at.decision_mean = mean + (probability - mean) / at.decided


def _compare(
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

_LOST = """
SELECT substr(n.evaluator, 1, length(n.evaluator) - 9), n.span_name, count(*) FROM not_run n
WHERE n.evaluator LIKE '%.decision' AND n.time_ns >= ifnull(:since, 0)
  AND n.reason NOT IN ('missing_inputs', 'cached')
  AND ifnull(n.evaluator = :evaluator || '.decision', 1) AND ifnull(n.span_name = :span, 1)
  AND NOT EXISTS (SELECT 1 FROM evaluations e WHERE e.span_id = n.span_id AND e.id = n.id)
GROUP BY 1, 2
"""
