"""Whether a judge may run on a record: admitted with this chance, or refused for this reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args


NotRunReason = Literal[
    "missing_inputs",
    "no_judge_model",
    "not_escalated",
    "not_sampled",
    "cached",
    "over_budget",
    "circuit_open",
    "queue_full",
    "no_worker",
    "not_installed",
    "worker_lost",
    "timeout",
    "error",
    "shutdown",
]

NOT_RUN_REASONS: tuple[NotRunReason, ...] = get_args(NotRunReason)
"""Every reason why a judge did not run (or gave no result), in the order they are decided."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """A judge may run on a record."""

    probability: float
    """Chance that it was let through, over all such records: in 0..1, above 0."""
    why: str
    escalated: bool = False
    """True where an escalation let it through: it goes before those that run on every record."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A judge does not run on a record."""

    reason: NotRunReason
    detail: str
    retry_after: float | None = None
    """Seconds until asking again may succeed; ``None`` when waiting does not help."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """What one escalation says about one record."""

    run: bool
    probability: float
    """Chance of ``run``: 1 where the condition holds, else the control rate."""
    why: str
