"""The trained models: sums of one step function per feature, squashed to a probability.

Boosted stumps add up to exactly this, so a model is a few short tables that can be read, drawn
and scored in microseconds: logit = bias + sum over features of ``steps[bisect(edges, value)]``.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
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


LETTER, GRAM = 0.75, 1.3
"""Weights in other languages than English: of a letter, of a pair of signs."""
UNKNOWN_WEIGHT = 9.0
"""Of a word that the background table does not hold."""


@lru_cache(None)
def data(name: str) -> Mapping[str, Any]:
    """Read ``data/<name>.json``."""
    path = files("llmeval_sdk.heuristics.risk") / "data" / f"{name}.json"
    loaded: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def lines(name: str) -> list[str]:
    """Read the lines of ``data/<name>.txt`` that say something."""
    path = files("llmeval_sdk.heuristics.risk") / "data" / f"{name}.txt"
    found = path.read_text(encoding="utf-8").splitlines()
    return [line for line in found if line and not line.startswith("#")]


def listed(name: str) -> list[str]:
    """Read the words of ``data/<name>.txt``."""
    return " ".join(lines(name)).split()


@lru_cache(None)
def model(file: str, part: str) -> Additive:
    """Read one model of a data file."""
    return from_json(data(file)[part])


class Weights(dict[str, float]):
    """Stem -> inverse document frequency, also of a stem that is not in the table."""

    def __missing__(self, stem: str) -> float:
        return UNKNOWN_WEIGHT


@lru_cache(None)
def background() -> Weights:
    """Return the weights in English text and answers."""
    table: Mapping[str, str] = data("background")["stems"]
    return Weights(
        {stem: float(weight) for weight, stems in table.items() for stem in stems.split()}
    )


def weigher(table: Mapping[str, float] | None = None, *, english: bool) -> Callable[[str], float]:
    """Return what weighs a stem: the background table for English, else the word's length."""
    if not english:
        return by_length
    return (background() if table is None else Weights(table)).__getitem__


def by_length(word: str) -> float:
    """Weigh a word of an unknown language: long words are rare, two-letter grams are small."""
    return GRAM if len(word) <= 2 and not word.isascii() else LETTER * len(word)
