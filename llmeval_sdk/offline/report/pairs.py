"""The rows of two reports side by side: what belongs together, and which changed for the worse."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from llmeval_sdk.model import Evaluation
from llmeval_sdk.offline.report.row import Row, digest_of_request
from llmeval_sdk.offline.report.summary import goodness


if TYPE_CHECKING:
    from llmeval_sdk.offline.report.contents import ReportContents


RAISED = 2.0
"""How much a row changes on which the model raised only before, or only now: more than a score
can."""
WORSE_BY = 0.05
"""How much a score of a row has to fall for the row to have regressed."""
MOST_TEXT = 4_000
"""How many characters of a text a page shows."""


class RowPair(NamedTuple):
    """One row in both reports."""

    before: Row
    after: Row
    change: float
    """How much the evaluator that got worst changed, from -1 to 1; where none got worse, the one
    that got best. -2 and 2 stand for a row on which the model raises now, or raised before."""


def says(evaluation: Evaluation | None) -> bool:
    """Return whether an evaluation has anything to show: a value, or an error."""
    return evaluation is not None and (evaluation.value, evaluation.error) != (None, None)


def step_of(before: Evaluation | None, after: Evaluation | None) -> float | None:
    """Return by how much an evaluation got better, or worse if that is negative.

    ``None`` stands for less than `WORSE_BY` either way, and for what is neither good nor bad.
    """
    if before is None or after is None:
        return None
    was, now = goodness(before), goodness(after)
    if was is None or now is None or abs(now - was) < WORSE_BY:
        return None
    return now - was


def row_keys(report: ReportContents) -> Iterator[tuple[Any, int, Row]]:
    """Yield what identifies each row, its place and the row: its id, else its request, counted."""
    times: dict[Any, int] = {}
    for place, row in enumerate(report.rows):
        key = row.record.request_id or digest_of_request(row.record)
        times[key] = times.get(key, 0) + 1
        yield (key, times[key]), place, row


def change_of(before: Row, after: Row) -> float | None:
    """Return how much a row changed, as `RowPair` has it; ``None`` if nothing did."""
    if (before.error is None) is not (after.error is None):
        return RAISED if after.error is None else -RAISED
    is_same = before.record.response == after.record.response
    changes = []
    for name, later in after.evaluations.items():
        earlier = before.evaluations.get(name)
        if earlier is None:
            continue
        was, now = goodness(earlier), goodness(later)
        if was is not None and now is not None:
            changes.append(now - was)
        is_same = is_same and (earlier.value == later.value or was is None or now is None)
    worst, best = min(changes, default=0.0), max(changes, default=0.0)
    change = worst if worst < 0 else best
    return None if is_same and not change else change


class ChangedRows:
    """The places of the pairs that changed, of which those that got worst are kept."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: list[tuple[float, int, int]] = []
        """A heap of changes and places; its first got better than all others."""
        self.count = 0

    def add(self, before: int, after: int, change: float | None) -> None:
        """Take in a pair by its places in both reports."""
        if change is None:
            return
        self.count += 1
        entry = -change, -after, before
        if len(self._kept) < self._most:
            heapq.heappush(self._kept, entry)
        else:
            heapq.heappushpop(self._kept, entry)

    def read(self, baseline: ReportContents, report: ReportContents) -> tuple[RowPair, ...]:
        """Return the pairs that are kept, the worst change first."""
        return tuple(
            RowPair(baseline.rows[before], report.rows[-after], -change)
            for change, after, before in sorted(self._kept, reverse=True)
        )
