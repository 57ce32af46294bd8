"""Where a score stands among the recent ones: the running quantile behind escalation by share."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque


class RecentScores:
    """The last ``size`` scores, kept in order of age and of height.

    Adding one costs two binary searches and two short memory moves.
    """

    __slots__ = ("_by_age", "_by_height", "_size")

    def __init__(self, size: int = 500) -> None:
        self._size = size
        self._by_age: deque[float] = deque()
        self._by_height: list[float] = []

    def __len__(self) -> int:
        return len(self._by_age)

    def add(self, score: float) -> None:
        """Take a score in, and let go of the oldest when there are too many."""
        self._by_age.append(score)
        insort(self._by_height, score)
        if len(self._by_age) > self._size:
            oldest = self._by_age.popleft()
            place = bisect_left(self._by_height, oldest)
            if self._by_height[place : place + 1] == [oldest]:
                del self._by_height[place]
            else:  # a fork or signal came between two steps: put it right
                self._by_height = sorted(self._by_age)

    def ranks(self, score: float) -> tuple[float, float]:
        """Return between which ranks a new score falls: 0 is the highest of all, 1 the lowest.

        The new score takes a random place among its equals, itself included: with g of n recent
        scores above it and e equal to it, its rank is uniform in g..g+e+1, here over n + 1. For
        any stream whose order is arbitrary the rank is uniform in 0..1 exactly, however many scores
        are equal (the smoothed p-value of conformal prediction).
        """
        count = len(self._by_height)
        right = bisect_right(self._by_height, score)
        equal = right - bisect_left(self._by_height, score, 0, right)
        above = count - right
        return above / (count + 1), (above + equal + 1) / (count + 1)
