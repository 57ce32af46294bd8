"""The trained models: sums of one step function per feature, squashed to a probability.

Boosted stumps add up to exactly this, so a model is a few short tables that can be read, drawn
and scored in microseconds: logit = bias + sum over features of ``steps[bisect(edges, value)]``.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Additive:
    """An additive logistic model; a feature that is absent adds nothing."""

    bias: float
    features: Mapping[str, tuple[list[float], list[float]]]
    """Name -> n rising edges and n + 1 steps; a value equal to an edge takes the step below it."""

    def risk(self, values: Mapping[str, float]) -> float:
        """Return the probability, 0..1."""
        logit = self.bias
        for name, (edges, steps) in self.features.items():
            value = values.get(name)
            if value is not None:
                logit += steps[bisect_left(edges, value)]
        return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, logit))))


def from_json(data: Mapping[str, object]) -> Additive:
    """Read a model as `risk_train.py` wrote it."""
    features = data["features"]
    assert isinstance(features, dict)
    return Additive(
        float(str(data["bias"])),
        {name: (table["edges"], table["steps"]) for name, table in features.items()},
    )
