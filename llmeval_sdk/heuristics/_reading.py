"""Reading the loose metadata of a Record: numbers, chunk numbers, methods. Nothing here raises."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from llmeval_sdk.model import Extraction
from llmeval_sdk.process.loading import loading
from llmeval_sdk.process.shield import caught


LEXICAL, DENSE = "bm25", "knn"

METHODS = {
    **dict.fromkeys(("bm25", "lexical", "sparse", "keyword", "fulltext"), LEXICAL),
    **dict.fromkeys(("knn", "vector", "dense", "semantic", "embedding"), DENSE),
}
"""The words for the two sides of a hybrid retrieval -> the side."""

_HASHABLE = (str, int, float, bool)

LARGEST = 2**53
"""No chunk has a number from here on; nor can every float tell two such numbers apart."""
INFINITY = float("inf")


def number(value: Any) -> float | None:
    """Read a finite number, also from a str such as ``"0.8"``; a bool is none."""
    if type(value) is not float:
        if value is None or isinstance(value, bool):
            return None
        try:
            value = float(value)
        except Exception:
            return None
    return value if -INFINITY < value < INFINITY else None


def chunk_number(value: object) -> int | None:
    """Read a 1-based chunk number; missing, zero, negative, broken and fractional ones are none."""
    if type(value) is int:
        return value if 0 < value < LARGEST else None
    found = number(value)
    return int(found) if found is not None and 1 <= found < LARGEST and found % 1 == 0 else None


_last: tuple[object, list[int]] = ((), [])
"""The extractions that were read last: several scores of one record read the same ones."""


def chunk_numbers(extractions: Sequence[Extraction]) -> list[int]:
    """Collect the chunk numbers that extractions cite, in order, repeated ones too."""
    global _last  # noqa: PLW0603
    last, found = _last
    if last is not extractions or type(extractions) is not tuple:  # which nobody can change
        found = _chunk_numbers(extractions)
        _last = extractions, found
    return found


def _chunk_numbers(extractions: Iterable[Extraction]) -> list[int]:
    found = []
    for extraction in extractions:
        cited = extraction.chunk_number
        if type(cited) is not int or not 0 < cited < LARGEST:
            cited = chunk_number(cited)
        if cited is not None:
            found.append(cited)
    return found


def key(value: object) -> Any:
    """Make a truthy value hashable, so that equal ones meet in a set; a falsy one is ``None``."""
    if type(value) in _HASHABLE:
        return value or None
    try:
        return text_of(value) if value is not None and value else None
    except Exception:  # an array has no truth of its own
        return text_of(value)


def text_of(value: object) -> str:
    """Show a value of another type as text, whatever its ``repr`` does."""
    try:
        return repr(value)
    except Exception:
        return f"{type(value).__name__} at {id(value):x}"


def side(method: object) -> str | None:
    """Fold the name of a retrieval method: synonyms to their side, others to lower case."""
    known = METHODS.get(method) if type(method) is str else None
    if known is not None or not isinstance(method, str):
        return known
    folded = method.strip().casefold()
    return METHODS.get(folded, folded)


# Whether a value has the format that its field's configuration names.


_WORDS = ("date", "number", "money")
_DATE_PATTERN = re.compile(
    r"%?[YMDBymdb]{1,9}[-/., ]{1,3}%?[YMDBymdb]{1,9}(?:[-/., ]{1,3}%?[YMDBymdb]{1,9})?"
)
_MAX_LENGTH = 1_000
"""The longest value, in characters, that is looked at. That may be on the app's own thread."""
_SITE = "field_config: a format is not used, as it can take seconds for a short value"


def matches(value: object, form: object) -> bool | None:
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


def _matches(value: object, form: object) -> bool | None:  # noqa: PLR0911
    if isinstance(value, str) and len(value) > _MAX_LENGTH:
        return None
    if callable(form):
        return _accepts(form, value)
    if isinstance(form, re.Pattern):
        return _matches_pattern(value, form)
    if not isinstance(form, str):
        return None
    word = form.strip().lower()
    if word in _WORDS:
        return _is_date(value) if word == "date" else _is_amount(value, money=word == "money")
    if not word or word.isalpha():  # the name of a format that we do not know
        return None
    if _DATE_PATTERN.fullmatch(form):
        return _is_date(value)
    return _matches_pattern(value, form)


def _matches_pattern(value: object, pattern: str | re.Pattern[str]) -> bool | None:
    """Match the whole value; ``None`` where that could take long, for any value or for this one."""
    from llmeval_sdk.process.patterns import UnboundedPatternError, longest_text

    try:
        most = longest_text(pattern)
    except UnboundedPatternError:
        caught.add(_SITE)
        return None
    text = str(value)
    return re.fullmatch(pattern, text) is not None if len(text) <= most else None


def _accepts(form: Any, value: Any) -> bool:
    try:
        answer = form(value)
    except Exception:
        return False
    return answer is not False and answer is not None


def _is_date(value: object) -> bool:
    if hasattr(value, "isoformat"):
        return True
    with loading:
        from llmeval_sdk.text.amounts import only_date
        from llmeval_sdk.text.folding import plain

    return isinstance(value, str) and bool(only_date(plain(value))[0])


def _is_amount(value: object, *, money: bool) -> bool:
    """Accept one number; a unit makes it more than a number, and a currency makes it money."""
    if isinstance(value, (int, float)):
        return not isinstance(value, bool) and value == value and abs(value) != float("inf")  # noqa: PLR0124
    with loading:
        from llmeval_sdk.text.amounts import only_amounts
        from llmeval_sdk.text.folding import plain

    found = only_amounts(plain(str(value)))
    if len(found) != 1 or (found[0].currencies and not money):
        return False
    return found[0].unit is None or (not money and found[0].unit in ("%", "percent"))
