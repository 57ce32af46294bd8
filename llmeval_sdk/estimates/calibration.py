"""Probabilities that mean what they say: Platt's scaling, shrunk towards doing nothing.

A judge's probability p becomes ``1 / (1 + exp(-(slope * logit(p) + shift)))`` (Platt 1999). Slope
and shift are fitted by weighted logistic regression with a normal prior around (1, 0), which is the
probability as it is, so that few labels cannot make a good judge worse. Below 50 labels nothing is
changed: by simulation a fit to fewer adds more error than it removes.

**Assumptions.** Labels are 0 or 1, each weighing the inverse of its chance to be there, of one
question asked of one version of the judge; the order of its probabilities is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log


FEWEST = 50
PRIOR_SLOPE, PRIOR_SHIFT = 0.5, 1.0
"""Standard deviations of the prior around a slope of 1 and a shift of 0, in logits."""
CLIP = 1e-4
_STEPS = 50


@dataclass(frozen=True, slots=True)
class Calibration:
    """A map from a judge's probability to a calibrated one."""

    slope: float = 1.0
    shift: float = 0.0
    labels: int = 0

    def __call__(self, probability: float) -> float:
        """Return the calibrated probability, 0..1."""
        return _expit(self.slope * _logit(probability) + self.shift)


def calibrated(
    probabilities: Sequence[float], labels: Sequence[float], chances: Sequence[float] | None = None
) -> Calibration:
    """Fit a calibration.

    Args:
        probabilities: What the judge said, 0..1; they are clipped to 0.0001..0.9999.
        labels: What people said of the same records, 0 or 1.
        chances: The chance of each record to be among them, in 0..1, above 0; 1 by default.

    Returns:
        The identity with fewer than 50 labels.
    """
    if len(labels) < FEWEST:
        return Calibration(labels=len(labels))
    logits = [_logit(p) for p in probabilities]
    weights = [1 / chance for chance in chances] if chances is not None else [1.0] * len(labels)
    scale = len(labels) * sum(weights) / (sum(weights) ** 2)
    weights = [w * scale for w in weights]  # so that they count as many labels as there are
    slope, shift = 1.0, 0.0
    for _ in range(_STEPS):
        down_a, down_b = (slope - 1) / PRIOR_SLOPE**2, shift / PRIOR_SHIFT**2
        aa, bb, ab = 1 / PRIOR_SLOPE**2, 1 / PRIOR_SHIFT**2, 0.0
        for x, y, w in zip(logits, labels, weights, strict=True):
            p = _expit(slope * x + shift)
            down_a += w * (p - y) * x
            down_b += w * (p - y)
            v = w * p * (1 - p)
            aa, bb, ab = aa + v * x * x, bb + v, ab + v * x
        determinant = aa * bb - ab * ab
        step_a = (bb * down_a - ab * down_b) / determinant
        step_b = (aa * down_b - ab * down_a) / determinant
        longest = max(abs(step_a), abs(step_b), 1.0)
        slope, shift = slope - step_a / longest, shift - step_b / longest
        if max(abs(step_a), abs(step_b)) < 1e-9:
            break
    return Calibration(slope, shift, len(labels))


def _logit(probability: float) -> float:
    p = min(max(probability, CLIP), 1 - CLIP)
    return log(p / (1 - p))


def _expit(x: float) -> float:
    return 1 / (1 + exp(-x)) if x >= 0 else exp(x) / (1 + exp(x))
