"""Amounts, dates and times in texts: numbers with their currency, unit, percent sign and scale."""

from __future__ import annotations

import re
from bisect import bisect_left
from calendar import monthrange
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from llmeval_sdk.process.pieces import find_all, paced, pieces
from llmeval_sdk.text.locales import calendar


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
    "tsd": 1e3, "mila": 1e3, "tys": 1e3, "тыс": 1e3, "тис": 1e3,
    "millionen": 1e6, "millones": 1e6, "milhoes": 1e6, "milioni": 1e6, "mln": 1e6, "млн": 1e6,
    "mrd": 1e9, "mld": 1e9, "mdr": 1e9, "mia": 1e9, "milliarden": 1e9, "milliards": 1e9,
    "miliardi": 1e9, "млрд": 1e9, "万": 1e4, "億": 1e8, "亿": 1e8,
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

DATE_FILLERS = frozenset(
    """on as of the dated date effective from by until at and day t z utc gmt 日 일 r roku г года
    року р den le el il am den den dne m d ngay tarihi tues thur thurs""".split()
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
    "kc": "CZK", "lei": "RON", "leu": "RON", "ron": "RON", "лв": "BGN", "bgn": "BGN", "руб": "RUB",
    "грн": "UAH", "tl": "TRY", "try": "TRY", "원": "KRW", "nt$": "TWD", "twd": "TWD",
    "ευρω": "EUR", "евро": "EUR", "euroa": "EUR", "franken": "CHF", "fr": "CHF", "reais": "BRL",
    "isk": "ISK", "egp": "EGP", "cop": "COP", "clp": "CLP", "ars": "ARS",
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
    ("seconds", 3600.0): "h hour hours hr hrs",
    ("grams", 1.0): "g gram grams gm gms",
    ("grams", 0.001): "mg milligram milligrams",
    ("grams", 1000.0): "kg kgs kilogram kilograms kilo kilos",
    ("grams", 1e6): "t tonne tonnes",
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
    r"|(?:us|a|c|s|hk|r|nt)\$|m2(?!\w)|ft2(?!\w)|[万億亿円元원]"
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
        self.words: list[str] = []
        self.spans: list[tuple[int, int]] = []
        for match in find_all(_TOKEN, text):
            self.words.append(match[0])
            self.spans.append(match.span())

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
    after = 0
    for index, word in paced(enumerate(tokens.words)):
        if index < after or not (word in _BEGIN_NUMBERS or word[0].isdecimal()):
            continue
        numbers: tuple[float, ...] = ()
        after = index + 1
        if word[0].isdecimal():
            numbers = readings(word)
            if not numbers or " " in word:
                yield from _parts(word, index)
        elif (number := spelled(tokens.words, index)) is not None:
            numbers, after = (number[0],), number[1]
        elif tokens.word(after) in MEASURES:
            numbers = (1.0,)
        if numbers:
            amount = _with_company(tokens, index, after, numbers)
            after = amount.tokens.stop
            yield amount


_BEGIN_NUMBERS = NUMBER_WORDS.keys() | {"a", "an"}


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


# Dates, in figures or with the name of the month, and times of day.


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

_DATE_TOKEN = re.compile(r"\d+|[^\W\d_]+")
_LETTERS = re.compile(r"[^\W\d_]{2,}")
_SKIPPED = ORDINAL_ENDINGS | frozenset(
    ("of", "day", "the", "de", "del", "this", "o", "a", "er", "e", "di", "den", "г")
)
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

    __slots__ = ("_starts", "pieces", "text", "words")

    def __init__(self, text: str, begin: int, end: int) -> None:
        while begin > 0 and text[begin - 1].isalnum() and text[begin].isalnum():
            begin += 1  # so that nothing is read from the middle of a word or number
        while end < len(text) and text[end - 1].isalnum() and text[end].isalnum():
            end -= 1
        self.text = text
        self.pieces = list(find_all(_DATE_TOKEN, text, begin, end))
        self.words = [piece.group() for piece in paced(self.pieces)]
        self._starts = [piece.start() for piece in paced(self.pieces)]

    def at(self, place: int) -> int:
        """Return the token that begins at a place."""
        return bisect_left(self._starts, place)

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


_AT_ONCE = 8_000
"""Characters in which names of months are looked for between two pauses."""
_MANY = 30
"""Names of months; a text with more of them is split as a whole."""
_AROUND = 40
"""Characters before and after the name of a month in which the rest of its date stands."""


def _named_dates(text: str) -> Iterator[Found]:
    """Yield each date in a lower-case text that names its month, in all its readings."""
    months = calendar().months
    there = {
        name for piece in pieces(text, _AT_ONCE) for name in months.keys() & _LETTERS.findall(piece)
    }
    if not there:
        return
    names = re.compile(rf"(?:{'|'.join(sorted(there, key=len, reverse=True))})(?![^\W\d_])")
    matches = [match for match in find_all(names, text) if not _goes_back(text, match.start())]
    whole = _Text(text, 0, len(text)) if len(matches) > _MANY else None
    for match in paced(matches):
        begin = max(0, match.start() - _AROUND)
        parts = whole or _Text(text, begin, match.end() + _AROUND)
        index = parts.at(match.start())
        before, after = parts.before(index), parts.after(index + 1)
        then = parts.after(after.after) if after else None
        for year, day, first, last in _orders(index, before, after, then):
            readings = (Date(year, month, day) for month in months[match[0]])
            if days := tuple(date for date in readings if exists(*date[:3])):
                start, end = parts.pieces[first].start(), parts.pieces[last - 1].end()
                yield Found(days, start, end)


def _goes_back(text: str, start: int) -> bool:
    return text[start - 1 : start].isalpha()


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


# Each begins with a figure and looks back from behind it: a look-behind first is a fifth as fast.
_NUMERIC = re.compile(
    r"(\d(?<!\d\d)\d{0,3}) ?(?:([-/.])|[年년]) ?(\d{1,2}) ?(?(2)\2|[月월]) ?(\d{1,6})(?!\d)(:?)"
)
_MONTH = re.compile(r"(\d(?<![\d/.-]\d)\d{0,3})([-/.])(\d{2,4})(?![\d/.-])")
_COMPACT = re.compile(r"\d(?<!\d\d)\d{7}(?!\d)")
_ERA = re.compile(r"(令和|平成|昭和) ?(\d{1,2}|元)年 ?(\d{1,2})月 ?(\d{1,2})日")
_BEFORE_ERA = {"令和": 2018, "平成": 1988, "昭和": 1925}
"""The year before the first one of each Japanese era."""
_TIME = re.compile(r"(\d{1,2}) ?[:.h] ?(\d{2})(?: ?[:.] ?\d{2}(?:\.\d{1,9})?)?(?: ?([ap])\.?m\b)?")
_WORD = re.compile(r"\d+|[^\W\d_]+")


def dates(text: str) -> Iterator[Found]:
    """Yield every date of a text in lower case."""
    for match in find_all(_NUMERIC, text):
        first, mark, second, third, colon = match.groups()
        if readings := _numeric(first, second, third, mark, time_follows=bool(colon)):
            yield Found(readings, match.start(), match.end(4))
    for match in find_all(_COMPACT, text):
        if readings := _compact(match.group()):
            yield Found(readings, match.start(), match.end())
    for match in find_all(_ERA, text) if "年" in text else ():
        year = _BEFORE_ERA[match[1]] + (1 if match[2] == "元" else int(match[2]))
        if exists(year, int(match[3]), int(match[4])):
            yield Found((Date(year, int(match[3]), int(match[4])),), *match.span())
    yield from _months(text)
    yield from _named_dates(text)


def _months(text: str) -> Iterator[Found]:
    """Yield each month of a year in figures, such as ``2026-03`` and ``03/2026``."""
    for match in find_all(_MONTH, text):
        first, mark, second = match.groups()
        if len(first) == 4 and len(second) == 2 and mark != ".":
            year, month = int(first), int(second)
        elif len(first) <= 2 and len(second) == 4 and mark != "-":
            year, month = int(second), int(first)
        else:
            continue
        if exists(year, month, None):
            yield Found((Date(year, month, None),), *match.span())


def only_date(text: str) -> tuple[tuple[Date, ...], int | None]:
    """Read a text that is one date and nothing else: its readings, and a time of day if it has one.

    Midnight does not count as a time of day. The readings are empty if the text is no such date.
    """
    fillers = calendar().weekdays | DATE_FILLERS
    for found in dates(text):
        rest = f"{text[: found.start]} | {text[found.end :]}"
        if all(word in fillers for word in _WORD.findall(_TIME.sub(" ", rest))):
            return found.readings, min(times(rest), default=0) or None
    return (), None


def times(text: str) -> set[int]:
    """Collect the times of day of a text, in minutes after midnight."""
    found = set()
    for match in find_all(_TIME, text):
        hour, minute, half = match.groups()
        hours = int(hour) if int(hour) < 24 else int(hour) % 10  # a year ran into it
        if half and hours <= 12:
            hours = hours % 12 + (12 if half == "p" else 0)
        if int(minute) < 60:
            found.add(60 * hours + int(minute))
    return found


def _numeric(
    first: str, second: str, third: str, mark: str | None, *, time_follows: bool
) -> tuple[Date, ...]:
    """Read three figures in every order that gives a day of the calendar.

    Between points a month never comes first.
    """
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
    days = _existing(*found)
    return tuple(day for day in days if day.order != "mdy") if mark == "." else days


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
