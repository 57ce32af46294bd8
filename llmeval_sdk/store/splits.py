"""How the rows of a store are divided for sums: not at all, by period, or by groups of requests."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias


Part: TypeAlias = "int | str | None"
"""The beginning of a period in nanoseconds since the epoch, or the name of a group of requests;
``None`` where nothing is divided, and for requests that are in no group."""


class Split(NamedTuple):
    """What the rows of one part have in common, in SQL.

    Where nothing is divided, it is NULL, and statements group by nothing further: SQLite would sort
    all rows for it.
    """

    part: str = "NULL"

    @property
    def and_part(self) -> str:
        """What a statement groups by after all else."""
        return "" if self.part == "NULL" else f", {self.part}"


WHOLE = Split()
BY_SLICE = Split("(SELECT slice FROM selection.requests WHERE request = trace_id)")
"""By the groups of a reader's `selection.Selection`."""


def by_period(period_ns: int) -> Split:
    """Divide by time; 0 puts all times into one period."""
    return Split(f"time_ns - time_ns % {int(period_ns)}") if period_ns else WHOLE
