"""The difference of two versions on the same mix of requests, valid at any time.

Requests fall into strata, such as span names and languages. Within a stratum the mean of each
version is that of `assisted_mean`: verdicts weigh the inverse of their chances, and the free score
of all requests puts right what the selection missed; a request without one gets the mean of its
stratum, see `Tally.whole`. The difference is then taken stratum by
stratum and weighed by how much of the traffic of both versions together is in it (direct
standardisation; Kitagawa 1955, Oaxaca 1973)::

    difference = sum over s of share(s) * (mean of the second in s - mean of the first in s)

What is left of the plain difference of the two means is due to their mixes, not to the versions.

**Any time.** With v the variance of the difference now and I = 1 / v, the sum I * difference moves
like a Brownian motion in the time I, however the estimator is built (Scharfstein, Tsiatis and
Robins 1997). The mixture boundary of Robbins (1970) for it gives the half-width::

    sqrt((I + r) * log((I + r) / (r * alpha**2))) / I

which covers at all times together with a chance of 1 - alpha; r makes it narrowest where the
standard error is `TIGHTEST`. It is wider than an interval for one look by about half.

**Assumptions.** Each stratum has enough judged requests for the normal approximation: strata with
fewer than `FEWEST` of either version are joined, and left out where that is not enough. For the
variance two records at the ends of the scale are added, as in `mean`, because a stratum without a
bad answer is no proof that there are none. The chances are those that the requests were really
drawn with. The difference between the versions stays what it is within the period, and the period
begins at a fixed time: a window that moves is a new look with an error of its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from math import log, sqrt
from typing import TypeVar

from llmeval_sdk.statistics.mean import Difference, Tally


Key = TypeVar("Key", bound=Hashable)

ALPHA = 0.05
TIGHTEST = 0.02
"""The standard error at which the interval is narrowest, compared with one for a single look."""
FEWEST = 30
"""A stratum with fewer judged requests of either version is joined with other small ones."""


@dataclass(frozen=True, slots=True)
class Standardised:
    """The difference that the second version makes, with requests of both in the same mix."""

    difference: Difference
    """The second mean less the first, on the mix of both together, valid at any time."""
    plain: float
    """The second mean less the first, each on its own mix."""
    variance: float
    """The variance of the difference, at this moment."""
    compared: float
    """The part of all requests, 0..1, that lies in strata where both can be compared."""
    strata: int

    @property
    def due_to_mix(self) -> float:
        """The part of the plain difference that comes from the mixes, not from the versions."""
        return self.plain - self.difference.mean


def standardised_difference(
    first: Mapping[Key, Tally], second: Mapping[Key, Tally], *, alpha: float = ALPHA
) -> Standardised | None:
    """Compare two versions on the same mix of requests.

    Args:
        first: The requests of the version to compare with, by stratum; values in 0..1.
        second: Those of the other version.
        alpha: The chance, over all looks together, that the interval leaves out the truth.

    Returns:
        ``None`` where no stratum holds `FEWEST` judged requests of both.
    """
    pairs = _strata(first, second)
    if not pairs:
        return None
    everything = sum(tally.count for side in (first, second) for tally in side.values())
    inside = sum(a.count + b.count for a, b in pairs)
    slope = _slope([tally for pair in pairs for tally in pair])
    mean = variance = 0.0
    for a, b in pairs:
        share = (a.count + b.count) / inside
        mean += share * (b.mean(slope) - a.mean(slope))
        variance += share**2 * (a.variance(slope) + b.variance(slope))
    half = _half_width(variance, alpha)
    plain = _joined(second).mean(slope) - _joined(first).mean(slope)
    interval = Difference(mean, max(mean - half, -1.0), min(mean + half, 1.0))
    return Standardised(interval, plain, variance, inside / everything, len(pairs))


def _half_width(variance: float, alpha: float = ALPHA) -> float:
    """Return half the width of an interval that is valid at any time, from the variance now."""
    information = 1 / max(variance, 1e-12)
    factor = -2 * log(alpha)
    r = 1 / (TIGHTEST**2 * (factor + log(factor + 1)))
    grown = information + r
    return sqrt(grown * log(grown / (r * alpha * alpha))) / information


def needed(variance: float, judged: int, difference: float, alpha: float = ALPHA) -> int:
    """Return about how many judged requests in all show a difference of that size."""
    low, high = 1.0, 2.0**30
    while high / low > 1.01:  # the half-width falls with the number of requests
        middle = sqrt(low * high)
        if _half_width(variance * judged / middle, alpha) > abs(difference):
            low = middle
        else:
            high = middle
    return round(high)


def _strata(first: Mapping[Key, Tally], second: Mapping[Key, Tally]) -> list[tuple[Tally, Tally]]:
    """Return the pairs of strata that can be compared, with all small ones joined into one."""
    pairs, rest = [], (Tally(), Tally())
    for key in first.keys() & second.keys():
        pair = first[key], second[key]
        if min(pair[0].judged, pair[1].judged) >= FEWEST:
            pairs.append(pair)
        else:
            rest[0].join(pair[0])
            rest[1].join(pair[1])
    if min(rest[0].judged, rest[1].judged) >= FEWEST:
        pairs.append(rest)
    return [(a.whole(), b.whole()) for a, b in pairs]


def _joined(tallies: Mapping[Key, Tally]) -> Tally:
    whole = Tally()
    for tally in tallies.values():
        whole.join(tally)
    return whole.whole()


def _slope(tallies: list[Tally]) -> float:
    """Return the slope of the verdicts on the free score within the strata, weighted."""
    joint = sum(t.wxy - t.wx * t.wy / t.w for t in tallies)
    spread = sum(t.wxx - t.wx * t.wx / t.w for t in tallies)
    return joint / spread if spread > 1e-9 else 0.0
