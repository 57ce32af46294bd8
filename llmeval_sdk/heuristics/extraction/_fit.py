"""Whether a value looks as its field should, and is whole."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from llmeval_sdk.model import Record
from llmeval_sdk.model.chat import bounded_question
from llmeval_sdk.text.extraction import Reading
from llmeval_sdk.text.extraction.reading import FREE_FORM


TYPICAL_WORDS = 12
"""A value of more words than this becomes unusual for a field."""

_DATE, _MONEY, _NAME = ("date", "year"), ("money", "number"), ("name", "line", "text")
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
"""The last telling word of a field's name -> the kinds of value that fit it."""

_WORD = re.compile(r"[^\W\d_]{3,30}")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


def measure(record: Record, reading: Reading, *, fits: bool | None) -> dict[str, float]:
    """Check a value's format, kind and edges.

    ``fits`` says whether the value has its field's format, where that is known. What is returned:
    ``wrong_format``: it does not match the field's ``format``. ``wrong_kind``: the field's name
    calls for another kind of value. ``free_form``: it is of no kind that can be checked.
    ``cut_off``: the text goes on where the value ends. ``has_label``: a label came along with it.
    ``long``: it has more words than one value usually has. ``common``: share of a name's words that
    the passages also have in lower case. ``unrelated``: a rival address has a word of the request
    that this one lacks.
    """
    config = record.field_config if isinstance(record.field_config, Mapping) else {}
    kinds = expected_kinds(config)
    words = reading.value.count(" ") + 1
    return {
        "wrong_format": float(fits is False),
        "wrong_kind": float(bool(kinds) and reading.kind not in kinds and fits is not True),
        "free_form": float(reading.kind in FREE_FORM),
        "cut_off": float(_is_cut_off(reading)),
        "has_label": float(_has_label(reading)),
        "long": min(1.0, max(0, words - TYPICAL_WORDS) / 20),
        "common": _common(reading),
        "unrelated": _unrelated(record.request, reading),
    }


def expected_kinds(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the kinds of value that a field's format or name calls for; empty where unknown."""
    form, name = config.get("format"), config.get("name")
    if type(form) is str and form in ("date", "money", "number"):
        return _DATE if form == "date" else _MONEY
    if not isinstance(name, str):
        return ()
    words = _HUMP.sub(" ", name[:100]).replace("_", " ").replace("-", " ").lower().split()
    return next((_EXPECTED[word] for word in reversed(words) if word in _EXPECTED), ())


def _is_cut_off(reading: Reading) -> bool:
    """Say whether what stands right before or after the value seems to belong to it."""
    if reading.best is None or reading.kind not in FREE_FORM:
        return False
    start, end = reading.best
    text = reading.passages.text
    after = text[end : end + 2].strip(" ")
    before = text[max(0, start - 2) : start].rstrip(" ")
    return after[:1] in (",", "&", "-", "/", "(") or before[-1:] in ("&", "-", "/")


def _has_label(reading: Reading) -> bool:
    label, colon, rest = reading.value.partition(":")
    return bool(colon and rest.strip() and len(label) <= 30 and reading.kind != "url")


def _common(reading: Reading) -> float:
    if reading.kind not in ("name", "line"):
        return 0.0
    words = _WORD.findall(reading.value)[:8]
    text = reading.passages.text
    return sum(f" {word.lower()} " in text for word in words) / len(words) if words else 0.0


def _unrelated(request: Any, reading: Reading) -> float:
    if reading.kind not in ("url", "email"):
        return 0.0
    question = bounded_question(request).lower()
    names = {word for word in _WORD.findall(question) if len(word) > 3}
    mine = reading.value.lower()
    if any(word in mine for word in names):
        return 0.0
    return float(any(word in rival.value.lower() for rival in reading.rivals for word in names))
