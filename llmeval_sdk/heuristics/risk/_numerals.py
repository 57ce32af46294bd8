"""Brings numbers into one form, so that "1,500" and "1500.0" are the same."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from llmeval_sdk.heuristics.risk import _resources
from llmeval_sdk.heuristics.risk._words import SCALES


_HAN = dict(zip("一二三四五六七八九两兩", (1, 2, 3, 4, 5, 6, 7, 8, 9, 2, 2), strict=True))
SPELLED_OUT = "="
"""Stands before the digits of a number that was written as a word, such as a Chinese numeral."""
_COUNTED = "个個天日周週年月小分秒人次倍歳歲岁時时か度名位件本台枚回点公米元円"
NUMERAL = f"(?<!第)(?:[二三四五六七八九十两兩][一二三四五六七八九十]{{0,2}})(?=[{_COUNTED}])"
"""A Chinese or Japanese numeral below a hundred that stands before what it counts."""
_SEPARATORS = str.maketrans({"\u00a0": "", "\u202f": "", "\u066c": "", "\u066b": "."})


def number(raw: str, *, english: bool = True) -> str:
    """Bring a number into one form: ``1,500`` and ``1500.0`` are both ``1500``; ``07`` is ``7``.

    Digits of every script become ASCII ones. Outside English, ``1.500`` is 1500 too.
    """
    if not raw.isascii():
        raw = raw.translate(_SEPARATORS)
        raw = "".join(str(int(sign)) if sign.isdecimal() else sign for sign in raw)
    if raw.isdigit():
        return raw.lstrip("0") or "0"
    comma, dot = raw.rfind(","), raw.rfind(".")
    decimal = max(comma, dot)
    three = len(raw) - decimal == 4 and min(comma, dot) < 0
    grouped = raw.count(raw[decimal]) > 1 or (three and (comma >= 0 or not english))
    if grouped:
        return "".join(part for part in re.split("[.,]", raw)).lstrip("0") or "0"
    whole = raw[:decimal].replace(",", "").replace(".", "").lstrip("0") or "0"
    fraction = raw[decimal + 1 :].rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole


def numeral(written: str) -> str:
    """Turn a Chinese or Japanese numeral below a hundred into the stem of a spelled-out number."""
    tens, ten, ones = written.rpartition("十")
    value = 10 * (_HAN.get(tens[-1:], 1) if ten else 0) + _HAN.get(ones[-1:], 0)
    return f"{SPELLED_OUT}{value}"


@lru_cache(4096)
def scaled(value: str, scale: str) -> str | None:
    """Multiply "1.5" by "million". ``None`` if the second is no scale or the first is too long."""
    factor = SCALES.get(scale)
    if factor is None or len(value) > 15:
        return None
    whole, _, fraction = value.partition(".")
    product = int(whole + fraction) * factor
    if product % 10 ** len(fraction):
        return None
    return str(product // 10 ** len(fraction))


_FORMS: dict[str, tuple[str, str]] = {
    form: (dimension, unit)
    for line in _resources.lines("units")
    for head, forms in [line.split(": ")]
    for dimension, unit in [head.split()]
    for form in forms.split()
}
_LONGEST = max(map(len, _FORMS))
_SUFFIXES = {
    form: found
    for form, found in _FORMS.items()
    if form in {"tag", "tage", "woche", "wochen", "stund", "minut", "monat", "jahr", "dagen"}
}
_ENDING = 4
"""How many letters of inflection may follow the listed form of a word."""
_REACH = 3
"""How many words behind a number may be its unit. In "two working days" the second one is."""

Unit = tuple[str, str]


def unit(word: str) -> Unit | None:
    """Return the dimension and the unit that a lower-case word, or a run of signs, starts with."""
    exact = _FORMS.get(word)
    if exact is not None:
        return exact
    dense = word > "\u0dff"
    if dense and word[0] in "个個" and word[1:2] not in ("月", ""):
        word = word[1:]
    least = 1 if dense else max(3, len(word) - _ENDING)
    for length in range(min(len(word) - 1, _LONGEST), least - 1, -1):
        found = _FORMS.get(word[:length])
        if found is not None:
            return found
    if not dense and 7 <= len(word) <= 24:  # a compound, such as "Werktagen"
        for ending in (0, 1, 2):
            tail = word[: len(word) - ending]
            for size in (3, 4, 5, 6):
                found = _SUFFIXES.get(tail[-size:])
                if found is not None:
                    return found
    return None


def behind(words: Sequence[str], at: int) -> Unit | None:
    """Return the unit of the number at a place among words, or a sign before it."""
    for word in words[at + 1 : at + 1 + _REACH]:
        if word[0].isdecimal():
            break
        found = unit(word.lower())
        if found is not None:
            return found
    return unit(words[at - 1]) if at and words[at - 1] in ("€", "$", "£", "¥") else None


def changed(here: Unit, there: Iterable[Unit | None]) -> bool:
    """Say whether the context gives a number in other units of the same dimension only."""
    alike = {other[1] for other in there if other is not None and other[0] == here[0]}
    return bool(alike) and here[1] not in alike
