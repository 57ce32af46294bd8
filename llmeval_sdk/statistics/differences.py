"""Which of many groups differ from the others, although some always look bad by chance.

Each group's mean is compared with the median of the others' means, which a few bad groups do not
move. The p-values go through the procedure of Benjamini and Hochberg (1995): of the groups that are
then said to differ, at most 5 % are expected to differ only by chance, however many were looked at.
The error of a group's mean is its own or, where that is larger, what records of all groups would
have: of forty records that all passed, the own error is too small to tell luck from quality.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from math import pi, sqrt
from statistics import NormalDist
from typing import NamedTuple

from llmeval_sdk.statistics.mean import Estimate


FALSE_SHARE = 0.05
"""Of the groups that are said to differ, the share that may be expected not to."""
FEWEST = 10
"""A group with fewer judged records says nothing yet."""


class GroupMean(NamedTuple):
    """The mean of one group."""

    estimate: Estimate | None
    judged: int
    size: int
    """How many records the group has, judged or not."""


class _Usable(NamedTuple):
    """A group that is large enough to be compared."""

    place: int
    """Its place among all groups."""
    size: int
    mean: float
    variance: float


def differing(groups: Sequence[GroupMean]) -> list[float]:
    """Return how far each group's mean is from the median of the others, where that is no chance.

    The number is 0 for a group that does not differ, that is too small to say, or that is alone.
    """
    distances = [0.0] * len(groups)
    tested: list[tuple[float, int, float]] = []
    usable = sorted(_usable(groups), key=lambda group: group.mean)
    records = sum(group.size for group in usable)
    spread = sum(group.size**2 * group.variance for group in usable)
    medians = _medians_without(usable) if len(usable) > 1 else []
    for group, median in zip(usable, medians, strict=False):
        distance = group.mean - median
        others = records - group.size
        of_others = max(0.0, spread - group.size**2 * group.variance) / others**2
        variance = group.variance + _OF_MEDIAN * of_others
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


def _medians_without(ordered: Sequence[_Usable]) -> list[float]:
    """Return for each group the mean of the one that has the middle one of all other records.

    The groups are in the order of their means. Where the middle is between two of them, the median
    is halfway between their means.
    """
    records_to = list(accumulate(group.size for group in ordered))
    medians = []
    for place, left_out in enumerate(ordered):
        middle = (records_to[-1] - left_out.size) / 2
        holder, skipped = bisect_left(records_to, middle), 0
        if holder >= place:
            skipped = left_out.size
            holder = bisect_left(records_to, middle + skipped, place + 1)
        mean = ordered[holder].mean
        if records_to[holder] - skipped == middle:
            following = holder + 1 + (holder + 1 == place)
            mean = (mean + ordered[following].mean) / 2
        medians.append(mean)
    return medians


def _error_of(estimate: Estimate) -> float:
    """Return the standard error behind an interval, whose shorter side a scale may have cut."""
    longer = max(estimate.mean - estimate.low, estimate.high - estimate.mean)
    return longer / NormalDist().inv_cdf(0.975)
