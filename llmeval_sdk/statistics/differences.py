"""Which of many groups differ from the others, although some always look bad by chance.

Each group's mean is compared with the median of the others' means, which a few bad groups do not
move. The p-values go through the procedure of Benjamini and Hochberg (1995): of the groups that are
then said to differ, at most 5 % are expected to differ only by chance, however many were looked at.
The error of a group's mean is its own or, where that is larger, what records of all groups would
have: of forty records that all passed, the own error is too small to tell luck from quality.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi, sqrt
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


class _Usable(NamedTuple):
    place: int
    size: int
    mean: float
    variance: float


def differing(groups: Sequence[GroupMean]) -> list[float]:
    """Return how far each group's mean is from the median of the others, where that is no chance.

    The number is 0 for a group that does not differ, that is too small to say, or that is alone.
    """
    distances = [0.0] * len(groups)
    tested: list[tuple[float, int, float]] = []
    usable = _usable(groups)
    for group in usable:
        others = [other for other in usable if other is not group]
        if not others:
            continue
        distance = group.mean - _median(others)
        records = sum(other.size for other in others)
        spread = sum((other.size / records) ** 2 * other.variance for other in others)
        variance = group.variance + _OF_MEDIAN * spread
        if variance > 0:
            chance = 2 * NormalDist().cdf(-abs(distance) / sqrt(variance))
            tested.append((chance, group.place, distance))
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


_OF_MEDIAN = pi / 2
"""How much more the median of normal values varies than their mean."""


def _usable(groups: Sequence[GroupMean]) -> list[_Usable]:
    """Return the groups that are large enough, each with the variance of its mean."""
    large = [
        (place, group, group.estimate, _error_of(group.estimate) ** 2)
        for place, group in enumerate(groups)
        if group.estimate is not None and group.judged >= FEWEST and group.size
    ]
    judged = sum(group.judged for _, group, _, _ in large)
    # Each group's variance times its records is the variance of one record.
    of_record = sum(variance * group.judged**2 for _, group, _, variance in large) / max(judged, 1)
    return [
        _Usable(place, group.size, estimate.mean, max(variance, of_record / group.judged))
        for place, group, estimate, variance in large
    ]


def _median(groups: Sequence[_Usable]) -> float:
    """Return the mean of the group that has the middle record, in the order of the means.

    Where the middle is between two groups, it is halfway between their means.
    """
    middle, below = sum(group.size for group in groups) / 2, 0.0
    ordered = sorted(groups, key=lambda group: group.mean)
    for place, group in enumerate(ordered):
        below += group.size
        if below == middle:
            return (group.mean + ordered[place + 1].mean) / 2
        if below > middle:
            return group.mean
    return ordered[-1].mean


def _error_of(estimate: Estimate) -> float:
    """Return the standard error behind an interval, whose shorter side a scale may have cut."""
    longer = max(estimate.mean - estimate.low, estimate.high - estimate.mean)
    return longer / NormalDist().inv_cdf(0.975)
