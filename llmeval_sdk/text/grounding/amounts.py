"""Amounts in texts: numbers with their currency, unit, percent sign and scale."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple


# ruff: noqa: SIM905 - lists of words read best as text


# The words and signs that numbers, dates, money and units are written with.

_UNITS = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
fifteen sixteen seventeen eighteen nineteen""".split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()

NUMBER_WORDS: dict[str, int] = {
    **{word: value for value, word in enumerate(_UNITS)},
    **{word: 10 * value for value, word in enumerate(_TENS, 2)},
}

SCALES = {
    "hundred": 1e2, "thousand": 1e3, "million": 1e6, "millions": 1e6, "billion": 1e9,
    "billions": 1e9, "trillion": 1e12, "lakh": 1e5, "lakhs": 1e5, "crore": 1e7, "crores": 1e7,
    "mn": 1e6, "mio": 1e6, "bn": 1e9, "tn": 1e12,
}  # fmt: skip
"""Words that multiply the number before them."""

MONEY_SCALES = {"k": 1e3, "m": 1e6, "b": 1e9}
"""Letters that multiply a number too, but only beside a currency."""

ORDINALS: dict[str, int] = {
    word: value
    for value, word in enumerate(
        """first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth
        thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth
        twentieth""".split(),
        1,
    )
}
ORDINALS["thirtieth"] = 30

ORDINAL_ENDINGS = frozenset(("st", "nd", "rd", "th"))

_MONTHS = (  # English, German, French, Spanish, Italian, Portuguese, Dutch, Malay
    "january jan januar janvier enero ene gennaio gen janeiro januari janner",
    "february feb februar fevrier fevr febrero febbraio fevereiro fev februari febr",
    "march mar marz mars marzo marco maart mac mrt maerz",
    "april apr avril avr abril abr aprile",
    "may mai mayo maggio mag maio mei",
    "june jun juni juin junio giugno giu junho",
    "july jul juli juillet juil julio luglio lug julho julai",
    "august aug aout agosto ago augustus ogos",
    "september sep sept septembre septiembre settembre set setembro",
    "october oct oktober okt octobre octubre ottobre ott outubro out",
    "november nov novembre noviembre novembro",
    "december dec dezember dez decembre diciembre dic dicembre dezembro disember dis",
)
MONTHS: dict[str, int] = {
    word: month for month, words in enumerate(_MONTHS, 1) for word in words.split()
}
"""Names of the months, folded, and their abbreviations."""

WEEKDAYS = frozenset(
    """monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thur thurs fri
    sat sun""".split()
)

DATE_FILLERS = frozenset(
    "on as of the dated date effective from by until at and day t z utc gmt 日 일".split()
)
"""Words that may stand beside a date and belong to it."""

AMOUNT_FILLERS = frozenset("approximately approx about circa ca around only just and".split())

CURRENCIES: dict[str, str] = {
    "$": "$", "dollar": "$", "dollars": "$", "us$": "USD", "usd": "USD", "a$": "AUD", "aud": "AUD",
    "c$": "CAD", "cad": "CAD", "s$": "SGD", "sgd": "SGD", "hk$": "HKD", "hkd": "HKD", "nzd": "NZD",
    "r$": "BRL", "brl": "BRL", "mxn": "MXN",
    "€": "EUR", "eur": "EUR", "euro": "EUR", "euros": "EUR",
    "£": "GBP", "gbp": "GBP", "pound": "GBP", "pounds": "GBP", "sterling": "GBP",
    "¥": "¥", "jpy": "JPY", "yen": "JPY", "cny": "CNY", "rmb": "CNY", "yuan": "CNY", "円": "JPY",
    "元": "CNY",
    "₹": "INR", "rs": "INR", "inr": "INR", "rupee": "INR", "rupees": "INR",
    "rm": "MYR", "myr": "MYR", "ringgit": "MYR", "rp": "IDR", "idr": "IDR", "₱": "PHP",
    "thb": "THB", "฿": "THB", "vnd": "VND", "₫": "VND", "krw": "KRW", "₩": "KRW",
    "chf": "CHF", "francs": "CHF", "sek": "SEK", "nok": "NOK", "dkk": "DKK", "kr": "kr",
    "pln": "PLN", "zł": "PLN", "zl": "PLN", "czk": "CZK", "huf": "HUF", "rub": "RUB", "₽": "RUB",
    "₺": "TRY", "uah": "UAH", "₴": "UAH", "ils": "ILS", "₪": "ILS", "aed": "AED",
    "sar": "SAR", "zar": "ZAR", "ngn": "NGN", "₦": "NGN",
}  # fmt: skip
"""The currency code of each folded sign, code and word. A sign that several share stays a sign."""

SHARED_SIGNS = {
    "$": frozenset("USD AUD CAD SGD HKD NZD MXN".split()),
    "¥": frozenset(("JPY", "CNY")),
    "kr": frozenset(("SEK", "NOK", "DKK")),
}

