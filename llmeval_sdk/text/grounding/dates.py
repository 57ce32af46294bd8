"""Finds dates, in figures or with the name of the month, and times of day in texts."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator
from typing import NamedTuple

from llmeval_sdk.text.grounding.amounts import (
    DATE_FILLERS,
    MONTHS,
    NUMBER_WORDS,
    ORDINAL_ENDINGS,
    ORDINALS,
    WEEKDAYS,
    spelled,
)


# A date is one or several readings of a day, because a text may leave open which it means.


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


# Dates that name their month: ``12 March 2021``, ``March 12th, 21``, ``3rd day of June, 2015``.

_TOKEN = re.compile(r"\d+|[^\W\d_]+")
_SKIPPED = ORDINAL_ENDINGS | frozenset(("of", "day", "the", "de", "del", "this"))
_GAP = 4
"""Characters that may stand between two parts of a date."""


class _Number(NamedTuple):
    """A number beside the name of a month: what it may be, and where it stands."""

    day: int | None
    years: list[int]
    first: int
    """Its first token, and the one after its last."""
    after: int


class _Text:
    """The words and figures of a text, with the numbers among them."""

    __slots__ = ("pieces", "text", "words")

    def __init__(self, text: str) -> None:
        self.text = text
        self.pieces = list(_TOKEN.finditer(text))
        self.words = [piece.group() for piece in self.pieces]

    def before(self, index: int) -> _Number | None:
        """Read the number before a token."""
        place = index - 1
        while place >= 0 and self._adjacent(place):
            if self.words[place] not in _SKIPPED:
                tens = place and NUMBER_WORDS.get(self.words[place - 1], 0) >= 20
                return self._number(place - 1 if tens else place)
            place -= 1
        return None

    def after(self, index: int) -> _Number | None:
        """Read the number that begins at a token or a little later."""
        while index < len(self.words) and self._adjacent(index - 1):
            if self.words[index] not in _SKIPPED:
                return self._number(index)
            index += 1
        return None

    def _adjacent(self, index: int) -> bool:
        return self.pieces[index + 1].start() - self.pieces[index].end() <= _GAP

    def _number(self, index: int) -> _Number | None:
        word = self.words[index]
        if word.isdecimal():
            end = self.pieces[index].end()
            found = years(word, time_follows=self.text[end : end + 1] == ":")
            value, after = int(word[:6]), index + 1
            return _Number(
                value if len(word) <= 2 and 1 <= value <= 31 else None, found, index, after
            )
        if word in ORDINALS:
            return _Number(ORDINALS[word], [], index, index + 1)
        number = spelled(self.words, index)
        if number is None:
            return None
        value, after = int(number[0]), number[1]
        if value in (20, 30) and after < len(self.words):
            ones = ORDINALS.get(self.words[after], 10)
            if ones < 10:
                return _Number(value + ones, [], index, after + 1)
        if 1 <= value <= 31:
            return _Number(value, [], index, after)
        return _Number(None, [value] if 1700 <= value < 2200 else [], index, after)


def _named_dates(text: str) -> Iterator[Found]:
    """Yield each date in a lower-case text that names its month, in all its readings."""
    if not text:
        return
    parts = _Text(text)
    for index, word in enumerate(parts.words):
        month = MONTHS.get(word)
        if month is None:
            continue
        before, after = parts.before(index), parts.after(index + 1)
        then = parts.after(after.after) if after else None
        for year, day, first, last in _orders(index, before, after, then):
            if exists(year, month, day):
                start, end = parts.pieces[first].start(), parts.pieces[last - 1].end()
                yield Found((Date(year, month, day),), start, end)


def _orders(
    month: int, before: _Number | None, after: _Number | None, then: _Number | None
) -> Iterator[tuple[int | None, int | None, int, int]]:
    """Yield year, day, first token and the token behind, for each way to read the numbers."""
    full = []
    if before and before.day and after:  # 12 March 2021
        full += [(year, before.day, before.first, after.after) for year in after.years]
    if before and not before.day and after and after.day:  # 2021 March 12
        full += [(year, after.day, before.first, after.after) for year in before.years]
    if after and after.day and then:  # March 12, 2021
        full += [(year, after.day, month, then.after) for year in then.years]
    yield from full
    if full:
        return
    if before and before.day:
        yield None, before.day, before.first, month + 1
    if after:
        yield from ((year, None, month, after.after) for year in after.years)
        if after.day:
            yield None, after.day, month, after.after


_NUMERIC = re.compile(
    r"(?<!\d)(\d{1,4}) ?(?:([-/.])|[年년]) ?(\d{1,2}) ?(?(2)\2|[月월]) ?(\d{1,6})(?!\d)(:?)"
)
_MONTH = re.compile(r"(?<![\d/.-])(?:(\d{4})[-/](\d{2})|(\d{1,2})[/.](\d{4}))(?![\d/.-])")
_COMPACT = re.compile(r"(?<!\d)\d{8}(?!\d)")
_TIME = re.compile(r"(\d{1,2}) ?[:.h] ?(\d{2})(?: ?[:.] ?\d{2}(?:\.\d{1,9})?)?(?: ?([ap])\.?m\b)?")
_WORD = re.compile(r"\d+|[^\W\d_]+")
_FILLERS = WEEKDAYS | DATE_FILLERS


def dates(text: str) -> Iterator[Found]:
    """Yield every date of a text in lower case."""
    for match in _NUMERIC.finditer(text):
        first, _, second, third, colon = match.groups()
        if readings := _numeric(first, second, third, time_follows=bool(colon)):
            yield Found(readings, match.start(), match.end(4))
    for match in _COMPACT.finditer(text):
        if readings := _compact(match.group()):
            yield Found(readings, match.start(), match.end())
    for match in _MONTH.finditer(text):
        year, month = int(match[1] or match[4]), int(match[2] or match[3])
        if exists(year, month, None):
            yield Found((Date(year, month, None),), *match.span())
    yield from _named_dates(text)


def only_date(text: str) -> tuple[tuple[Date, ...], int | None]:
    """Read a text that is one date and nothing else: its readings, and a time of day if it has one.

    Midnight does not count as a time of day. The readings are empty if the text is no such date.
    """
    for found in dates(text):
        rest = f"{text[: found.start]} | {text[found.end :]}"
        if all(word in _FILLERS for word in _WORD.findall(_TIME.sub(" ", rest))):
            return found.readings, min(times(rest), default=0) or None
    return (), None


def times(text: str) -> set[int]:
    """Collect the times of day of a text, in minutes after midnight."""
    found = set()
    for hour, minute, half in _TIME.findall(text):
        hours = int(hour) if int(hour) < 24 else int(hour) % 10  # a year ran into it
        if half and hours <= 12:
            hours = hours % 12 + (12 if half == "p" else 0)
        if int(minute) < 60:
            found.add(60 * hours + int(minute))
    return found


def _numeric(first: str, second: str, third: str, *, time_follows: bool) -> tuple[Date, ...]:
    """Read three figures in every order that gives a day of the calendar."""
    one, two = int(first), int(second)
    if len(first) == 4:
        day = third[:2] if time_follows else third
        return _existing((one, two, int(day), "ymd"))
    if len(first) == 3:
        return ()
    found = []
    for year in years(third, time_follows=time_follows):
        found += [(year, two, one, "dmy"), (year, one, two, "mdy")]
    if len(first) == 2 and len(third) == 2:
        found.append((century(one), two, int(third), "ymd"))
    return _existing(*found)


def _compact(figures: str) -> tuple[Date, ...]:
    """Read eight figures that begin or end with a year."""
    head, tail = int(figures[:4]), int(figures[4:])
    found = []
    if 1900 <= head < 2100:
        found.append((head, tail // 100, tail % 100, "ymd"))
    if 1900 <= tail < 2100:
        found += [(tail, head % 100, head // 100, "dmy"), (tail, head // 100, head % 100, "mdy")]
    return _existing(*found)


def _existing(*found: tuple[int, int, int, str]) -> tuple[Date, ...]:
    """Keep the days that exist; the order matters only if they differ."""
    days = [Date(*day) for day in found if exists(*day[:3])]
    if len({day[:3] for day in days}) == 1:
        return (days[0]._replace(order=None),)
    return tuple(days)
