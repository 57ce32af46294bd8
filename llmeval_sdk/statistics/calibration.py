"""Probabilities corrected by labels: Platt's scaling, shrunk towards doing nothing.

A judge's probability p becomes ``1 / (1 + exp(-(slope * logit(p) + shift)))`` (Platt 1999). Slope
and shift are fitted by weighted logistic regression with a normal prior around (1, 0), which is the
probability as it is, so that few labels cannot make a good judge worse. Below 50 labels nothing is
changed: by simulation a fit to fewer adds more error than it removes.

A judge that is calibrated already is left alone: unless a score test (Rao 1948) rejects "slope 1,
shift 0" at 5 %, the result is the identity. The score test equals the likelihood-ratio test in
large samples and, unlike it, stays right where labels weigh differently.

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
_CHI_SQUARED_95 = 5.991
"""The 95 % quantile of chi-squared with two degrees of freedom."""
_STEPS = 50
_FOLDS = 5


@dataclass(frozen=True, slots=True)
class Calibration:
    """A map from a judge's probability to a calibrated one.

    Args:
        slope: Of the logits; 1 leaves them as they are.
        shift: What is added to the logits; 0 leaves them as they are.
        labels: How many labels it was fitted to.
    """

    slope: float = 1.0
    shift: float = 0.0
    labels: int = 0

    @property
    def is_identity(self) -> bool:
        """Whether it leaves every probability as it is."""
        return (self.slope, self.shift) == (1.0, 0.0)

    def __call__(self, probability: float) -> float:
        """Return the calibrated probability, 0..1."""
        if self.is_identity:
            return probability
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
        The identity with fewer than 50 labels, and where the judge is calibrated already.
    """
    if len(labels) < FEWEST:
        return Calibration(labels=len(labels))
    return _fitted(probabilities, labels, _weights(labels, chances))


def held_out_losses(
    probabilities: Sequence[float], labels: Sequence[float], chances: Sequence[float] | None = None
) -> tuple[float, float]:
    """Return the mean log loss of the probabilities as they are, and calibrated by others' labels.

    Each fifth of the labels is calibrated by what the other four say, so that the second figure is
    no praise of a fit by itself. Takes what `calibrated` takes.
    """
    weights = _weights(labels, chances)
    before = _log_loss(probabilities, labels, weights)
    return before, _held_out(probabilities, labels, weights)


def _weights(labels: Sequence[float], chances: Sequence[float] | None) -> list[float]:
    return [1.0] * len(labels) if chances is None else [1 / chance for chance in chances]


def _fitted(
    probabilities: Sequence[float], labels: Sequence[float], weights: Sequence[float]
) -> Calibration:
    if not _is_off(probabilities, labels, weights):
        return Calibration(labels=len(labels))
    return _platt(probabilities, labels, weights)


def _is_off(
    probabilities: Sequence[float], labels: Sequence[float], weights: Sequence[float]
) -> bool:
    """Say whether a score test rejects that the probabilities are calibrated."""
    u = v = aa = ab = bb = 0.0
    for probability, y, w in zip(probabilities, labels, weights, strict=True):
        x = _logit(probability)
        p = _expit(x)
        u += w * (y - p) * x
        v += w * (y - p)
        spread = w * w * p * (1 - p)
        aa, ab, bb = aa + spread * x * x, ab + spread * x, bb + spread
    determinant = aa * bb - ab * ab
    if determinant <= 1e-12 * max(aa * bb, 1e-300):  # one probability for all: test the shift alone
        return bb > 0 and v * v / bb > _CHI_SQUARED_95
    return (bb * u * u - 2 * ab * u * v + aa * v * v) / determinant > _CHI_SQUARED_95


def _platt(
    probabilities: Sequence[float], labels: Sequence[float], weights: Sequence[float]
) -> Calibration:
    logits = [_logit(p) for p in probabilities]
    scale = len(labels) / sum(weights)
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


def _held_out(
    probabilities: Sequence[float], labels: Sequence[float], weights: Sequence[float]
) -> float:
    """Return the mean log loss where each fifth is calibrated by the other four."""
    # Neighbours in probability go to different fifths, whatever order the labels came in.
    order = sorted(range(len(labels)), key=lambda i: (probabilities[i], labels[i]))
    fifth = {i: place % _FOLDS for place, i in enumerate(order)}
    total = 0.0
    for fold in range(_FOLDS):
        rest = [i for i in range(len(labels)) if fifth[i] != fold]
        held = [i for i in range(len(labels)) if fifth[i] == fold]
        if not rest or not held:
            continue
        calibration = _fitted(
            [probabilities[i] for i in rest], [labels[i] for i in rest], [weights[i] for i in rest]
        )
        total += sum(weights[i] * _loss(calibration(probabilities[i]), labels[i]) for i in held)
    return total / sum(weights) if weights else 0.0


def _log_loss(
    probabilities: Sequence[float], labels: Sequence[float], weights: Sequence[float]
) -> float:
    if not weights:
        return 0.0
    losses = zip(probabilities, labels, weights, strict=True)
    return sum(w * _loss(p, y) for p, y, w in losses) / sum(weights)


def _loss(probability: float, label: float) -> float:
    p = min(max(probability, CLIP), 1 - CLIP)
    return -log(p) * label - log(1 - p) * (1 - label)


def _logit(probability: float) -> float:
    p = min(max(probability, CLIP), 1 - CLIP)
    return log(p / (1 - p))


def _expit(x: float) -> float:
    return 1 / (1 + exp(-x)) if x >= 0 else exp(x) / (1 + exp(x))
