"""Percentiles and totals of values of which some stand for others that were left out.

A process with more than it can work off leaves whole traces out, each by a draw of its own, and the
chance to stay is stored with those that stayed. Each of these stands for one over its chance.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from math import ceil, floor, inf, sqrt
from statistics import NormalDist


_TWO_SIDED = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Three percentiles, interpolated between the two values that lie around each.

    With weights nothing is interpolated: each is the first value below which its share lies.
    """

    p50: float
    p95: float
    p99: float
    p95_interval: tuple[float, float] | None = None
    """The 95 % interval of ``p95``; ``None`` where there are too few values for one, or where it
    cannot be right, because values are weighted or lost."""


def weight_of(chance: float | None) -> float:
    """Return for how many a value stands that stayed with a chance; ``None`` is a chance of 1."""
    return 1 if chance is None or not 0 < chance < 1 else 1 / chance


@dataclass(slots=True)
class Sample:
    """Whole numbers, of which some stand for more than one."""

    numbers: list[int] = field(default_factory=list)
    further: list[tuple[int, float]] = field(default_factory=list)
    """Of some of the numbers, for how many others they stand as well."""

    def add(self, number: int, weight: float = 1) -> None:
        """Add a number that stands for so many."""
        self.numbers.append(number)
        if weight != 1:
            self.further.append((number, weight - 1))

    def merge(self, other: Sample) -> None:
        """Add all numbers of another sample."""
        self.numbers += other.numbers
        self.further += other.further

    def percentiles(self, per_unit: float) -> Percentiles | None:
        """Return the percentiles, of so many to the unit; the numbers are sorted on the way."""
        numbers = self.numbers
        if not numbers:
            return None
        numbers.sort()
        at, interval = _plain(numbers), _interval_of(numbers, 0.95)
        if self.further:
            at, interval = _weighted(numbers, self.further), None
        low, high = interval or (0, 0)
        return Percentiles(
            at(0.5) / per_unit, at(0.95) / per_unit, at(0.99) / per_unit,
            interval and (low / per_unit, high / per_unit),
        )  # fmt: skip


def _plain(ordered: list[int]) -> Callable[[float], float]:
    def at(share: float) -> float:
        place = share * (len(ordered) - 1)
        low = int(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (ordered[high] - ordered[low]) * (place - low)

    return at


def _weighted(ordered: list[int], further: list[tuple[int, float]]) -> Callable[[float], float]:
    further = sorted(further)
    values = [value for value, _ in further]
    sums = [0.0, *accumulate(weight for _, weight in further)]
    total = len(ordered) + sums[-1]

    def at(share: float) -> float:
        low, high = 0, len(ordered) - 1
        while low < high:
            middle = (low + high) // 2
            if middle + 1 + sums[bisect_right(values, ordered[middle])] < share * total:
                low = middle + 1
            else:
                high = middle
        return ordered[low]

    return at


def _interval_of(ordered: list[int], share: float) -> tuple[int, int] | None:
    """Return the 95 % interval of a percentile: two of the values themselves.

    How many values lie below the true percentile is binomial, of which the normal approximation
    says between which places it is (David and Nagaraja, *Order Statistics*, 2003, section 7.1).
    """
    count = len(ordered)
    spread = _TWO_SIDED * sqrt(count * share * (1 - share))
    low, high = floor(count * share - spread), ceil(count * share + spread)
    return (ordered[low], ordered[high]) if low >= 0 and high < count else None


@dataclass(slots=True)
class Thinned:
    """The traces that stayed with a chance below 1, and what was counted of each."""

    of_trace: dict[str, list[float]] = field(default_factory=dict)
    """By trace: its chance, how many rows of it were counted, and what they cost."""

    def add(self, trace_id: str, chance: float, count: float, cost_usd: float) -> None:
        """Add to what was counted of a trace."""
        one = self.of_trace.setdefault(trace_id, [chance, 0.0, 0.0])
        one[1] += count
        one[2] += cost_usd

    def merge(self, other: Thinned) -> None:
        """Add what was counted elsewhere."""
        for trace_id, one in other.of_trace.items():
            self.add(trace_id, *one)

    def intervals(
        self, count: float, cost_usd: float | None
    ) -> tuple[tuple[float, float] | None, tuple[float, float] | None]:
        """Return the 95 % intervals of a count and of a cost; ``None`` where nothing was drawn.

        Every trace was drawn by itself, so the variance of a total is the sum of
        ``(1 - chance) * (value / chance) ** 2`` (Horvitz and Thompson, 1952).
        """
        if not self.of_trace:
            return None, None
        spreads = [
            _interval_spread((one[0], one[place]) for one in self.of_trace.values())
            for place in (1, 2)
        ]
        cost = None if cost_usd is None else _around(cost_usd, spreads[1])
        return _around(count, spreads[0]), cost


def _interval_spread(drawn: Iterable[tuple[float, float]]) -> float:
    """Return half the 95 % interval of a total, of the chances and values that were drawn."""
    variance = sum((1 - chance) * (value / chance) ** 2 for chance, value in drawn)
    return _TWO_SIDED * sqrt(min(variance, inf))


def _around(value: float, spread: float) -> tuple[float, float]:
    return max(value - spread, 0.0), value + spread
