"""Whether a value has the format that its field's configuration names."""

from __future__ import annotations

import re
from typing import Any


_WORDS = ("date", "number", "money")
_DATE_PATTERN = re.compile(r"%?[YMDBymdb]+[-/., ]+%?[YMDBymdb]+(?:[-/., ]+%?[YMDBymdb]+)?")
_LONGEST = 1_000
"""The longest value, in characters, that is matched. Matching may run on the app's own thread."""


def matches(value: Any, form: Any) -> bool | None:
    """Return whether a value has the format of its field, or ``None`` if that is unknown.

    The format is ``date``, ``number`` or ``money``; a regular expression that must match the whole
    value; or a callable, which says no by returning ``False`` or ``None`` or by raising. A pattern
    such as ``YYYY-MM-DD`` accepts a date however it is written. All items of a list must match.
    """
    try:
        if isinstance(value, (list, tuple)):
            found = [_matches(item, form) for item in value]
            return None if not found or None in found else all(found)
        return _matches(value, form)
    except Exception:
        return None


def _matches(value: Any, form: Any) -> bool | None:  # noqa: PLR0911
    if isinstance(value, str) and len(value) > _LONGEST:
        return None
    if callable(form):
        return _accepts(form, value)
    if isinstance(form, re.Pattern):
        return form.fullmatch(str(value)) is not None
    if not isinstance(form, str):
        return None
    word = form.strip().lower()
    if word in _WORDS:
        return _is_date(value) if word == "date" else _is_amount(value, money=word == "money")
    if not word or word.isalpha():  # the name of a format that we do not know
        return None
    if _DATE_PATTERN.fullmatch(form):
        return _is_date(value)
    return re.fullmatch(form, str(value)) is not None


def _accepts(form: Any, value: Any) -> bool:
    try:
        answer = form(value)
    except Exception:
        return False
    return answer is not False and answer is not None


def _is_date(value: Any) -> bool:
    if hasattr(value, "isoformat"):
        return True
    from llmeval_sdk.text.grounding.dates import only_date
    from llmeval_sdk.text.grounding.evidence import plain

    return isinstance(value, str) and bool(only_date(plain(value))[0])


def _is_amount(value: Any, *, money: bool) -> bool:
    """Accept one number; a unit makes it more than a number, and a currency makes it money."""
    if isinstance(value, (int, float)):
        return not isinstance(value, bool) and value == value and abs(value) != float("inf")  # noqa: PLR0124
    from llmeval_sdk.text.grounding.amounts import only_amounts
    from llmeval_sdk.text.grounding.evidence import plain

    found = only_amounts(plain(str(value)))
    if len(found) != 1 or (found[0].currencies and not money):
        return False
    return found[0].unit is None or (not money and found[0].unit in ("%", "percent"))
