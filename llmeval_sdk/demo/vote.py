"""Many passages, one answer: every extraction votes with its confidence."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from llmeval_sdk.demo.truth import normal


@dataclass(frozen=True, slots=True)
class Answer:
    """What the passages agree on, and how sure that makes us: HIGH, MEDIUM or LOW."""

    value: str | None
    confidence: str


def vote(field: str, found: Iterable[Mapping[str, Any]]) -> Answer:
    """Sum the confidence of equal values; the spelling used most stands for its group."""
    weight: dict[str, float] = defaultdict(float)
    spelled: dict[str, Counter[str]] = defaultdict(Counter)
    for one in found:
        group = normal(field, one["value"])
        weight[group] += one["confidence"]
        spelled[group][one["value"]] += 1
    if not weight:
        return Answer(None, "LOW")
    best = max(weight, key=lambda group: weight[group])
    share = weight[best] / sum(weight.values())
    sure = "HIGH" if share > 0.7 and weight[best] >= 0.8 else "MEDIUM" if share > 0.5 else "LOW"
    return Answer(spelled[best].most_common(1)[0][0], sure)
