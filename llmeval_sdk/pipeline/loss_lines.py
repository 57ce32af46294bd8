"""Says in the log, once a minute at most, what was lost: how much, why, and what helps.

What a far end refused stands in the line of its exporter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic
from typing import TYPE_CHECKING

from llmeval_sdk.process.shield import INTERVAL_SECONDS, tell
from llmeval_sdk.statistics.reasons import LOSSES, explain, explain_loss


if TYPE_CHECKING:
    from llmeval_sdk.pipeline.stats import Stats

    Lost = Mapping[str, Mapping[str, int]]
    """How many records are lost, by exporter and reason."""


LOOK_SECONDS = 1.0
"""How often it is looked whether something was lost."""
MAX_REASONS = 3
"""How many reasons a line names: those of the most records."""


class LossLines:
    """Tells of losses that are new, in one line for all exporters and reasons."""

    def __init__(self) -> None:
        self._due = 0.0
        self._known: Lost = {}

    def look(self, stats: Callable[[], Stats]) -> None:
        """Leave a line if something was lost since the last one. The worker calls it often."""
        now = monotonic()
        if now < self._due:
            return
        self._due = now + LOOK_SECONDS
        exporters = stats().exporters
        lost = {name: _ours(account.lost) for name, account in exporters.items()}
        lost = {name: reasons for name, reasons in lost.items() if reasons}
        if lost and lost != self._known:
            self._due = now + INTERVAL_SECONDS
            self._known = lost
            tell("lost records", f"{_words(lost)} so far. {advice(lost)}")


def _ours(reasons: Mapping[str, int]) -> Mapping[str, int]:
    """Return the losses that no exporter has told of: what its far end said, it says itself."""
    return {reason: times for reason, times in reasons.items() if reason in LOSSES}


def advice(lost: Lost) -> str:
    """Return what helps against most of the losses; where none is of records, of judgements."""
    most = _most(lost)
    return explain_loss(next(iter(most))).advice if most else explain("shutdown").advice


def _words(lost: Lost) -> str:
    """Return the numbers by reason, each with the exporters that lack so many records."""
    return "; ".join(
        f"{reason} {times:,} ({', '.join(name for name in lost if reason in lost[name])})"
        for reason, times in list(_most(lost).items())[:MAX_REASONS]
    )


def _most(lost: Lost) -> dict[str, int]:
    """Return by reason how many records one exporter lacks at most; most of all first."""
    most: dict[str, int] = {}
    for reasons in lost.values():
        for reason, times in reasons.items():
            most[reason] = max(times, most.get(reason, 0))
    return dict(sorted(most.items(), key=lambda item: -item[1]))


loss_lines = LossLines()
