"""Whether an evaluator's probabilities can be believed, from records that people labelled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llmeval_sdk.offline.agreement import Pair
from llmeval_sdk.statistics import Caught, Reliability, caught_below, reliability, threshold_for


THRESHOLDS = tuple(tenth / 10 for tenth in range(1, 10))
WANTED = 0.9
"""The share of failures that a proposed threshold catches, unless another is asked for."""


@dataclass(frozen=True, slots=True)
class Probabilities:
    """How far probabilities of a good record can be believed.

    Args:
        reliability: Tenths, Brier score and calibration error.
        caught: What each threshold catches of the records that people called bad; empty where they
            called none so.
        proposed: The lowest threshold that catches the wanted share; ``None`` where none does.
        wanted: That share, 0..1.
    """

    reliability: Reliability
    caught: tuple[Caught, ...]
    proposed: Caught | None
    wanted: float


def probabilities(pairs: Sequence[Pair], wanted: float = WANTED) -> Probabilities | None:
    """Look at scores as probabilities of ``yes``; ``None`` where they cannot be any.

    They can be where every record has one in 0..1 and a label that is yes or no.
    """
    if not pairs or not all(_is_probability(pair) for pair in pairs):
        return None
    scores, labels, chances = columns(pairs)
    found = reliability(scores, labels, chances)
    assert found is not None  # there are labels
    caught = (caught_below(scores, labels, threshold, chances) for threshold in THRESHOLDS)
    return Probabilities(
        found,
        tuple(one for one in caught if one is not None),
        threshold_for(scores, labels, wanted, chances),
        wanted,
    )


def columns(pairs: Sequence[Pair]) -> tuple[list[float], list[float], list[float]]:
    """Return probabilities, labels (1 is yes) and chances of records that have a score."""
    scored = [pair for pair in pairs if pair.score is not None]
    return (
        [pair.score or 0.0 for pair in scored],
        [float(pair.label == "yes") for pair in scored],
        [pair.chance for pair in scored],
    )


def _is_probability(pair: Pair) -> bool:
    return pair.score is not None and 0 <= pair.score <= 1 and pair.label in ("yes", "no")
