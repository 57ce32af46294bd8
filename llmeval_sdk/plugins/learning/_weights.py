"""Learned weights: a correction of a shipped risk by the features that it was made of."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import copysign, exp, isfinite, log, log1p
from typing import Any, NamedTuple


FARTHEST = 3.0
"""Standard deviations beyond which a feature counts no further, so that no outlier decides."""
MOST_FEATURES = 200
LARGEST = 1e6
"""Numbers beyond it are no weights that a fit can have come to."""


class Score(NamedTuple):
    """A risk score that can learn."""

    name: str
    features: str
    """Which features it has, in which version; weights are for these and no others."""
    names: tuple[str, ...]
    """The features in order."""

    @property
    def made_of(self) -> tuple[str, int]:
        """Which features weights have to be for, and how many those are."""
        return self.features, len(self.names)


@dataclass(frozen=True, slots=True)
class Weights:
    """A logistic model around a shipped one: its logit, corrected by its features.

    Args:
        bias: What is added.
        slope: What the shipped logit is multiplied by.
        means: The mean of each feature over the outcomes, after `tamed`.
        spreads: The standard deviation of each.
        weights: The weight of each feature, standardised.
        shift: With ``stretch``, what brings the logit back to the scale of the shipped risk.
        stretch: See ``shift``.
    """

    bias: float
    slope: float
    means: tuple[float, ...]
    spreads: tuple[float, ...]
    weights: tuple[float, ...]
    shift: float = 0.0
    stretch: float = 1.0

    def logit(self, shipped: float, features: Sequence[float]) -> float:
        """Return the logit that the outcomes speak for, from the shipped one and the features."""
        logit = self.bias + self.slope * shipped
        columns = zip(features, self.means, self.spreads, self.weights, strict=True)
        for value, mean, spread, weight in columns:
            logit += weight * standardised(tamed(value), mean, spread)
        return logit

    def risk(self, shipped: float, features: Sequence[float]) -> float:
        """Return the risk, 0..1, on the scale of the shipped one.

        Over the outcomes of the fit its logits have the mean and the spread of the shipped ones. So
        a rule such as ``above("groundedness_risk", 0.6)`` still flags about as many records, and
        ranks among recent scores still mean something when the weights change.
        """
        return risk_of(self.shift + self.stretch * self.logit(shipped, features))

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` reads."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, data: Any, features: int) -> Weights:
        """Read weights for so many features; raises `ValueError` for anything else."""
        data = entries(data)
        lists = [_numbers(data.get(name), features) for name in ("means", "spreads", "weights")]
        bias, slope, shift, stretch = (
            number(data.get(name)) for name in ("bias", "slope", "shift", "stretch")
        )
        if min(lists[1], default=1.0) <= 0 or not 0 < stretch < 100:
            raise ValueError("a spread that is not positive")
        return cls(bias, slope, lists[0], lists[1], lists[2], shift, stretch)

    @property
    def version(self) -> str:
        """What tells these weights from others: eight hexadecimal digits."""
        return blake2b(json.dumps(self.to_json()).encode(), digest_size=4).hexdigest()


def tamed(value: float) -> float:
    """Shrink large values of a feature: counts and masses have long tails."""
    return copysign(log1p(abs(value)), value)


def standardised(value: float, mean: float, spread: float) -> float:
    """Return how many spreads a value is away from the mean, at most `FARTHEST`."""
    return min(max((value - mean) / spread, -FARTHEST), FARTHEST)


def logit_of(risk: float) -> float:
    """Turn a risk, 0..1, into a logit; the ends of the scale become ±9.2."""
    risk = min(max(risk, 1e-4), 1 - 1e-4)
    return log(risk / (1 - risk))


def risk_of(logit: float) -> float:
    """Turn a logit into a risk, 0..1."""
    return 1.0 / (1.0 + exp(-min(max(logit, -30.0), 30.0)))


def number(value: Any) -> float:
    """Read a number; raises `ValueError` for what no fit can have come to."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("not a number")  # noqa: TRY004 - one error for all that is unreadable
    if not -LARGEST <= value <= LARGEST or not isfinite(value):
        raise ValueError("a number out of range")
    return float(value)


def entries(data: Any) -> Mapping[str, Any]:
    """Read a mapping; raises `ValueError`, as all readers of a file here do, for anything else."""
    if not isinstance(data, Mapping):
        raise ValueError("not a mapping")  # noqa: TRY004
    return data


def _numbers(values: Any, count: int) -> tuple[float, ...]:
    if not isinstance(values, list) or len(values) != count or count > MOST_FEATURES:
        raise ValueError("not one number for each feature")
    return tuple(map(number, values))
