"""The ten equal parts of a range in which the scores of a distribution are counted."""

from __future__ import annotations

from math import isfinite


BINS = 10
DIGIT = f"max(0, min({BINS - 1}, CAST((value - {{low}}) * {{scale}} AS INTEGER)))"
"""SQL: in which part a score lies, as one digit. To join these is two thirds of the time that a sum
for each part takes."""


def has_bins(low: float, high: float) -> bool:
    """Return whether a range can be divided into ten parts: it is finite, and not too small."""
    return isfinite(high - low) and isfinite(BINS / ((high - low) or 1.0))


def bin_of(value: float, low: float, high: float) -> int:
    """Say in which of the ten parts of a range a value lies, the lowest being 0."""
    return min(int((value - low) * (BINS / ((high - low) or 1.0))), BINS - 1)


def counted(digits: str) -> tuple[int, ...]:
    """Count how often each digit stands in a text."""
    return tuple(digits.count(str(number)) for number in range(BINS))
