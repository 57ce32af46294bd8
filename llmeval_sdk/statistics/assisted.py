"""A free score on all traffic narrows what a few judgements say: the difference estimator.

The free score x of every record predicts what a judge would say, by a straight line fitted to the
judged ones; their residuals, weighted, put right what the line gets wrong::

    mean = mean(y) + slope * (mean of x over all records - mean(x))

where mean(y) and mean(x) are weighted by the inverse of the inclusion probabilities. This is the
regression estimator of Cassel, Särndal and Wretman (1976; Särndal, Swensson and Wretman 1992,
chapter 6), the same that prediction-powered inference (Angelopoulos et al. 2023) arrives at. It is
unbiased but for terms of the order 1/n, however wrong the line is; a useless score has a slope near
0 and changes nothing. With the residuals e the variance is
``sum((w e)**2) / sum(w)**2 + slope**2 * var(x) / N``, over the process behind the traffic; padding
and quantile are those of `mean`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from llmeval_sdk.statistics.mean import (
    Bounds,
    Estimate,
    effective,
    pad,
    population_mean,
    quantile,
    weighted_mean,
    within,
)


FEW = 50
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
    slope = _slope(values, weights, predicted) if effective(weights) >= FEW else 0.0
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


def _slope(values: Sequence[float], weights: Sequence[float], predicted: Sequence[float]) -> float:
    """Return the weighted least-squares slope of the values on the free score."""
    middle, centre = weighted_mean(predicted, weights), weighted_mean(values, weights)
    joint = spread = 0.0
    for y, w, x in zip(values, weights, predicted, strict=True):
        joint += w * (y - centre) * (x - middle)
        spread += w * (x - middle) ** 2
    return joint / spread if spread > 0 else 0.0
