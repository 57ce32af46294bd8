"""Whether a value looks as its field should, and is whole."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from llmeval_sdk.model import Record
from llmeval_sdk.model.chat import bounded_question
from llmeval_sdk.model.structure import config_of
from llmeval_sdk.text.amounts import MEASURES, only_amounts
from llmeval_sdk.text.extraction import Reading, value_of
from llmeval_sdk.text.folding import plain
from llmeval_sdk.text.labels import GROUPS, labels_in, words_of_name
from llmeval_sdk.text.values import FREE_FORM, kind_of, normal


TYPICAL_WORDS = 12
"""A value of more words than this becomes unusual for a field."""

_DATE, _MONEY = ("date", "year"), ("money", "number", "version")  # 41.5 may be a version, too
_NAME = ("name", "line", "text", "country")
_EXPECTED: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("date", "day", "expires", "expiry", "birthday", "deadline"), _DATE),
    **dict.fromkeys(
        ("total", "subtotal", "amount", "price", "cost", "fee", "salary", "balance", "tax", "sum"),
        _MONEY,
    ),
    **dict.fromkeys(
        ("name", "company", "author", "person", "vendor", "party", "city", "country", "address",
         "jurisdiction", "customer", "supplier", "owner"),
        _NAME,
    ),
    **dict.fromkeys(("url", "homepage", "website", "repository", "link"), ("url",)),
    "year": ("year", "date", "number"),
    "email": ("email",),
    "version": ("version", "money", "number", "code"),
    "count": ("number",),
    "quantity": ("number",),
}  # fmt: skip
"""The kinds of value that fit a field, by a word of its name; of several words, the last counts."""

_WORD_OF_VALUE = re.compile(r"[^\W\d_]{3,30}")


def measure_fit(record: Record, reading: Reading, *, fits: bool | None) -> dict[str, float]:
    """Check a value's format, kind and edges.

    ``fits`` says whether the value has its field's format, where that is known. What is returned:
    ``wrong_format``: it does not match the field's ``format``. ``wrong_kind``: the field's name
    calls for another kind of value. ``free_form``: it is of no kind that can be checked.
    ``cut_off``: the text goes on where the value ends. ``incomplete``: it is a part of a longer
    name, sentence, date or measure of the text. ``overlong``: another sentence came along with a
    part of one. ``has_label``: a label came along with it.
    ``long``: it has more words than one value usually has. ``common``: share of a name's words that
    the passages also have in lower case. ``unrelated``: a rival address has a word of the request
    that this one lacks. ``is_label``: a name or address that reads as a label or a heading.
    ``foreign_line``: one of its lines is a label, a date, a link or the number of a company.
    ``no_legal_form``: a company without the legal form that another line has. ``far_down``: how far
    from the top of the passages a seller's name stands. ``no_address``: an address without figures.
    """
    config = config_of(record)
    kinds = expected_kinds(config)
    words = reading.value.count(" ") + 1
    return {
        "wrong_format": float(fits is False),
        "wrong_kind": float(bool(kinds) and reading.kind not in kinds and fits is not True),
        "free_form": float(reading.kind in FREE_FORM),
        "cut_off": float(_is_cut_off(reading)),
        "incomplete": float(_is_incomplete(record, reading)),
        "overlong": float(_is_overlong(reading.value)),
        "has_label": float(_has_label(reading)),
        "long": min(1.0, max(0, words - TYPICAL_WORDS) / 20),
        "common": _common(reading),
        "unrelated": _unrelated(record.request, reading),
        **_measure_name(config, reading),
    }


_LABEL_TEXT = """
amount balance bill card cash cashier change count credit date debit description discount document
excl fax gst hotline incl inclusive invoice item items member no number order payment phone price
qty quantity receipt reference reg register rounding sales served slip store subtotal table tax tel
telephone terminal time total vat
"""
_LABEL_WORDS = frozenset(_LABEL_TEXT.split())
"""Words of labels and headings that are seldom part of a name."""
_FOREIGN = ("date", "email", "url")
_REGISTRATION = re.compile(r"(?<![\w-])\d{5,12}-[^\W\d_](?!\w)")
"""The registration number of a company, such as "1248717-W"."""
_MAX_LABEL = 60
_COMPANY = ("company", "vendor", "supplier", "seller", "merchant", "issuer", "organisation",
            "organization", "employer", "licensor", "lessor", "contractor")  # fmt: skip
_LEGAL_FORM = re.compile(
    r"""(?<!\w)(?:
    ltd|limited|inc|incorporated|llc|llp|plc|corp|corporation|gmbh|ag|kg|kgaa|ug|ohg|e\.?\s?k|se
    |s\.?a\.?s|sarl|sas|s\.?\s?p\.?\s?a|s\.?\s?r\.?\s?l|snc|s\.?a|s\.?l|s\.?l\.?u|lda|ltda|b\.?v|n\.?v
    |a\.?b|a/?s|asa|aps|oyj?|sp\.?\s?z\s?o\.?\s?o|s\.?r\.?o|a\.s|kft|zrt|d\.?o\.?o|sdn\.?\s?bhd|bhd
    |pty|pte|co|company|ooo|ооо|оао|зао|пао|ао|тов|α\.?\s?ε|ε\.?\s?π\.?\s?ε|ι\.?\s?κ\.?\s?ε
    )\.?(?!\w)|株式会社|有限会社|合同会社|有限公司|股份公司|주식회사|유한회사|\(주\)""",
    re.VERBOSE,
)
"""The legal forms of companies, in lower case."""
_MAX_SEARCHED = 10_000
"""Only this many characters of the passages are searched for a legal form."""
_LINES = 20
"""From this line on, a seller's name counts fully as far down."""


