"""The trained models: sums of one step function per feature, squashed to a probability.

Boosted stumps add up to exactly this, so a model is a few short tables that can be read, drawn
and scored in microseconds: logit = bias + sum over features of ``steps[bisect(edges, value)]``.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple


class Table(NamedTuple):
    """The step function of one feature."""

    edges: list[float]
    """Rising; a value equal to an edge takes the step below it."""
    steps: list[float]
    """One more than there are edges."""


@dataclass(frozen=True, slots=True)
class Additive:
    """An additive logistic model."""

    bias: float
    features: Mapping[str, Table]

    def logit(self, values: Mapping[str, float]) -> float:
        """Return the sum of the steps, from a value for every feature."""
        logit = self.bias
        for name, (edges, steps) in self.features.items():
            logit += steps[bisect_left(edges, values[name])]
        return logit

    def risk(self, values: Mapping[str, float]) -> float:
        """Return the probability, 0..1, from a value for every feature."""
        return squashed(self.logit(values))


def squashed(logit: float) -> float:
    """Turn a logit into a probability."""
    return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, logit))))


def from_json(data: Mapping[str, Any]) -> Additive:
    """Read a model as the training script wrote it."""
    return Additive(data["bias"], {n: Table(**table) for n, table in data["features"].items()})
