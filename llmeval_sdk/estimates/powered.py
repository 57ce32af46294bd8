"""Prediction-powered inference: a free score on all traffic narrows what a few judgements say.

The method is that of Angelopoulos, Bates, Fannjiang, Jordan and Zrnic (2023), tuned as in PPI++
(2024) and computed by ppi-python. Its variance is meant for equal weights; values are handed over
centred on their weighted mean, which makes it the linearised variance of `mean` for unequal ones.
With a slope of 0 it is `population_mean`.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from statistics import NormalDist, pvariance
from typing import Any

from llmeval_sdk.estimates.mean import (
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
GAIN = 0.98
"""What the interval has to shrink to, so that not every accident counts as a gain."""


def best_mean(
    values: Sequence[float],
    chances: Sequence[float],
    predicted: Sequence[float],
    everywhere: Sequence[float],
    *,
    bounds: Bounds = (0.0, 1.0),
) -> Estimate | None:
    """Estimate the mean over all traffic by the narrower of both ways.

    Args:
        values: what was judged.
        chances: the inclusion probability of each, in 0..1, above 0.
        predicted: what the free score said of each of them, on any scale.
        everywhere: what the free score said of all records, judged and not.
        bounds: the ends of the scale; ``None`` where there are none.
    """
    plain = population_mean(values, chances, bounds=bounds)
    if plain is None or effective([1.0 / chance for chance in chances]) < FEW:
        return plain
    ppi = _library()
    if ppi is None:
        return plain
    powered = _powered(ppi, values, chances, predicted, everywhere, bounds=bounds)
    return powered if powered is not None and powered.width < GAIN * plain.width else plain


def _powered(
    ppi: Any,
    values: Sequence[float],
    chances: Sequence[float],
    predicted: Sequence[float],
    everywhere: Sequence[float],
    *,
    bounds: Bounds,
) -> Estimate | None:
    import numpy as np

    weights = [1.0 / chance for chance in chances]
    middle = weighted_mean(predicted, weights)
    padded, heavier = pad(values, weights, bounds)
    y, w, all_hat = np.array(padded), np.array(heavier), np.array(everywhere)
    y_hat = np.array([*predicted, *([middle] * (len(padded) - len(values)))])
    slope = _slope(y, y_hat, w, all_hat)
    if slope == 0:
        return None
    rest = float(np.average(y - slope * y_hat, weights=w))
    alpha = 2 * (1 - NormalDist().cdf(quantile(weights)))
    low, high = ppi.ppi_mean_ci(
        (y - rest)[:, None], y_hat[:, None], all_hat[:, None], alpha=alpha, lam=slope, w=w
    )
    mean = ppi.ppi_mean_pointestimate(
        np.array(values)[:, None],
        np.array(predicted)[:, None],
        all_hat[:, None],
        lam=slope,
        w=np.array(weights),
    )
    if bounds is not None:
        mean = np.clip(mean, *bounds)
    ends = float(low[0]) + rest, float(high[0]) + rest
    return within(Estimate(float(np.ravel(mean)[0]), *ends, "prediction-powered"), bounds)


def _slope(y: Any, y_hat: Any, w: Any, all_hat: Any) -> float:
    """Return the slope on the free score that makes the variance smallest."""
    import numpy as np

    total = w.sum()
    y_rest = w * (y - np.average(y, weights=w)) / total
    hat_rest = w * (y_hat - np.average(y_hat, weights=w)) / total
    spread = float(hat_rest @ hat_rest) + pvariance(all_hat.tolist()) / len(all_hat)
    return float(y_rest @ hat_rest) / spread if spread > 0 else 0.0


def available() -> bool:
    """Say whether a free score can narrow an interval here, without loading what does it."""
    return find_spec("ppi_py") is not None


def _library() -> Any:
    """Return ppi-python's module, or ``None``: it is heavy, and silences warnings when imported."""
    try:
        with warnings.catch_warnings():
            from ppi_py import ppi
    except ImportError:
        return None
    return ppi
