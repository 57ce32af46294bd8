"""Whether a judge may run on a record: admitted with this chance, or refused for this reason."""

from __future__ import annotations

from dataclasses import dataclass

from llmeval_sdk.statistics.reasons import NotRunReason


@dataclass(frozen=True, slots=True)
class Admitted:
    """The decision that a judge may run on a record."""

    probability: float
    """The chance that such a record is admitted, above 0 and at most 1."""
    why: str
    escalated: bool = False
    """Whether an escalation admitted it. Such records are judged before those that all are."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The decision that a judge does not run on a record, and why."""

    reason: NotRunReason
    detail: str
    retry_after: float | None = None
    """Seconds after which asking again may succeed; ``None`` if waiting does not help."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """What one escalation decides about one record."""

    run: bool
    probability: float
    """The chance that ``run`` is true: 1 if the condition holds, else the control rate."""
    why: str
