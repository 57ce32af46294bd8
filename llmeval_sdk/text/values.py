"""One value by itself: what it says, which kind it is of, and the form that its spellings share."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from llmeval_sdk.model.chat import is_answer
from llmeval_sdk.process.pieces import find_all
from llmeval_sdk.text.amounts import (
    MEASURES,
    SHARED_SIGNS,
    Amount,
    Date,
    Tokens,
    amounts,
    dates,
    only_amounts,
    only_date,
)
from llmeval_sdk.text.conventions import conventions_for
from llmeval_sdk.text.folding import fold, plain
from llmeval_sdk.text.locales import coded
from llmeval_sdk.text.support import BOOLEANS, MAX_CODE, rounded


MAX_CHARACTERS = 1_000
"""Of a value; what follows is not compared."""
MAX_ITEMS = 50
"""Of a list or mapping, on each level."""
MAX_DEPTH = 6

_NOTHING = re.compile(
    r"\W*(?:none|null|nil|nan|n/?a|unknown|missing|empty|not (?:found|available|applicable|stated"
    r"|specified|given|mentioned|provided|present)(?: (?:in|by) .{1,80})?|no (?:value|answer|data"
    r"|information|match|[\w ]{1,30} (?:found|available|given|stated))(?: available)?)\W*",
    re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"""\W*(?:
    sorry,
    | (?:i'm|i\ am|we're|we\ are)\ (?:sorry|unable|not\ able)\b
    | (?:unable\ to|could\ not|couldn't|cannot|can't)\ (?:be\ )?
      (?:find|found|determin|locate|extract|answer|identif)
    | (?:i|we)\ (?:can|could|do|did)(?:\ ?not|n't)
      \ (?:find|determine|locate|extract|answer|identify|know|see)\b
    | there\ (?:is|are|was|were)\ no\b
    | (?:the|this)\ .{0,60}?\b(?:is|are|was|were|do|does|did|could|can)(?:\ ?not|n't)
      \ (?:be\ )?(?:found|contain|mention|state|specif|provid|give|availab|say|includ|present|list)
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_MAX_REFUSAL = 160
"""Characters; a longer text that begins like a refusal is a clause of a document."""
_NUMBER = re.compile(r"[^\d\s+-]{0,3} ?([+-]?\d[\d.,']{0,30})(?: ?[^\d\s]{0,3})")
_NOT_WORD = re.compile(r"[\W_]+")
_SHORT = 80
"""Characters of a value whose reading is kept."""
_CONTAINERS = (list, tuple, set, frozenset)


def abstained(value: object) -> bool:
    """Say whether a value is no answer: absent, empty, or words that say there is none.

    ``0`` and ``False`` are values. A list or mapping abstains if everything in it does.
    """
    if value is None or (isinstance(value, float) and not is_answer(value)):
        return True
    if isinstance(value, str):
        is_plain = type(value) is str and len(value) <= _SHORT
        return _short_abstained(value) if is_plain else _abstained(value)
    if isinstance(value, (Mapping, *_CONTAINERS)):
        return all(abstained(item) for item in items(value))
    return False


def _abstained(value: str) -> bool:
    text = value[: _MAX_REFUSAL + 1].replace("\u2019", "'").strip()
    if not text.strip("-\u2013\u2014./?\u2026 "):
        return not value.strip("-\u2013\u2014./?\u2026 \t\r\n")
    is_short = len(text) <= _MAX_REFUSAL
    return is_short and bool(_NOTHING.fullmatch(text) or _REFUSAL.match(text))


_short_abstained = lru_cache(1024)(_abstained)


def items(value: object, depth: int = 0) -> Iterator[Any]:
    """Yield the single values in a value, at most `MAX_ITEMS` on each level."""
    if isinstance(value, Mapping):
        value = tuple(islice(value.values(), MAX_ITEMS))
    if not isinstance(value, _CONTAINERS):
        yield value
    elif depth < MAX_DEPTH:
        for item in islice(value, MAX_ITEMS):
            yield from items(item, depth + 1)


def text_of(value: object) -> str:
    """Write a value as text; the items of a list or mapping stand side by side."""
    if isinstance(value, str):
        return value[:MAX_CHARACTERS].strip()
    if value is None:
        return ""
    if isinstance(value, (Mapping, *_CONTAINERS)):
        parts = (text_of(item) for item in islice(items(value), MAX_ITEMS))
        return " ".join(filter(None, parts))[:MAX_CHARACTERS]
    try:
        shown = value.isoformat() if hasattr(value, "isoformat") else value
        return str(shown)[:MAX_CHARACTERS].strip()
    except Exception:  # a value with a broken __str__, or an int of ten thousand digits
        return ""


def normal(value: object) -> str:
    """Bring a value to a form in which its spellings are equal.

    Case, punctuation and spacing do not matter, and a number keeps its value whatever its currency
    and separators are: ``RM 1,234.50`` and ``1234.5`` are equal. So are ``1 March 2026`` and
    ``2026-03-01``, and ``Germany`` and ``DE``. A date that may be two days keeps its figures.
    """
    text = text_of(value)
    is_plain = type(text) is str and len(text) <= _SHORT
    return _short_normal(text) if is_plain else _normal(text)


def _normal(text: str) -> str:
    lowered = text.casefold()
    amount = _NUMBER.fullmatch(lowered) if len(text) <= 40 else None
    number = _number(amount[1]) if amount is not None else None
    if number is not None and not (lowered[0].isalpha() and only_date(plain(text))[0]):
        return number  # and May 2026 is no amount of a currency
    typed = _typed_form(text) if len(text) <= _SHORT else None
    return typed or plain_form(text)


def plain_form(text: str) -> str:
    """Write what is no value of a kind in a form without case, punctuation and wide spaces."""
    lowered = text.casefold()
    return _NOT_WORD.sub(" ", lowered).strip() or lowered


def form_of_date(date: Date) -> str:
    """Write a date as ``2026-03-01``; a year or day that is left open has no figures."""
    year, month, day, _ = date
    return f"{year or 0:04}-{month:02}-{day or 0:02}"


def form_of_amount(amount: Amount) -> str | None:
    """Write an amount by its number and what it measures; ``None`` if it may be two numbers."""
    if len(amount.readings) != 1:
        return None
    measure, size = MEASURES[amount.unit] if amount.unit else ("", 1.0)
    sign = "-" if amount.negative else ""
    number = rounded(amount.readings[0] * size)
    return f"{sign}{number:.12g}{'' if measure == 'percent' else measure}"


def _typed_form(text: str) -> str | None:
    """Write a date, an amount or a code in its normal form; ``None`` for anything else."""
    forms = _readings(text, None)
    if len(forms) == 1:
        return forms[0]
    meanings = coded(text, fold(text))
    return f"{meanings[0].kind} {meanings[0].code.lower()}" if meanings else None


_short_normal = lru_cache(2048)(_normal)
"""One value is compared with every extraction and every rival of its record, by several scores."""


def _number(figures: str) -> str | None:
    """Read figures; ``None`` for what only looks like a number, such as ``1.2.3``.

    A mark before three digits groups thousands unless it is the only one and a point: ``1,234`` is
    1234 and ``1.234`` is not.
    """
    figures = figures.replace("'", "")
    mark = max(figures.rfind("."), figures.rfind(","))
    whole, part = (figures, "") if mark < 0 else (figures[:mark], figures[mark + 1 :])
    if mark >= 0 and figures[mark] == "," and len(part) == 3:
        whole, part = figures, ""
    elif mark >= 0 and figures[mark] in whole:
        return None
    digits = whole.replace(",", "").replace(".", "").lstrip("+")
    if not digits.lstrip("-").isdecimal() or (part and not part.isdecimal()):
        return None
    return f"{digits.lstrip('0') or '0'}.{part.rstrip('0')}".rstrip(".")


# What kind of thing a value is.

FREE_FORM = ("name", "line", "text")
"""Kinds that nothing about a value itself can check."""

# Each pattern begins with a set of characters and looks back from behind it, so that the engine
# skips to the next one of the set: five times as fast as a look-behind at the beginning.
_ENDS = r"(?![\d.,]*\d)"
_GROUP = "[., '\u2019\u00a0\u202f]"
_SIGNS = "$€£¥₹₩₽₺฿₫₪₴₦₱"
_CURRENCY = (
    rf"(?:[{_SIGNS}円元원]|(?:eur|usd|gbp|chf|jpy|cny|inr|krw|pln|czk|huf|sek|nok|dkk|ron|try|rub|uah"
    r"|idr|vnd|thb|myr|sgd|aud|cad|brl|mxn|zł|kč|kr|ft|lei|лв|руб|грн|tl|rp|rs|rm)(?![^\W\d_]))"
)
_GROUPS = rf"(?:{_GROUP}?\d{{3}}|,\d{{2}}(?=,)){{0,6}}"
_FIGURES = rf"\d(?<![\d.,]\d)\d{{0,2}}{_GROUPS}(?:[.,]\d{{1,2}})?"
_PATTERNS = {
    "email": (r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,5}",),
    "url": (r"https?://[^\s<>\"'`)\]]{3,200}", r"www\.[^\s<>\"'`)\]]{3,200}"),
    "date": (r"\d(?<![\d/.-]\d)\d{0,3}([-/.])\d{1,2}\1\d{2,4}(?!\d)",),
    "year": (r"[12](?<![\d.,/-].)(?:[0-9])\d\d(?![\d.,/-]*\d)",),
    "money": (
        rf"\d(?<![\d.,]\d)\d{{0,2}}{_GROUPS}[.,]\d{{2}}{_ENDS}",
        rf"{_FIGURES}[ \u00a0\u202f]?{_CURRENCY}",
        rf"[{_SIGNS}] ?{_FIGURES}{_ENDS}",
    ),
    "percent": (r"\d(?<![\d.,]\d)\d{0,3}(?:[.,]\d{1,4})?[ \u00a0\u202f]?%",),
    "version": (
        r"\d(?<![\d.]\d)\d{0,3}\.\d{1,4}(?:\.\d{1,4}){0,4}(?:[a-z]{1,3}\d{0,3})?(?![\d.]*\d)",
    ),
    "number": (rf"\d(?<![\d.,]\d)(?:\d{{0,2}}(?:[, ]\d{{3}}){{1,6}}|\d*)(?:[.,]\d+)?{_ENDS}",),
    "code": (
        r"[a-z\d](?<![\w-].)(?=[a-z/-]{0,12}\d|(?<=\d))[a-z\d/-]{3,30}(?![\w-])",
        r"[a-z](?<![\w-].)[a-z]\d\d(?: [a-z\d]{2,4}){3,8}(?![\w-])",
    ),
}
_COMPILED = {kind: tuple(map(re.compile, patterns)) for kind, patterns in _PATTERNS.items()}
_ASCII = {  # a fixed first set is found a quarter faster than the digits of all scripts
    kind: tuple(re.compile(re.sub(r"^\\d", "[0-9]", pattern)) for pattern in patterns)
    for kind, patterns in _PATTERNS.items()
}
_NAME = re.compile(  # the only kind that capitals make
    r"[^\W\d_a-z](?<![^\W_].)[\w&.'’-]{0,30}"
    r"(?:[ ,]{1,2}(?:of|the|and|de|van|von|der|&|\(?[^\W_a-z][\w&.'’)-]{0,30})){0,7}"
)
_LINE = re.compile(r"[^\n]{3,160}")
_SENTENCE = re.compile(r"[^\n.!?]{20,400}[.!?]?")
_AROUND = re.compile(r"[^\w]{0,4}(?:(?:v|[A-Za-z]{1,3} ?(?!\d{9}))|[$€£¥₹] ?)?")
_WHOLE = ("email", "url", "code")
_MAX_LINE, _MAX_WORDS = 120, 15


def kind_of(value: str) -> str:
    """Name the kind of a value, from the strictest that fits all of it.

    ``email url date year money percent version number code quantity boolean country currency
    language licence``, else ``name`` (capitalised words), ``line`` or, where it is longer than a
    line, ``text``.
    """
    text = value.strip()
    is_plain = type(text) is str and len(text) <= _SHORT
    return _short_kind(text) if is_plain else _kind(text)


def _kind(text: str) -> str:
    lowered = text.lower()
    if len(text) <= _MAX_LINE:
        around = _AROUND.match(lowered)
        bare = lowered[around.end() :] if around is not None else lowered
        for kind, patterns in _COMPILED.items():
            for candidate in (lowered,) if kind in _WHOLE else (lowered, bare):
                end = len(candidate.rstrip(" .,;:)"))
                for pattern in patterns:
                    match = pattern.match(candidate)
                    if match is not None and match.end() >= end > 0:
                        is_named = kind == "code" or (kind == "year" and candidate != lowered)
                        return _kind_of_named(text, kind) if is_named else kind
    typed = _typed_kind(text) if len(text) <= _SHORT else None
    if typed is not None:
        return typed
    if not text or len(text) > _MAX_LINE or text.count(" ") >= _MAX_WORDS:
        return "text"
    match = _NAME.match(text)
    return "name" if match is not None and match.end() >= len(text) - 2 else "line"


def _kind_of_named(text: str, kind: str) -> str:
    """Name the kind of what looks like a code or a year: ``05-AUG-2017`` is a date."""
    meant = coded(text, fold(text)) if kind == "code" else ()
    if meant:
        return meant[0].kind
    return "date" if only_date(plain(text))[0] else kind


_short_kind = lru_cache(2048)(_kind)


def _typed_kind(text: str) -> str | None:
    """Name the kind of what other languages, units and lists of codes make a value of a kind."""
    lowered = plain(text)
    is_code = len(text) <= MAX_CODE and text.isupper()  # Norway is no "no"
    if lowered in BOOLEANS and not is_code:
        return "boolean"
    if any(map(str.isdecimal, text)):
        if only_date(lowered)[0]:
            return "date"
        if alone := only_amounts(lowered):
            return _kind_of_amount(alone[0])
    meanings = coded(text, fold(text))
    return meanings[0].kind if meanings else None


def _kind_of_amount(amount: Amount) -> str:
    if amount.unit is not None:
        return "percent" if MEASURES[amount.unit][0] == "percent" else "quantity"
    return "money" if amount.currencies else "number"


_MAX_PHRASE, _FEW_WORDS = 400, 6


@lru_cache(512)
def core_of(phrase: str) -> tuple[str, str] | None:
    """Return kind and normal form of the only date, amount or measure that a phrase has.

    "at least ninety (90) days before its end" is about 90 days. The result is ``None`` where there
    is no such thing or more than one, and for a few words with a capital, such as "Milk 1 l".
    """
    if len(phrase) > _MAX_PHRASE or (phrase[:1].isupper() and phrase.count(" ") < _FEW_WORDS):
        return None
    text = plain(phrase)
    dated = {form_of_date(found.readings[0]) for found in dates(text) if len(found.readings) == 1}
    if dated:
        return ("date", dated.pop()) if len(dated) == 1 else None
    measured = [one for one in amounts(Tokens(text)) if one.tokens and (one.unit or one.currencies)]
    cores = {(_kind_of_amount(one), form_of_amount(one) or "") for one in measured}
    return cores.pop() if len(cores) == 1 else None


def spans_of_kind(kind: str, text: str, lowered: str) -> Iterator[tuple[int, int]]:
    """Yield where a text has what looks like a value of a kind; ``lowered`` is it in lower case.

    A ``line`` is a whole line, ``text`` a sentence. Of booleans and codes there are none.
    """
    if kind in _COMPILED:
        for pattern in (_ASCII if lowered.isascii() else _COMPILED)[kind]:
            match = None
            for match in find_all(pattern, lowered):
                yield match.span()
            if match is not None and kind == "money":
                break  # a document writes its amounts in one of the ways
    elif kind in FREE_FORM:
        pattern = _NAME if kind == "name" else _LINE if kind == "line" else _SENTENCE
        yield from (match.span() for match in find_all(pattern, text))


class TypedValue(NamedTuple):
    """What kind of thing a value is, and what it may be."""

    kind: str
    """As `kind_of` names it."""
    forms: tuple[str, ...]
    """The normal form; several where the value may be several things, as ``03/04/2025`` may."""

    @property
    def is_ambiguous(self) -> bool:
        """Whether the value may be several things."""
        return len(self.forms) > 1


def read_value(value: object, *, locale: object = None) -> TypedValue:
    """Read one value: its kind, and every normal form that it may have.

    Args:
        value: As an app, a person or a document wrote it.
        locale: In which it is written, such as ``de-DE``; it decides between day and month, and
            between decimals and thousands, where the figures leave both open.
    """
    text = text_of(value)
    forms = _readings(text, locale) if len(text) <= _SHORT else ()
    return TypedValue(kind_of(text), forms or (normal(text),))


def _readings(text: str, locale: object) -> tuple[str, ...]:
    """Return the forms of a date or amount in figures that may be several."""
    if not any(map(str.isdecimal, text)):
        return ()
    conventions = conventions_for(locale)
    lowered = plain(text)
    days, time = only_date(lowered)
    if days and time is None:
        return tuple(dict.fromkeys(map(form_of_date, conventions.dates(days))))
    alone = () if days else only_amounts(lowered)
    if len(alone) != 1:
        return ()
    numbers = conventions.numbers(alone[0], lowered)
    forms = (form_of_amount(alone[0]._replace(readings=(number,))) for number in numbers)
    return tuple(form for form in forms if form is not None)


def currency_of(value: object) -> str | None:
    """Return the currency of an amount, as a code or as a sign that several share."""
    text = text_of(value)
    if len(text) > _SHORT or not any(map(str.isdecimal, text)):
        return None
    found = only_amounts(plain(text))
    return found[0].currencies[0] if len(found) == 1 and found[0].currencies else None


def same_value(one: object, other: object, *, locale: object = None) -> bool:
    """Return whether two values have a normal form in common.

    Amounts in two currencies are two values; one without a currency may be either.
    """
    if normal(one) != normal(other):
        forms = read_value(one, locale=locale).forms
        if set(forms).isdisjoint(read_value(other, locale=locale).forms):
            return False
    mine, theirs = currency_of(one), currency_of(other)
    return (
        mine is None
        or theirs is None
        or mine == theirs
        or theirs in SHARED_SIGNS.get(mine, ())
        or mine in SHARED_SIGNS.get(theirs, ())
    )
