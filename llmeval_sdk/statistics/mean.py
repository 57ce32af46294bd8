"""The mean over all traffic, with a 95 % interval, from records judged with unequal chances.

**The mean.** `population_mean` is Hájek's estimate (1971): each value weighs the inverse of its
inclusion probability. Its variance is the linearised one, sum(w² (y - mean)²) / sum(w)². A small
control sample may hold no bad record at all although there are some, and then this variance is far
too small. So, for the interval only, two records are added at the ends of the scale that weigh 0.4
to 0.7 times as much as the heaviest, most where few records carry most of the weight (the idea of
Agresti and Coull 1998; the figures are by simulation, `make quality`), and the quantile is
Student's with as many degrees of freedom as Kish's effective sample size has. The interval covers
the mean of the process behind the traffic, so it has a width also where every record was judged.

**A free score helps.** In `assisted_mean` the free score x of every record predicts what a judge
would say, by a straight line fitted to the judged records; their weighted residuals put right what
the line gets wrong (the difference estimator)::

    mean = mean(y) + slope * (mean of x over all records - mean(x))

where mean(y) and mean(x) are weighted by the inverse of the inclusion probabilities. This is the
regression estimator of Cassel, Särndal and Wretman (1976; Särndal, Swensson and Wretman 1992,
chapter 6), to which prediction-powered inference (Angelopoulos et al. 2023) leads as well. It is
unbiased but for terms of the order 1/n, however wrong the line is; a useless score has a slope near
0 and changes nothing. With the residuals e the variance is
``sum((w e)**2) / sum(w)**2 + slope**2 * var(x) / N``, over the process behind the traffic; padding
and quantile are the same as above.

**From sums.** A `Tally` can be filled request by request, joined over strata, or made by a
database: SQL sums up a million verdicts much faster than their rows could be read. `tallied_mean`
makes of sums what `population_mean` and `assisted_mean` make of the requests themselves.

**Differences.** The interval of `difference` is Newcombe's (1998, method 10; Zou and Donner 2008,
"MOVER"): the distances of each mean to the ends of its own interval are squared and added. It keeps
the asymmetry that the intervals of means near 0 or 1 have, and covers as well as they do. The two
samples must share no record and not depend on each other, and each interval must be valid by
itself. It is valid for one look at the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import hypot, sqrt
from statistics import NormalDist
from typing import Literal, NamedTuple


CONFIDENCE = 0.95
PADDING, MORE_PADDING, FEW = 0.4, 0.3, 50.0
"""What the two added records weigh, in heaviest records, and how much more where the effective
number of records is at most `FEW`; beyond that, the more falls with its square."""
NEARLY_ALL = 0.9
"""The part of all records that the judged ones have to stand for."""

# Why a mean over all traffic cannot be said, as reports, alerts and comparisons put it.
CATEGORIES = "its answers are categories, which have shares and no mean"
NO_CONTROL = "no control sample: the mean describes the judged records only"
NO_SCALE = "its scores leave 0..1, and a mean without a scale cannot be tested at any time"
NO_CHANCE = "no inclusion probabilities: the mean describes the judged records only"

Bounds = tuple[float, float] | None


class Seen(NamedTuple):
    """One request that could have been judged."""

    value: float | None
    """The verdict, 0..1; ``None`` where it was not judged."""
    chance: float = 1.0
    """The inclusion probability, above 0; it does not matter where there is no verdict."""
    predictor: float | None = None
    """The free score, on any scale."""


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
    half = _quantile_of(count) * sqrt(max(spread, 0.0)) / weight
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
    return _quantile_of(effective(weights))


def _quantile_of(records: float) -> float:
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


FEW_FOR_SLOPE = 50
"""Effective number of judged records below which a fitted slope makes intervals too short."""


def assisted_mean(
    values: Sequence[float],
    chances: Sequence[float],
    predicted: Sequence[float],
    everywhere: Sequence[float],
    *,
    bounds: Bounds = (0.0, 1.0),
) -> Estimate | None:
    """Estimate the mean over all traffic with a free score's help.

    Args:
        values: What was judged.
        chances: The inclusion probability of each, in 0..1, above 0.
        predicted: What the free score said of each of them, on any scale.
        everywhere: What the free score said of all records, judged and not.
        bounds: The ends of the scale; ``None`` where there are none.

    Returns:
        ``None`` where nothing was judged; `population_mean` where the judged records are too few
        for a slope, or the free score is the same for all.
    """
    if not values:
        return None
    weights = [1.0 / chance for chance in chances]
    slope = (
        _slope_of_records(values, weights, predicted)
        if effective(weights) >= FEW_FOR_SLOPE
        else 0.0
    )
    if slope == 0:
        return population_mean(values, chances, bounds=bounds)
    middle = weighted_mean(predicted, weights)
    overall = sum(everywhere) / len(everywhere)
    shift = slope * (overall - middle)
    mean = weighted_mean(values, weights) + shift
    padded, heavier = pad(values, weights, bounds)
    line = [slope * (x - middle) for x in predicted] + [0.0] * (len(padded) - len(values))
    residuals = [y - x for y, x in zip(padded, line, strict=True)]
    centre = weighted_mean(residuals, heavier)
    spread = sum((w * (e - centre)) ** 2 for w, e in zip(heavier, residuals, strict=True))
    scatter = sum((x - overall) ** 2 for x in everywhere) / len(everywhere)
    variance = spread / sum(heavier) ** 2 + slope**2 * scatter / len(everywhere)
    half = quantile(weights) * sqrt(variance)
    if bounds is not None:
        mean = min(max(mean, bounds[0]), bounds[1])
    centre += shift
    return within(Estimate(mean, centre - half, centre + half, "model-assisted"), bounds)


def _slope_of_records(
    values: Sequence[float], weights: Sequence[float], predicted: Sequence[float]
) -> float:
    """Return the weighted least-squares slope of the values on the free score."""
    middle, centre = weighted_mean(predicted, weights), weighted_mean(values, weights)
    joint = spread = 0.0
    for y, w, x in zip(values, weights, predicted, strict=True):
        joint += w * (y - centre) * (x - middle)
        spread += w * (x - middle) ** 2
    return joint / spread if spread > 0 else 0.0


NOTHING = 1e-12
"""The part of a sum of squares that rounding leaves of nothing: the free score is the same."""


@dataclass(slots=True)
class Tally:
    """Sums over requests, from which their mean and its variance can be taken at any time."""

    count: int = 0
    """Requests that could have been judged."""
    judged: int = 0
    all_x: float = 0.0
    all_xx: float = 0.0
    scored: int = 0
    """Requests with a free score."""
    w: float = 0.0
    wx: float = 0.0
    wy: float = 0.0
    wxx: float = 0.0
    wxy: float = 0.0
    ww: float = 0.0
    wwx: float = 0.0
    wwy: float = 0.0
    wwxx: float = 0.0
    wwxy: float = 0.0
    wwyy: float = 0.0
    heaviest: float = 0.0

    def add(self, seen: Seen) -> None:
        """Take in one request, judged or not; a free score that is missing counts as 0."""
        value, chance, x = seen
        self.count += 1
        if x is None:
            x = 0.0
        else:
            self.scored += 1
            self.all_x += x
            self.all_xx += x * x
        if value is None:
            return
        w = 1 / chance
        ww = w * w
        self.judged += 1
        self.w += w
        self.wx += w * x
        self.wy += w * value
        self.wxx += w * x * x
        self.wxy += w * x * value
        self.ww += ww
        self.wwx += ww * x
        self.wwy += ww * value
        self.wwxx += ww * x * x
        self.wwxy += ww * x * value
        self.wwyy += ww * value * value
        self.heaviest = max(self.heaviest, w)

    def join(self, other: Tally) -> None:
        """Add the requests of another part of the traffic."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.heaviest = max(self.heaviest, other.heaviest)

    def with_scores(self, scored: Tally, passed_over: int) -> Tally:
        """Return this tally of judged requests with the free scores of all requests.

        A request without a free score gets their mean, which predicts nothing.

        Args:
            scored: The sums over those requests, judged and passed over, that have a free score.
            passed_over: How many requests were passed over, with a free score or without.
        """
        middle = scored.all_x / scored.scored
        count = self.judged + passed_over
        return replace(
            self,
            count=count,
            scored=count,
            all_xx=scored.all_xx - middle * scored.all_x,
            wx=scored.wx - middle * scored.w,
            wxx=scored.wxx - middle * (2 * scored.wx - middle * scored.w),
            wxy=scored.wxy - middle * scored.wy,
            wwx=scored.wwx - middle * scored.ww,
            wwxx=scored.wwxx - middle * (2 * scored.wwx - middle * scored.ww),
            wwxy=scored.wwxy - middle * scored.wwy,
        )

    def mean(self, slope: float = 0.0) -> float:
        """Return the mean over all its requests; at least one has to be judged."""
        if not slope or self.scored < self.count:
            return self.wy / self.w
        return self.wy / self.w + slope * (self.all_x / self.count - self.wx / self.w)

    @property
    def effective(self) -> float:
        """Kish's effective number of judged requests, of which there is at least one."""
        return self.w * self.w / self.ww

    def padded(self, bounds: Bounds = (0.0, 1.0)) -> tuple[float, float]:
        """Return the mean with the two added records of `mean`, and what each of them weighs."""
        if bounds is None:
            return self.wy / self.w, 0.0
        heavy = (PADDING + MORE_PADDING * min(1.0, FEW / self.effective) ** 2) * self.heaviest
        return (self.wy + heavy * (bounds[0] + bounds[1])) / (self.w + 2 * heavy), heavy

    def variance(self, slope: float = 0.0, bounds: Bounds = (0.0, 1.0)) -> float:
        """Return the variance of `mean`, as a mean of the process behind the traffic."""
        if not slope or self.scored < self.count:
            slope = 0.0
        middle = self.wx / self.w
        centre, heavy = self.padded(bounds)
        # residuals e = y - slope * (x - middle); the two added records lie on x = middle
        total = self.w + 2 * heavy
        e = self.wwy - slope * (self.wwx - middle * self.ww)
        xx = self.wwxx - 2 * middle * self.wwx + middle * middle * self.ww
        ee = self.wwyy - 2 * slope * (self.wwxy - middle * self.wwy) + slope * slope * xx
        spread = ee - 2 * centre * e + centre * centre * self.ww
        for end in bounds or ():
            spread += (heavy * (end - centre)) ** 2
        scatter = 0.0
        if slope:
            scatter = max(self.all_xx / self.count - (self.all_x / self.count) ** 2, 0.0)
        return max(spread, 0.0) / total**2 + slope * slope * scatter / self.count