_SAME = {
    ("percent", 1.0): "% percent pct percents percentage",
    ("percent", 0.01): "bps bp",
    ("months", 1.0): "month months mo mos mth mths",
    ("months", 3.0): "quarter quarters",
    ("months", 12.0): "year years yr yrs annum",
    ("days", 1.0): "day days",
    ("days", 7.0): "week weeks wk wks",
    ("days", 14.0): "fortnight fortnights",
    ("seconds", 1.0): "second seconds sec secs",
    ("seconds", 60.0): "minute minutes min mins",
    ("seconds", 3600.0): "hour hours hr hrs",
    ("grams", 1.0): "g gram grams gm gms",
    ("grams", 0.001): "mg milligram milligrams",
    ("grams", 1000.0): "kg kgs kilogram kilograms kilo kilos",
    ("grams", 1e6): "tonne tonnes",
    ("pounds", 1.0): "lb lbs",
    ("pounds", 1 / 16): "oz ounce ounces",
    ("metres", 1.0): "m metre metres meter meters",
    ("metres", 0.01): "cm centimetre centimetres centimeter centimeters",
    ("metres", 0.001): "mm millimetre millimetres millimeter millimeters",
    ("metres", 1000.0): "km kms kilometre kilometres kilometer kilometers",
    ("feet", 1.0): "ft foot feet",
    ("feet", 1 / 12): "inch inches",
    ("feet", 3.0): "yard yards",
    ("feet", 5280.0): "mile miles",
    ("litres", 1.0): "l litre litres liter liters ltr",
    ("litres", 0.001): "ml millilitre millilitres milliliter milliliters",
    ("square metres", 1.0): "sqm m2 m²",
    ("square metres", 10_000.0): "hectare hectares",
    ("square feet", 1.0): "sqft ft2 ft²",
    ("square feet", 43_560.0): "acre acres",
    ("bytes", 1e3): "kb",
    ("bytes", 1e6): "mb",
    ("bytes", 1e9): "gb",
    ("bytes", 1e12): "tb",
    ("watts", 1.0): "w watt watts",
    ("watts", 1e3): "kw",
    ("watts", 1e6): "mw",
}
MEASURES: dict[str, tuple[str, float]] = {
    word: measure for measure, words in _SAME.items() for word in words.split()
}
"""What each unit measures, and how much of that one unit is."""

BETWEEN = frozenset("calendar consecutive successive full business working additional".split())
"""Words that may stand between a number and its unit."""


# Reads numbers that are written in figures, with any separators, or in English words.

MAX_DIGITS = 30
"""Longer strings of figures are identifiers and not numbers."""

_MARK = re.compile(r"[^\d]")


def readings(figures: str) -> tuple[float, ...]:
    """Read figures with separators in every way that makes sense, if there is any.

    ``1.234`` is 1.234 or 1234; ``1,234.50``, ``1.234,50`` and ``1 234,50`` are one number each.
    """
    if len(figures) > MAX_DIGITS:
        return ()
    if figures.isdecimal():
        return (float(figures),)
    parts = _MARK.split(figures)
    marks = _MARK.findall(figures)
    kinds = set(marks)
    joined = float("".join(parts))
    if len(kinds) == 1:
        whole = (joined,) if _grouped(parts) else ()
        if len(marks) == 1 and marks[0] in ".,":
            return (float(f"{parts[0]}.{parts[1]}"), *whole)
        return whole
    if len(kinds) == 2 and marks[-1] in ".," and marks[-1] not in marks[:-1]:
        return (float("".join(parts[:-1]) + "." + parts[-1]),) if _grouped(parts[:-1]) else ()
    return ()


def _grouped(parts: Sequence[str]) -> bool:
    """Return whether figures are grouped in threes, or in twos and a last three as in India."""
    return (
        1 <= len(parts[0]) <= 3
        and parts[0][0] != "0"
        and len(parts[-1]) == 3
        and all(2 <= len(part) <= 3 for part in parts[1:])
    )


def spelled(words: Sequence[str], index: int) -> tuple[float, int] | None:
    """Read a number in words that begins at ``index``: its value and the index after it.

    ``twenty-one``, ``two hundred and fifty thousand``; ``None`` where no number begins.
    """
    if words[index] not in NUMBER_WORDS:
        return None
    total, group, index = 0.0, float(NUMBER_WORDS[words[index]]), index + 1
    room = _room(group)
    while index < len(words):
        word = words[index]
        if word in NUMBER_WORDS and 0 < NUMBER_WORDS[word] < room:
            group += NUMBER_WORDS[word]
            room = _room(NUMBER_WORDS[word])
        elif word == "hundred" and 0 < group < 100:
            group *= 100
            room = 100.0
        elif word in SCALES and word != "hundred" and group:
            total += group * SCALES[word]
            group, room = 0.0, 1000.0
        elif not (word == "and" and room >= 100 and _goes_on(words, index + 1)):
            break
        index += 1
    return total + group, index


def _room(value: float) -> float:
    """The bound that the next word must stay below to belong to the same number."""
    return 10.0 if value >= 20 and value % 10 == 0 else 0.0


def _goes_on(words: Sequence[str], index: int) -> bool:
    return index < len(words) and words[index] in NUMBER_WORDS


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
