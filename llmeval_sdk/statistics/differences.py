"""The difference of two means over all traffic, with a 95 % interval.

The interval is that of Newcombe (1998, method 10; Zou and Donner 2008, "MOVER"): the distances of
each mean to the ends of its own interval are squared and added. It keeps the asymmetry that the
intervals of means near 0 or 1 have, and covers as well as they do.

**Assumptions.** The two samples share no records and do not depend on each other, and each interval
is valid by itself. It is one look at the data: for looks at any time give it two
`confidence_sequence` intervals, which makes it valid at any time with the sum of their errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot

from llmeval_sdk.statistics.mean import Estimate


@dataclass(frozen=True, slots=True)
class Difference:
    """The first mean less the second, and its interval."""

    mean: float
    low: float
    high: float

    @property
    def is_clear(self) -> bool:
        """Whether the whole interval lies on one side of 0."""
        return self.low > 0 or self.high < 0


def difference(first: Estimate, second: Estimate) -> Difference:
    """Return the first mean less the second."""
    mean = first.mean - second.mean
    below = hypot(first.mean - first.low, second.high - second.mean)
    above = hypot(first.high - first.mean, second.mean - second.low)
    return Difference(mean, mean - below, mean + above)
