"""Finds dates, in figures or with the name of the month, and times of day in texts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from llmeval_sdk.heuristics._grounding.calendars import Date, Found, century, exists, years
from llmeval_sdk.heuristics._grounding.named_dates import named_dates
from llmeval_sdk.heuristics._grounding.words import DATE_FILLERS, WEEKDAYS


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
    yield from named_dates(text)


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
