"""How many of the bad records a score finds, when only a share of the traffic is looked at."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from math import sqrt


_Z = 1.959964


def caught_at(
    share: float,
    risks: Sequence[float],
    bad: Sequence[bool],
    weights: Sequence[float] | None = None,
) -> float | None:
    """Return the part, 0..1, of the bad records that stand among the riskiest ``share``.

    Records with the same risk are taken in random order, so a constant score catches ``share``.

    Args:
        share: The part of the traffic that is judged, 0..1.
        risks: A score of each record; the highest are judged first.
        bad: Whether each record is bad, in the same order.
        weights: How much traffic each record stands for, such as the inverse of its chance to be
            here; 1 each by default.

    Returns:
        ``None`` where no record is bad.
    """
    rows = sorted(
        zip(risks, bad, weights or [1.0] * len(risks), strict=True), key=lambda row: -row[0]
    )
    total = sum(weight for _, _, weight in rows)
    all_bad = sum(weight for _, is_bad, weight in rows if is_bad)
    if not all_bad:
        return None
    left, caught = share * total, 0.0
    for _, tied in groupby(rows, key=lambda row: row[0]):
        group = list(tied)
        size = sum(weight for _, _, weight in group)
        part = min(1.0, left / size) if size else 0.0
        caught += part * sum(weight for _, is_bad, weight in group if is_bad)
        left -= size
        if left <= 0:
            break
    return caught / all_bad


def caught_interval(
    caught: float | None, bad: Sequence[bool], weights: Sequence[float] | None = None
) -> tuple[float, float] | None:
    """Return the 95 % interval of a part that `caught_at` found, by how many records were bad."""
    found = [w for is_bad, w in zip(bad, weights or [1.0] * len(bad), strict=True) if is_bad]
    if caught is None or not found:
        return None
    return wilson(caught, sum(found) ** 2 / sum(weight * weight for weight in found))


def wilson(share: float, count: float) -> tuple[float, float]:
    """Return the 95 % interval of a share of ``count`` records (Wilson 1927), within 0..1."""
    middle = (share + _Z**2 / (2 * count)) / (1 + _Z**2 / count)
    half = _Z / (1 + _Z**2 / count) * sqrt(share * (1 - share) / count + _Z**2 / (4 * count**2))
    return max(0.0, middle - half), min(1.0, middle + half)
