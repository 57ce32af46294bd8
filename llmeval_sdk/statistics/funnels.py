"""Who was judged and why not, as a funnel: eligible, selected, budgeted, run, scored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


NOT_ELIGIBLE = frozenset({"missing_inputs", "no_judge_model"})
NOT_SELECTED = frozenset({"not_escalated", "not_sampled"})
NOT_BUDGETED = frozenset({"over_budget"})
FAILED = frozenset({"timeout", "error", "worker_lost"})
"""Reasons of judgements that began and gave nothing; every other one kept a judge from beginning,
but ``cached``, which says where a score came from."""
STEPS = ("eligible", "selected", "budgeted", "run", "scored")
"""The steps of a `Funnel`, from cheap to paid."""


@dataclass(frozen=True, slots=True)
class Funnel:
    """How many records were left after each step, from cheap to paid; each number is in the next.

    ``scored`` counts judgements with a verdict, ``run`` also those that failed, ``budgeted`` those
    that the budget let through, ``selected`` those that escalation and sampling let through and
    ``eligible`` all records that the judge could have judged.
    """

    eligible: int = 0
    selected: int = 0
    budgeted: int = 0
    run: int = 0
    scored: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    """How often it did not run, or gave nothing, by reason; also before `eligible`."""

    def __str__(self) -> str:
        return " > ".join(f"{getattr(self, step):,}" for step in STEPS)


def funnel(scored: int, reasons: Mapping[str, int]) -> Funnel:
    """Make the funnel of one judge: what it scored, and how often it did not for what reason."""

    def lost(group: frozenset[str]) -> int:
        return sum(times for reason, times in reasons.items() if reason in group)

    run = scored + lost(FAILED)
    known = NOT_ELIGIBLE | NOT_SELECTED | NOT_BUDGETED | FAILED | {"cached"}
    budgeted = run + lost(frozenset(reasons) - known)
    selected = budgeted + lost(NOT_BUDGETED)
    return Funnel(selected + lost(NOT_SELECTED), selected, budgeted, run, scored, dict(reasons))
