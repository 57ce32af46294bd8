"""The ten equal parts of a range in which the scores of a distribution are counted."""

from __future__ import annotations

from math import inf, isfinite, nextafter


BINS = 10


def has_bins(low: float, high: float) -> bool:
    """Return whether a range can be divided into ten parts: it is finite, and not too small."""
    return isfinite(high - low) and isfinite(BINS / ((high - low) or 1.0))


def bin_of(value: float, low: float, high: float) -> int:
    """Say in which of the ten parts of a range a value lies, the lowest being 0."""
    return min(int((value - low) * (BINS / ((high - low) or 1.0))), BINS - 1)


def edge(low: float, high: float, number: int) -> float:
    """Return the smallest value that `bin_of` puts into a part of a range, or above it."""
    value = low + number * ((high - low) or 1.0) / BINS
    while bin_of(value, low, high) >= number:
        value = nextafter(value, -inf)
    while bin_of(value, low, high) < number:
        value = nextafter(value, inf)
    return value
