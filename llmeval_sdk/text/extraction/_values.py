"""Extracted values: whether there is one, and the form in which two spellings are equal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any

from llmeval_sdk.model.chat import is_answer


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
_LONGEST_REFUSAL = 160
"""Characters; a longer text that begins like a refusal is a clause of a document."""
_NUMBER = re.compile(r"[^\d\s+-]{0,3} ?([+-]?\d[\d.,']{0,30})(?: ?[^\d\s]{0,3})")
_NOT_WORD = re.compile(r"[\W_]+")
_SHORT = 80
"""Characters of a value whose reading is kept."""
_CONTAINERS = (list, tuple, set, frozenset)


def abstained(value: Any) -> bool:
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
    text = value[: _LONGEST_REFUSAL + 1].replace("\u2019", "'").strip()
    if not text.strip("-\u2013\u2014./?\u2026 "):
        return not value.strip("-\u2013\u2014./?\u2026 \t\r\n")
    is_short = len(text) <= _LONGEST_REFUSAL
    return is_short and bool(_NOTHING.fullmatch(text) or _REFUSAL.match(text))


_short_abstained = lru_cache(1024)(_abstained)


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
    text = text_of(value)
    is_plain = type(text) is str and len(text) <= _SHORT
    return _short_normal(text) if is_plain else _normal(text)


def _normal(text: str) -> str:
    text = text.casefold()
    amount = _NUMBER.fullmatch(text) if len(text) <= 40 else None
    number = _number(amount[1]) if amount is not None else None
    return number or _NOT_WORD.sub(" ", text).strip() or text


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
