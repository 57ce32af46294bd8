"""A date is one or several readings of a day, because a text may leave open which it means."""

from __future__ import annotations

from calendar import monthrange
from typing import NamedTuple


class Date(NamedTuple):
    """One reading of a date. A part that the text leaves out is ``None``."""

    year: int | None
    month: int
    day: int | None
    order: str | None = None
    """``dmy``, ``mdy`` or ``ymd`` if the figures could be read in several orders."""


class Found(NamedTuple):
    """A date in a text: its readings and its place."""

    readings: tuple[Date, ...]
    start: int
    end: int


def same(value: Date, other: Date) -> bool:
    """Return whether a date is another one; what ``value`` leaves open may be anything there.

    If both could be read as day-month and as month-day, they must be read in the same order.
    """
    return (
        value.month == other.month
        and (value.year is None or value.year == other.year)
        and (value.day is None or value.day == other.day)
        and (value.order is None or other.order is None or value.order == other.order)
    )


def exists(year: int | None, month: int, day: int | None) -> bool:
    """Return whether the calendar has such a day."""
    return (
        1 <= month <= 12
        and (year is None or 1700 <= year < 2200)
        and (day is None or 1 <= day <= monthrange(year or 2000, month)[1])
    )


def years(figures: str, *, time_follows: bool) -> list[int]:
    """Read a year of two or four figures. A time of day such as 8:13 may be stuck to it."""
    candidates = []
    if len(figures) == 4 or (len(figures) in (5, 6) and time_follows):
        candidates.append(int(figures[:4]))
    if len(figures) == 2 or (len(figures) in (3, 4) and time_follows):
        candidates.append(century(int(figures[:2])))
    return [year for year in candidates if 1700 <= year < 2200]


def century(year: int) -> int:
    """Complete a year of two figures to one from 1970 to 2069."""
    return year + (2000 if year < 70 else 1900)
