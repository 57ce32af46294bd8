"""An interval for a mean that may be looked at any time, and as often as one likes.

The asymptotic confidence sequence of Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (2021,
Theorem 2.2) for the contributions of `estimates.sequence`: with n records of variance v so far, the
half-width is::

    sqrt(2 * (n v r + 1) / (n**2 * r) * log(sqrt(n v r + 1) / alpha))

where r is chosen so that it is narrowest at ``tightest`` records. It is wider than an interval for
one look, by about half at that size, and covers the mean at all sizes at once with 95 %.

**Assumptions.** Enough records for the normal approximation from the first look on (some hundred
judged ones); chances that are those the records were really drawn with; a mean that stays. For
alarms use `Evidence`, which needs neither the first nor the last of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log, sqrt

from llmeval_sdk.estimates.mean import Bounds, Estimate, within
from llmeval_sdk.estimates.sequence import Seen


ALPHA = 0.05
FEWEST = 30
"""Judged records below which nothing is said."""


def confidence_sequence(
    seen: Sequence[Seen],
    *,
    prediction: float = 0.5,
    tightest: int = 5_000,
    bounds: Bounds = (0.0, 1.0),
) -> Estimate | None:
    """Estimate the mean over all records, judged or not, at any time.

    Args:
        seen: All records that could have been judged, so far.
        prediction: The value that an unjudged record counts with. Any number that was fixed
            beforehand is right on average; one near the mean gives the narrowest interval.
        tightest: The number of records at which the interval is narrowest, compared with one for a
            single look.
        bounds: The ends of the scale; ``None`` where there are none.

    Returns:
        ``None`` with fewer than 30 judged records.
    """
    judged = [(each.value, each.chance) for each in seen if each.value is not None]
    if len(judged) < FEWEST:
        return None
    count = len(seen)
    corrections = [(value - prediction) / chance for value, chance in judged]
    mean = prediction + sum(corrections) / count
    squares = sum(each * each for each in corrections) / count
    variance = max(squares - (mean - prediction) ** 2, 1e-12)
    rate = (-2 * log(ALPHA) + log(-2 * log(ALPHA) + 1)) / (tightest * variance)
    grown = count * variance * rate + 1
    half = sqrt(2 * grown / (count * count * rate) * log(sqrt(grown) / ALPHA))
    if bounds is not None:
        mean = min(max(mean, bounds[0]), bounds[1])
    return within(Estimate(mean, mean - half, mean + half, "weighted"), bounds)
