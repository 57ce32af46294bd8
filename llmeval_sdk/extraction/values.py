"""Extracted values: whether there is one, and the form in which two spellings are equal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any


MAX_CHARACTERS = 1_000
"""Of a value; what follows is not compared."""
MAX_ITEMS = 50
"""Of a list or mapping, on each level."""
MAX_DEPTH = 6

_SAID = (
    r"(?:answers?|values?|found|available|applicable|specified|stated|mention(?:ed)?|provided?|given"
    r"|determined?|known?|listed|contain(?:ed)?|present|information|data|indicated?|includ(?:e|ed))"
)
_REFUSAL = re.compile(
    r"n\.?/?a\.?|none|null|nil|nan|unknown|missing|undefined|unanswerable|tbd|[-–—?]{1,3}"
    rf"|(?:no|not|none)(?: [\w/-]+){{0,4}}? {_SAID}(?: .{{0,60}})?"
    r"|there (?:is|are|was|were) no .{1,80}|(?:unable to|cannot|can't|couldn't|could not) .{1,80}"
    r"|i (?:do not|don't|did not|didn't|could not|couldn't|cannot|can't) .{1,80}"
    r"|the (?:[\w-]+ ){1,4}(?:is not|isn't|was not|are not|does not|doesn't) "
    rf"{_SAID}(?: .{{0,60}})?",
    re.DOTALL,
)
_LONGEST_REFUSAL = 120
_NUMBER = re.compile(r"[^\d\s+-]{0,3} ?([+-]?\d[\d.,']{0,30})(?: ?[^\d\s]{0,3})")
_NOT_WORD = re.compile(r"[\W_]+")
_CONTAINERS = (list, tuple, set, frozenset)


def abstained(value: Any) -> bool:
    """Say whether a value is no answer: absent, empty, or words that say there is none.

    ``0`` and ``False`` are values. A list or mapping abstains if everything in it does.
    """
    if value is None:
        return True
    if isinstance(value, str):
        text = value[: _LONGEST_REFUSAL + 40].strip(" \t\r\n.()[]\"'").lower()
        if not text:
            return not any(map(str.isalnum, value[:MAX_CHARACTERS]))
        return len(text) <= _LONGEST_REFUSAL and _REFUSAL.fullmatch(text) is not None
    if isinstance(value, (Mapping, *_CONTAINERS)):
        return all(abstained(item) for item in items(value))
    return False


def items(value: Any, depth: int = 0) -> Iterator[Any]:
    """Yield the single values in a value, at most `MAX_ITEMS` on each level."""
    if isinstance(value, Mapping):
        value = tuple(islice(value.values(), MAX_ITEMS))
    if not isinstance(value, _CONTAINERS):
        yield value
    elif depth < MAX_DEPTH:
        for item in islice(value, MAX_ITEMS):
            yield from items(item, depth + 1)


def text_of(value: Any) -> str:
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


def normal(value: Any) -> str:
    """Bring a value to a form in which its spellings are equal.

    Case, punctuation and spacing do not matter, and a number keeps its value whatever its currency
    and separators are: ``RM 1,234.50`` and ``1234.5`` are equal.
    """
    text = text_of(value).casefold()
    amount = _NUMBER.fullmatch(text) if len(text) <= 40 else None
    number = _number(amount[1]) if amount is not None else None
    return number or _NOT_WORD.sub(" ", text).strip() or text


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
