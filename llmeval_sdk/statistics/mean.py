"""The mean over all traffic, with a 95 % interval, from records judged with unequal chances.

The estimate is Hájek's (1971): each value weighs the inverse of its inclusion probability. Its
variance is the linearised one, sum(w² (y - mean)²) / sum(w)². A small control sample may hold no
bad record at all although there are some, and then this variance is far too small. So, for the
interval only, two records are added at the ends of the scale that weigh 0.4 to 0.7 times as much
as the heaviest, most where few records carry most of the weight (the idea of Agresti and Coull
1998; the figures are by simulation, `make quality`), and the quantile is Student's with as many
degrees of freedom as Kish's effective sample size has. The truth that it covers is the mean of the
process behind the traffic, so an interval has a width also where every record was judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import Literal


CONFIDENCE = 0.95
PADDING, MORE_PADDING, FEW = 0.4, 0.3, 50.0
"""What the two added records weigh, in heaviest records, and how much more where the effective
number of records is at most `FEW`; beyond that, the more falls with its square."""
NEARLY_ALL = 0.9
"""The part of all records that the judged ones have to stand for."""

Bounds = tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over all traffic and its 95 % interval."""

    mean: float
    low: float
    high: float
    method: Literal["weighted", "model-assisted", "corrected"] = "weighted"

    @property
    def width(self) -> float:
        """How wide the interval is."""
        return self.high - self.low


def population_mean(
    values: Sequence[float], chances: Sequence[float], *, bounds: Bounds = (0.0, 1.0)
) -> Estimate | None:
    """Estimate the mean over all traffic.

    Args:
        values: what was judged.
        chances: the inclusion probability of each, in 0..1, above 0.
        bounds: the ends of the scale; ``None`` where there are none.

    Returns:
        ``None`` where nothing was judged.
    """
    if not values:
        return None
    weights = [1.0 / chance for chance in chances]
    mean = weighted_mean(values, weights)
    padded, heavier = pad(values, weights, bounds)
    centre = weighted_mean(padded, heavier)
    spread = sqrt(sum((w * (y - centre)) ** 2 for w, y in zip(heavier, padded, strict=True)))
    half = quantile(weights) * spread / sum(heavier)
    return within(Estimate(mean, centre - half, centre + half), bounds)


def mean_of_all(
    count: int, total: float, squares: float, *, bounds: Bounds = (0.0, 1.0)
) -> Estimate | None:
    """Estimate the mean where every record was scored, from sums alone.

    It is what `population_mean` returns for chances of 1.

    Args:
        count: how many values there are.
        total: their sum.
        squares: the sum of their squares.
        bounds: the ends of the scale; ``None`` where there are none.

    Returns:
        ``None`` without values.
    """
    if count < 1:
        return None
    part, ends = 0.0, bounds or ()
    if ends:
        part = PADDING + MORE_PADDING * min(1.0, FEW / count) ** 2
    weight = count + part * len(ends)
    centre = (total + part * sum(ends)) / weight
    spread = squares - 2 * centre * total + count * centre * centre
    spread += sum((part * (end - centre)) ** 2 for end in ends)
    half = quantile_of(count) * sqrt(max(spread, 0.0)) / weight
    return within(Estimate(total / count, centre - half, centre + half), bounds)


def stands_for(weight: float, spread: float, records: float) -> bool:
    """Say whether the judged records can stand for all records that could have been judged.

    If every record had a chance to be judged, the inverses of the chances of the judged ones add up
    to the number of all records, but for chance. Without a control sample the sum stays below it.

    Args:
        weight: The sum of ``w``, the inverse of the chance of each judged record.
        spread: The sum of ``w * (w - 1)``, an estimate of the variance of that sum.
        records: How many records could have been judged.
    """
    return weight + 3 * sqrt(max(spread, 0.0)) >= NEARLY_ALL * records


def weighted_mean(values: Sequence[float], weights: Sequence[float]) -> float:
    """Return sum(w y) / sum(w)."""
    return sum(w * y for w, y in zip(weights, values, strict=True)) / sum(weights)


def pad(
    values: Sequence[float], weights: Sequence[float], bounds: Bounds
) -> tuple[list[float], list[float]]:
    """Add the two records at the ends of the scale; see the module's text."""
    if bounds is None:
        return list(values), list(weights)
    part = PADDING + MORE_PADDING * min(1.0, FEW / effective(weights)) ** 2
    return [*values, *bounds], [*weights, *(2 * [part * max(weights)])]


def effective(weights: Sequence[float]) -> float:
    """Return Kish's effective sample size: equally weighted records that would say as much."""
    return sum(weights) ** 2 / sum(w * w for w in weights)


def quantile(weights: Sequence[float]) -> float:
    """Return the factor of a standard error that makes half a 95 % interval."""
    return quantile_of(effective(weights))


def quantile_of(records: float) -> float:
    """Return that factor for an effective number of records.

    It is Student's quantile by the first four terms of its expansion around the normal one
    (Abramowitz and Stegun 26.7.5), exact to 1 % from 3 degrees of freedom on.
    """
    df = max(records - 1, 2.0)
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92_160,
    )
    return z + sum(term / df**power for power, term in enumerate(terms, 1))


def within(estimate: Estimate, bounds: Bounds) -> Estimate:
    """Keep an interval on its scale and around its mean."""
    low, high = min(estimate.low, estimate.mean), max(estimate.high, estimate.mean)
    if bounds is not None:
        low, high = max(low, bounds[0]), min(high, bounds[1])
    return Estimate(estimate.mean, min(low, estimate.mean), high, estimate.method)
