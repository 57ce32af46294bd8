"""The weighted sum of the features, and which of them speak loudest."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

from llmeval_sdk.extraction import Reading
from llmeval_sdk.heuristics.aggregated_confidence import OTHERWISE, aggregated_confidence
from llmeval_sdk.heuristics.extraction import fit, place, rivalry, votes
from llmeval_sdk.heuristics.extraction.keeper import Histories
from llmeval_sdk.model import Record


class Weights(NamedTuple):
    """What every feature weighs, and its mean over the labelled data."""

    bias: float
    weights: Mapping[str, float]
    means: Mapping[str, float]

    def risk(self, features: Mapping[str, float]) -> float:
        """Return the probability, 0..1, that a value is wrong; a feature that is absent is 0."""
        logit = self.bias + sum(
            weight * features.get(name, 0.0) for name, weight in self.weights.items()
        )
        return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, logit))))

    def loudest(self, features: Mapping[str, float], most: int = 4) -> list[str]:
        """Name the features that raise the risk most above what is usual."""
        raised = {
            name: weight * (features.get(name, 0.0) - self.means.get(name, 0.0))
            for name, weight in self.weights.items()
        }
        names = sorted(raised, key=lambda name: -raised[name])
        return [name for name in names[:most] if raised[name] > 0.05]


@lru_cache(None)
def shipped() -> Weights:
    """Read the weights that come with the package."""
    text = (files("llmeval_sdk.heuristics.extraction") / "data" / "extraction.json").read_text(
        encoding="utf-8"
    )
    data = json.loads(text)
    return Weights(data["bias"], data["weights"], data["means"])


def features(
    record: Record, reading: Reading, histories: Histories | None, name: str
) -> dict[str, float]:
    """Compute every feature of one value, all in 0..1 and high where values are often wrong."""
    confidence = aggregated_confidence(record)
    sure = confidence.value if isinstance(confidence.value, float) else OTHERWISE
    return {
        **votes.measure(record, reading, sure),
        **rivalry.measure(reading),
        **fit.measure(record, reading, fits=confidence.metadata.get("format_valid")),
        **place.measure(record, reading),
        **(histories.measure(name, reading) if histories is not None else {}),
    }
