"""Dates that name their month: ``12 March 2021``, ``March 12th, 21``, ``3rd day of June, 2015``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from llmeval_sdk.heuristics._grounding.calendars import Date, Found, exists, years
from llmeval_sdk.heuristics._grounding.numbers import spelled
from llmeval_sdk.heuristics._grounding.words import (
    MONTHS,
    NUMBER_WORDS,
    ORDINAL_ENDINGS,
    ORDINALS,
)


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


def named_dates(text: str) -> Iterator[Found]:
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
