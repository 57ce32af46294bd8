"""Reads the data files of the risk scores: trained models, word lists and word weights.

A model is a sum of step functions, one for each feature, and boosted stumps add up to exactly that.
So it is a few short tables, which people can read and draw, and scores in microseconds::

    logit = bias + sum over features of steps[bisect(edges, value)]
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
    """The edges in rising order. A value that equals an edge takes the step below it."""
    steps: list[float]
    """The height of each step; there is one more step than there are edges."""


@dataclass(frozen=True, slots=True)
class Additive:
    """An additive logistic model."""

    bias: float
    features: Mapping[str, Table]

    def logit(self, values: Mapping[str, float]) -> float:
        """Return the sum of the steps. ``values`` has a value for every feature."""
        logit = self.bias
        for name, (edges, steps) in self.features.items():
            logit += steps[bisect_left(edges, values[name])]
        return logit

    def risk(self, values: Mapping[str, float]) -> float:
        """Return the probability, 0..1. ``values`` has a value for every feature."""
        return squashed(self.logit(values))


def squashed(logit: float) -> float:
    """Turn a logit into a probability."""
    return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, logit))))


def from_json(data: Mapping[str, Any]) -> Additive:
    """Read a model as the training script wrote it."""
    return Additive(data["bias"], {n: Table(**table) for n, table in data["features"].items()})


LETTER, GRAM = 0.75, 1.3
"""What one letter weighs, and a pair of signs, in other languages than English."""
UNKNOWN_WEIGHT = 9.0
"""What a word weighs that the background table does not hold."""


@lru_cache(None)
def data(name: str) -> Mapping[str, Any]:
    """Read ``data/<name>.json``."""
    path = files("llmeval_sdk.heuristics.risk") / "data" / f"{name}.json"
    loaded: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def lines(name: str) -> list[str]:
    """Read the lines of ``data/<name>.txt`` that are neither empty nor comments."""
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


class StemWeights(dict[str, float]):
    """The inverse document frequency of each stem, including stems that are not in the table."""

    def __missing__(self, stem: str) -> float:
        return UNKNOWN_WEIGHT


@lru_cache(None)
def background() -> StemWeights:
    """Return how much each stem weighs in English texts and answers."""
    table: Mapping[str, str] = data("background")["stems"]
    return StemWeights(
        {stem: float(weight) for weight, stems in table.items() for stem in stems.split()}
    )


def weigher(table: Mapping[str, float] | None = None, *, english: bool) -> Callable[[str], float]:
    """Return the function that weighs a stem, by the background table or by the word's length."""
    if not english:
        return _by_length
    return (background() if table is None else StemWeights(table)).__getitem__


def _by_length(word: str) -> float:
    """Weigh a word of an unknown language by its length, because long words are rare."""
    return GRAM if len(word) <= 2 and not word.isascii() else LETTER * len(word)
