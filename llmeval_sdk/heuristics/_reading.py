"""Reading the loose metadata of a Record: numbers, chunk numbers, methods. Nothing here raises."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from llmeval_sdk.model import Extraction


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


def chunk_number(value: Any) -> int | None:
    """Read a 1-based chunk number; missing, zero, negative, broken and fractional ones are none."""
    if type(value) is int:
        return value if 0 < value < LARGEST else None
    found = number(value)
    return int(found) if found is not None and 1 <= found < LARGEST and found % 1 == 0 else None


_last: tuple[Any, list[int]] = ((), [])
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


def key(value: Any) -> Any:
    """Make a truthy value hashable, so that equal ones meet in a set; a falsy one is ``None``."""
    if type(value) in _HASHABLE:
        return value or None
    try:
        return text_of(value) if value is not None and value else None
    except Exception:  # an array has no truth of its own
        return text_of(value)


def text_of(value: Any) -> str:
    """Show a value of another type as text, whatever its ``repr`` does."""
    try:
        return repr(value)
    except Exception:
        return f"{type(value).__name__} at {id(value):x}"


def side(method: Any) -> str | None:
    """Fold the name of a retrieval method: synonyms to their side, others to lower case."""
    known = METHODS.get(method) if type(method) is str else None
    if known is not None or not isinstance(method, str):
        return known
    folded = method.strip().casefold()
    return METHODS.get(folded, folded)
