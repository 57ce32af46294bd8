"""Amounts in texts: numbers with their currency, unit, percent sign and scale."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from llmeval_sdk.heuristics._grounding.numbers import MAX_DIGITS, readings, spelled
from llmeval_sdk.heuristics._grounding.words import (
    AMOUNT_FILLERS,
    BETWEEN,
    CURRENCIES,
    MEASURES,
    MONEY_SCALES,
    SCALES,
)


_TOKEN = re.compile(
    r"(?<![\d.,])\d{1,3}(?: \d{3})+(?:[.,]\d{1,4})?(?!\d)"  # 1 234 567,50
    r"|\d+(?:[.,'’]\d+)*"
    r"|(?:us|a|c|s|hk|r)\$|m2(?!\w)|ft2(?!\w)"
    r"|[^\W\d_]+|[%$€£¥₹₱฿₫₩₽₺₴₪₦]"
)
_PART = re.compile(r"\d+")


class Amount(NamedTuple):
    """A number in a text, with its currency, unit, sign and scale."""

    readings: tuple[float, ...]
    """The values that it may have: ``1.234`` is 1.234 or 1234."""
    currencies: tuple[str, ...] = ()
    unit: str | None = None
    negative: bool = False
    place: int = 0
    """The token where it stands."""
    tokens: range = range(0)
    """Its tokens, with currency and unit. There are none if it is part of a date or a list."""


class Tokens:
    """A text in lower case, split into numbers, words and signs."""

    __slots__ = ("spans", "text", "words")

    def __init__(self, text: str) -> None:
        self.text = text
        found = list(_TOKEN.finditer(text))
        self.words = [match.group() for match in found]
        self.spans = [match.span() for match in found]

    def __len__(self) -> int:
        return len(self.words)

    def gap(self, index: int) -> str:
        """Return what stands between a token and the next one."""
        return self.text[self.spans[index][1] : self.spans[index + 1][0]]

    def word(self, index: int) -> str:
        """Return a token, or nothing beyond the end."""
        return self.words[index] if 0 <= index < len(self.words) else ""


def amounts(tokens: Tokens) -> Iterator[Amount]:
    """Yield every number of a text, in figures or words."""
    index = 0
    while index < len(tokens):
        word = tokens.words[index]
        numbers: tuple[float, ...] = ()
        after = index + 1
        if word[0].isdecimal():
            numbers = readings(word)
            if not numbers or " " in word:
                yield from _parts(word, index)
        elif (number := spelled(tokens.words, index)) is not None:
            numbers, after = (number[0],), number[1]
        elif word in ("a", "an", "one") and tokens.word(after) in MEASURES:
            numbers = (1.0,)
        if numbers:
            amount = _with_company(tokens, index, after, numbers)
            after = amount.tokens.stop
            yield amount
        index = after


def _parts(word: str, index: int) -> Iterator[Amount]:
    for part in _PART.findall(word):
        if len(part) <= MAX_DIGITS:
            yield Amount((float(part),), place=index)


def _with_company(tokens: Tokens, first: int, after: int, numbers: tuple[float, ...]) -> Amount:
    """Read what stands before and after a number."""
    place, currencies = first, []
    if first and (code := CURRENCIES.get(tokens.words[first - 1])) and _close(tokens, first - 1):
        currencies.append(code)
        first -= 1
    negative = _signed(tokens, place) or _signed(tokens, first)
    after = _same_again(tokens, after, numbers[0])
    if tokens.word(after) in SCALES:
        numbers = tuple(value * SCALES[tokens.word(after)] for value in numbers)
        after += 1
    unit = None
    if after < len(tokens) and len(gap := tokens.gap(after - 1)) <= 3 and "\n" not in gap:
        scale = MONEY_SCALES.get(tokens.words[after])
        if scale and not gap and (currencies or tokens.word(after + 1) in CURRENCIES):
            numbers = tuple(value * scale for value in numbers)
            after += 1
        code = CURRENCIES.get(tokens.word(after))
        if code and len(gap) <= 1 and not (currencies and gap):
            currencies.append(code)
            after += 1
        else:
            unit, after = _unit(tokens, after)
    return Amount(numbers, tuple(currencies), unit, negative, place, range(first, after))


def _close(tokens: Tokens, index: int) -> bool:
    gap = tokens.gap(index)
    return len(gap) <= 3 and not gap.strip(" \t\r\n.:-(")


def _signed(tokens: Tokens, index: int) -> bool:
    """Return whether a minus sign, or an accountant's bracket, stands right before a token."""
    start = tokens.spans[index][0]
    return start > 0 and tokens.text[start - 1] in "-−–—("


def _same_again(tokens: Tokens, after: int, value: float) -> int:
    """Skip the same number in the other writing, as in ``two (2) years``."""
    word = tokens.word(after)
    if word[:1].isdecimal():
        return (
            after + 1 if readings(word)[:1] == (value,) and "(" in tokens.gap(after - 1) else after
        )
    again = spelled(tokens.words, after) if word else None
    return again[1] if again and again[0] == value else after


def _unit(tokens: Tokens, index: int) -> tuple[str | None, int]:
    """Read a unit, over a word such as ``calendar``; ``per cent`` may be two words."""
    word, following = tokens.word(index), tokens.word(index + 1)
    if word == "per" and following in ("cent", "centum"):
        return "percent", index + 2
    if word in BETWEEN and following in MEASURES:
        return following, index + 2
    return (word, index + 1) if word in MEASURES else (None, index)


def only_amounts(text: str) -> list[Amount]:
    """Read a text that is one amount and nothing else, or several amounts with units."""
    tokens = Tokens(text)
    found = [amount for amount in amounts(tokens) if amount.tokens]
    if len(found) > 1 and not all(amount.unit or amount.currencies for amount in found):
        return []
    taken = {index for amount in found for index in amount.tokens}
    rest = (word for index, word in enumerate(tokens.words) if index not in taken)
    return found if all(word in AMOUNT_FILLERS for word in rest) else []