_SUMS = tuple(name for name in Tally.__slots__ if name != "heaviest")


def tallied_mean(
    tally: Tally, *, bounds: Bounds = (0.0, 1.0), origin: float = 0.0
) -> Estimate | None:
    """Estimate the mean over all traffic from sums, with a free score's help where there is one.

    Args:
        tally: The sums. A free score that a request lacks has to be the mean of the known ones, as
            in `assisted_mean`; a tally without free scores has none of any request.
        bounds: The ends of the scale; ``None`` where there are none.
        origin: What was subtracted from each value before it was added. A value near the mean keeps
            the sums of large values exact.

    Returns:
        ``None`` where nothing was judged.
    """
    if not tally.judged:
        return None
    if bounds is not None:
        bounds = bounds[0] - origin, bounds[1] - origin
    slope = _slope_of_sums(tally)
    mean = tally.mean(slope)
    shift = mean - tally.mean()
    centre = tally.padded(bounds)[0] + shift
    half = _quantile_of(tally.effective) * sqrt(tally.variance(slope, bounds))
    if slope and bounds is not None:
        mean = min(max(mean, bounds[0]), bounds[1])
    method: Literal["weighted", "model-assisted"] = "model-assisted" if slope else "weighted"
    estimate = within(Estimate(mean, centre - half, centre + half, method), bounds)
    return Estimate(
        estimate.mean + origin, estimate.low + origin, estimate.high + origin, estimate.method
    )


def _slope_of_sums(tally: Tally) -> float:
    """Return the weighted least-squares slope of the values on the free score, if it is used."""
    if tally.effective < FEW_FOR_SLOPE or tally.scored < tally.count:
        return 0.0
    spread = tally.wxx - tally.wx * tally.wx / tally.w
    if spread <= NOTHING * tally.wxx:
        return 0.0
    return (tally.wxy - tally.wx * tally.wy / tally.w) / spread


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