def _measure_name(config: Mapping[str, object], reading: Reading) -> dict[str, float]:
    """Look at the words of a name or an address, and where a seller's name stands."""
    field = frozenset(_words_of_name(config))
    is_address = "address" in field
    is_party = reading.concept in GROUPS["party"] or not field.isdisjoint(_COMPANY)
    if not (is_address or is_party):
        return {}
    if reading.kind in _FOREIGN:
        return {"foreign_line": float(reading.kind != "email")}
    value = plain(reading.value)
    measured = {"is_label": _reads_as_label(value), "foreign_line": _foreign_line(value)}
    if is_address:
        return {**measured, "no_address": float(not any(map(str.isdecimal, value)))}
    if not field.isdisjoint(_COMPANY) or reading.concept == "seller":
        text = reading.passages.lowered
        is_bare = not _LEGAL_FORM.search(value) and _has_legal_form(text)
        best = None if reading.stands_under_own else reading.best
        lines = text.count("\n", 0, best[0]) if best is not None else 0
        measured |= {"no_legal_form": float(is_bare), "far_down": min(1.0, lines / _LINES)}
    return measured


@lru_cache(maxsize=16)  # several fields of an answer ask
def _has_legal_form(text: str) -> bool:
    return _LEGAL_FORM.search(text, 0, _MAX_SEARCHED) is not None


def _reads_as_label(value: str) -> float:
    """Return how much of a name or address is made of the words of labels, 0..1.

    The result is 1 from a half of the words or characters on, and for a text that ends in a colon.
    """
    if len(value) > _MAX_LABEL:
        return 0.0
    if value.endswith(":"):
        return 1.0
    words = _WORD_OF_VALUE.findall(value)
    ours = sum(word in _LABEL_WORDS for word in words)
    groups = (group for group in GROUPS if group != "party")
    labels = [label for group in groups for label in labels_in(f"{value}:", group)]
    covered = sum(label.end - label.start for label in labels) / max(1, len(value))
    return min(1.0, 2 * max(ours / len(words) if words else 0.0, covered))


_MAX_LINES = 10


def _foreign_line(value: str) -> float:
    """Return how much a line of a name or address is of another kind, 0..1."""
    if _REGISTRATION.search(value):
        return 1.0
    lines = value.split("\n")[:_MAX_LINES]
    if len(lines) < 2:  # `is_label` says it
        return 0.0
    if any(kind_of(line.strip()) in _FOREIGN for line in lines):
        return 1.0
    return max(map(_reads_as_label, lines))


def expected_kinds(config: Mapping[str, object]) -> tuple[str, ...]:
    """Return the kinds of value that fit a field, by its format or else its name.

    The result is empty where neither says anything.
    """
    form = config.get("format")
    if type(form) is str and form in ("date", "money", "number"):
        return _DATE if form == "date" else _MONEY
    words = reversed(_words_of_name(config))
    return next((_EXPECTED[word] for word in words if word in _EXPECTED), ())


