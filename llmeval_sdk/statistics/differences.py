"""Which of many groups differ from the others, although some always look bad by chance.

Each group's mean is compared with the mean of all other groups. The p-values go through the
procedure of Benjamini and Hochberg (1995): of the groups that are then said to differ, at most 5 %
are expected to differ only by chance, however many were looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

from llmeval_sdk.statistics.mean import Estimate


FALSE_SHARE = 0.05
"""The share of the named groups that may be expected to be named by chance."""
FEWEST = 10
"""A group with fewer judged records says nothing yet."""


class GroupMean(NamedTuple):
    """The mean of one group."""

    estimate: Estimate | None
    judged: int
    size: int
    """How many records the group has, judged or not."""


def differing(groups: Sequence[GroupMean]) -> list[float]:
    """Return how far each group's mean is from the mean of all others, where that is no chance.

    The number is 0 for a group that does not differ, that is too small to say, or that is alone.
    """
    usable = [
        (place, group.size, group.estimate, _error_of(group.estimate))
        for place, group in enumerate(groups)
        if group.estimate is not None and group.judged >= FEWEST and group.size
    ]
    distances = [0.0] * len(groups)
    records = sum(size for _, size, _, _ in usable)
    total = sum(size * estimate.mean for _, size, estimate, _ in usable)
    spread = sum((size * error) ** 2 for _, size, _, error in usable)
    tested: list[tuple[float, int, float]] = []
    for place, size, estimate, error in usable:
        if size == records:
            return distances
        others = records - size
        distance = estimate.mean - (total - size * estimate.mean) / others
        variance = error**2 + max(0.0, spread - (size * error) ** 2) / others**2
        if variance > 0:
            chance = 2 * NormalDist().cdf(-abs(distance) / variance**0.5)
            tested.append((chance, place, distance))
    tested.sort()
    named = max(
        (
            rank
            for rank, (chance, _, _) in enumerate(tested, 1)
            if chance <= FALSE_SHARE * rank / len(tested)
        ),
        default=0,
    )
    for _, place, distance in tested[:named]:
        distances[place] = distance
    return distances


def _error_of(estimate: Estimate) -> float:
    """Return the standard error behind an interval, whose shorter side a scale may have cut."""
    longer = max(estimate.mean - estimate.low, estimate.high - estimate.mean)
    return longer / NormalDist().inv_cdf(0.975)
