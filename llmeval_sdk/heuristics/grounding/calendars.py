"""What a date is here: readings of a day, of which a text may leave several open."""

from __future__ import annotations

from calendar import monthrange
from typing import NamedTuple


class Date(NamedTuple):
    """One reading of a date; what the text leaves open is ``None``."""

    year: int | None
    month: int
    day: int | None
    order: str | None = None
    """``dmy``, ``mdy`` or ``ymd`` where the figures could be read in several orders."""


class Found(NamedTuple):
    """A date in a text: its readings and its place."""

    readings: tuple[Date, ...]
    start: int
    end: int


def same(value: Date, found: Date) -> bool:
    """Compare two readings; a date that leaves something open is found in one that does not.

    Two that could both be day-month or month-day have to be read in the same order.
    """
    return (
        value.month == found.month
        and (value.year is None or value.year == found.year)
        and (value.day is None or value.day == found.day)
        and (value.order is None or found.order is None or value.order == found.order)
    )


def exists(year: int | None, month: int, day: int | None) -> bool:
    """Say whether there is such a day."""
    return (
        1 <= month <= 12
        and (year is None or 1700 <= year < 2200)
        and (day is None or 1 <= day <= monthrange(year or 2000, month)[1])
    )


def years(figures: str, *, time_follows: bool) -> list[int]:
    """Read a year of two or four figures, into which a time of day such as 8:13 may have run."""
    found = []
    if len(figures) == 4 or (len(figures) in (5, 6) and time_follows):
        found.append(int(figures[:4]))
    if len(figures) == 2 or (len(figures) in (3, 4) and time_follows):
        found.append(century(int(figures[:2])))
    return [year for year in found if 1700 <= year < 2200]


def century(year: int) -> int:
    """Complete a year of two figures: 1970 to 2069."""
    return year + (2000 if year < 70 else 1900)