def _words_of_name(config: Mapping[str, object]) -> tuple[str, ...]:
    name = config.get("name")
    return _words_in(name[:100]) if isinstance(name, str) else ()


@lru_cache(maxsize=512)
def _words_in(name: str) -> tuple[str, ...]:
    return tuple(map(str.lower, words_of_name(name)))


_GOES_ON = re.compile(r" ?(?:[&/-]|,\s{0,2}[^\W\d_a-z])")
"""A name goes on behind a comma with a capital; "a Delaware corporation" belongs to none."""


def _is_cut_off(reading: Reading) -> bool:
    """Say whether what stands right before or after the value seems to belong to it."""
    if reading.best is None or reading.kind not in FREE_FORM:
        return False
    start, end = reading.best
    text = reading.passages.text
    before = text[max(0, start - 2) : start].rstrip(" ")
    return before[-1:] in ("&", "-", "/") or _GOES_ON.match(text, end) is not None


_WORD_BEHIND = re.compile(r"[ \t\u00a0-]?\n?([^\W\d_]+|%)")
_DAY_BEFORE = re.compile(r"(?<![\d.,])\d{1,2}(?:st|nd|rd|th|\.)?,? (?:day )?(?:of |de )?\Z")
_MAX_WORD = 30


def _is_incomplete(record: Record, reading: Reading) -> bool:
    """Say whether the text has more of a value: "December 2006" for "December 14th, 2006"."""
    if reading.best is None:
        return False
    start, end = reading.best
    text, kind = reading.passages.text, reading.kind
    if kind == "date":
        has_day = _DAY_BEFORE.search(text[max(0, start - _MAX_WORD) : start]) is not None
        has_day = has_day or not normal(text[start:end]).endswith("-00")
        return reading.form.endswith("-00") and has_day
    behind = _WORD_BEHIND.match(text, end, end + _MAX_WORD)
    if behind is not None and behind[1].lower() in MEASURES and _is_number(kind, reading.value):
        return isinstance(value_of(record), str)  # a figure of its own type needs no unit
    if kind == "name":
        return behind is not None and "\n" not in behind[0] and behind[1].istitle()
    begins = text[max(0, start - 2) : start].strip(" ")[-1:] in ("", ".", "\n", ";", ":")
    goes_on = behind is not None and behind[1].islower() and text[end - 1 : end] not in ".;"
    return kind in FREE_FORM and begins and goes_on and reading.value[:1].isupper()


def _is_number(kind: str, value: str) -> bool:
    return kind == "number" or (kind in FREE_FORM and bool(only_amounts(plain(value[:_MAX_WORD]))))


_NEXT_SENTENCE = re.compile(r"[^\W\d_]{3}[.)]{1,2}\s+(?=[A-Z0-9])")
_MIN_WORDS = 5


def _is_overlong(value: str) -> bool:
    """Say whether a value begins within a sentence and goes on into the next one."""
    is_long = value.count(" ") >= _MIN_WORDS and not value[:1].isupper()
    return is_long and _NEXT_SENTENCE.search(value) is not None


def _has_label(reading: Reading) -> bool:
    label, colon, rest = reading.value.partition(":")
    return bool(colon and rest.strip() and len(label) <= 30 and reading.kind != "url")


def _common(reading: Reading) -> float:
    if reading.kind not in ("name", "line"):
        return 0.0
    every = _WORD_OF_VALUE.findall(reading.value)[:8]
    words = [word for word in every if not word.islower() and word.lower() != word.upper()]
    text = reading.passages.text
    return sum(f" {word.lower()} " in text for word in words) / len(every) if words else 0.0


def _unrelated(request: object, reading: Reading) -> float:
    if reading.kind not in ("url", "email"):
        return 0.0
    question = bounded_question(request).lower()
    names = {word for word in _WORD_OF_VALUE.findall(question) if len(word) > 3}
    mine = reading.value.lower()
    if any(word in mine for word in names):
        return 0.0
    return float(any(word in rival.value.lower() for rival in reading.rivals for word in names))
