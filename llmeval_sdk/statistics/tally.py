"""Sums over judged requests, from which a mean over all traffic and its variance can be taken.

Sums can be kept request by request, joined over strata, or made by a database: SQL sums up a
million verdicts much faster than their rows could be read. `tallied_mean` makes of them what
`population_mean` and `assisted_mean` make of the requests themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import Literal

from llmeval_sdk.statistics.assisted import FEW as FEW_FOR_SLOPE
from llmeval_sdk.statistics.mean import (
    FEW,
    MORE_PADDING,
    PADDING,
    Bounds,
    Estimate,
    quantile_of,
    within,
)
from llmeval_sdk.statistics.sequence import Seen


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
    w_scored: float = 0.0
    """This and the next are sums over the judged requests that have a free score."""
    wy_scored: float = 0.0
    ww_scored: float = 0.0
    wwy_scored: float = 0.0

    def add(self, seen: Seen) -> None:
        """Take in one request, judged or not; a free score that is missing counts as 0."""
        value, chance, x = seen
        self.count += 1
        is_scored = x is not None
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
        if is_scored:
            self.w_scored += w
            self.wy_scored += w * value
            self.ww_scored += ww
            self.wwy_scored += ww * value

    def join(self, other: Tally) -> None:
        """Add the requests of another stratum or version."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.heaviest = max(self.heaviest, other.heaviest)

    def scale_chances(self, part: float) -> None:
        """Let what was scored stand for what was selected and lost too, of which it is a part."""
        for name in _SUMS[_SUMS.index("w") :]:
            power = 2 if name.startswith("ww") else 1
            setattr(self, name, getattr(self, name) / part**power)
        self.heaviest /= part

    def whole(self) -> Tally:
        """Return this tally with a free score for every request, less the mean of the known ones.

        A request without a free score gets that mean, which predicts nothing, so that the others'
        scores are not lost for a few that are missing. The estimate stays valid whatever is
        missing, as it does with any other free score.
        """
        if self.scored == self.count:
            return self
        middle = self.all_x / self.scored if self.scored else 0.0
        return replace(
            self,
            scored=self.count,
            all_x=0.0,
            all_xx=self.all_xx - middle * self.all_x,
            wx=self.wx - middle * self.w_scored,
            wxx=self.wxx - middle * (2 * self.wx - middle * self.w_scored),
            wxy=self.wxy - middle * self.wy_scored,
            wwx=self.wwx - middle * self.ww_scored,
            wwxx=self.wwxx - middle * (2 * self.wwx - middle * self.ww_scored),
            wwxy=self.wwxy - middle * self.wwy_scored,
        )

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
    slope = _slope(tally)
    mean = tally.mean(slope)
    shift = mean - tally.mean()
    centre = tally.padded(bounds)[0] + shift
    half = quantile_of(tally.effective) * sqrt(tally.variance(slope, bounds))
    if slope and bounds is not None:
        mean = min(max(mean, bounds[0]), bounds[1])
    method: Literal["weighted", "model-assisted"] = "model-assisted" if slope else "weighted"
    estimate = within(Estimate(mean, centre - half, centre + half, method), bounds)
    return Estimate(
        estimate.mean + origin, estimate.low + origin, estimate.high + origin, estimate.method
    )


def _slope(tally: Tally) -> float:
    """Return the weighted least-squares slope of the values on the free score, if it is used."""
    if tally.effective < FEW_FOR_SLOPE or tally.scored < tally.count:
        return 0.0
    spread = tally.wxx - tally.wx * tally.wx / tally.w
    if spread <= NOTHING * tally.wxx:
        return 0.0
    return (tally.wxy - tally.wx * tally.wy / tally.w) / spread
