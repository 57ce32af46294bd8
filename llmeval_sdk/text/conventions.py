"""How a text writes dates and numbers: which part of a date comes first, and the decimal mark.

Many figures say it themselves: ``25/12/2025`` has the day first, ``1.234,50`` a decimal comma. What
a text says that way settles what ``03/04/2025`` and ``1.234`` are in it. A locale that is given
decides before that; where a text contradicts itself, everything stays open.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from llmeval_sdk.process.pieces import find_all
from llmeval_sdk.text.amounts import Amount, Date
from llmeval_sdk.text.locales import calendar


class Conventions(NamedTuple):
    """What is known of how a text is written. What is not known is ``None``."""

    order: str | None = None
    """``dmy``, ``mdy`` or ``ymd``."""
    decimal: str | None = None
    """``.`` or ``,``."""

    def dates(self, readings: Sequence[Date]) -> tuple[Date, ...]:
        """Return the readings of a date that agree; all of them where none does."""
        if len(readings) < 2 or self.order is None:
            return tuple(readings)
        return tuple(day for day in readings if day.order == self.order) or tuple(readings)

    def numbers(self, amount: Amount, text: str) -> tuple[float, ...]:
        """Return the readings of an amount that agree; ``text`` is how its number is written."""
        if len(amount.readings) != 2 or self.decimal is None:
            return amount.readings
        if self.decimal in text:
            return amount.readings[:1]  # its one mark is the decimal mark
        return amount.readings[1:] if ("." in text or "," in text) else amount.readings


OPEN = Conventions()
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z]{4})?(?:[-_](?:[A-Za-z]{2}|\d{3}))?")


def conventions_for(locale: object) -> Conventions:
    """Return how a locale such as ``de-DE`` writes; nothing is known of one without a meaning."""
    return _known(locale) if isinstance(locale, str) and len(locale) <= 20 else OPEN


@lru_cache(256)
def _known(locale: str) -> Conventions:
    if _LANGUAGE.fullmatch(locale) is None:
        return OPEN
    language, *rest = locale.replace("-", "_").split("_")
    formats = calendar().formats
    code = "_".join((language.lower(), *(part.upper() for part in rest[-1:] if len(part) < 4)))
    order, decimal = formats.get(code) or formats.get(language.lower()) or (None, None)
    return Conventions(order, decimal)


_DATE = re.compile(r"\d(?<!\d\d)(?<![\d/.-]\d)\d?([-/])\d{1,2}\1(?:\d{4}|\d\d)(?![\d/-])")
_FIGURES = re.compile(r"\d(?<!\d\d)\d*[.,][\d.,]*\d")
_MOST = 1_000
"""Figures that are looked at."""


def conventions_of(text: str) -> Conventions:
    """Read how a text writes from the figures in it that can be read in one way only."""
    day_first = month_first = 0
    for count, match in enumerate(find_all(_DATE, text)):
        first, second = (int(part) for part in match[0].split(match[1])[:2])
        day_first += 12 < first <= 31 and second <= 12
        month_first += 12 < second <= 31 and first <= 12
        if count >= _MOST:
            break
    marks = {mark for match in islice(find_all(_FIGURES, text), _MOST) if (mark := _mark(match[0]))}
    decimal = marks.pop() if len(marks) == 1 else None
    order = None if bool(day_first) == bool(month_first) else "dmy" if day_first else "mdy"
    if order is None and not month_first and decimal == ",":
        order = "dmy"  # nowhere does a month come first beside a decimal comma
    return Conventions(order, decimal)


def _mark(figures: str) -> str:
    """Return the decimal mark of figures: the one before the last two, if it stands there once."""
    mark = figures[-3:-2]
    is_one = mark in (".", ",") and figures[-2:].isdecimal() and mark not in figures[:-3]
    return mark if is_one else ""
