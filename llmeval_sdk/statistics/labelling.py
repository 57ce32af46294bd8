"""Which judged records to label, so that few labels say much and what they say stays unbiased.

A label narrows `corrected_mean` the more of the traffic its record stands for and the less sure its
verdict is. Each judged record therefore gets the size ``w * sqrt(e * (1 - e))``: w is the inverse
of its chance to be judged and e the chance that people disagree with the verdict, taken to be
larger where the judge failed the record and where its free score contradicts a verdict that passed
it. This is Neyman's allocation (1934) with guessed variances: a bad guess costs width and makes no
bias, because a record's chance to be chosen is known.

Each record has a fixed random number u, made from its id; the ``count`` records with the smallest
``u / size`` are chosen (priority sampling: Duffield, Lund and Thorup 2007; sequential Poisson
sampling: Ohlsson 1998). With t the next smallest of these ratios the chance of a record is
``min(1, t * size)``, as if the records were drawn one by one. The chosen ones come in a random
order, so that somebody who stops early has labelled a random part of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from math import sqrt
from typing import NamedTuple

from llmeval_sdk.statistics.correction import PASS


PASSED_OFF, RISKY_OFF, FAILED_OFF = 0.02, 0.20, 0.25
"""How often people are taken to disagree with a verdict that passes a record, what is added for the
riskiest of those, and with one that fails it."""


class Candidate(NamedTuple):
    """One judged record that could be labelled."""

    id: str
    verdict: float
    """In 0..1."""
    chance: float
    """Its chance to be judged, in 0..1, above 0."""
    risk: float | None = None
    """Its free score, higher where the record is more likely to be bad, on any scale."""


class Choice(NamedTuple):
    """A record to label and the chance, in 0..1, with which it was chosen among the judged."""

    id: str
    chance: float


def choose(candidates: Sequence[Candidate], count: int, *, key: str = "") -> list[Choice]:
    """Choose records to label, in the order in which to show them.

    Args:
        candidates: All judged records, those that have labels already included: the same records
            are chosen again while the traffic is the same, and more of them for a larger count.
        count: How many, at least 1; all of them where there are not so many.
        key: What makes the random numbers of one purpose differ from another's.
    """
    ranks = _ranks(candidates)
    sizes = [_size(each, rank) for each, rank in zip(candidates, ranks, strict=True)]
    ordered = sorted(
        (_uniform(f"{key}/{each.id}") / size, place)
        for place, (each, size) in enumerate(zip(candidates, sizes, strict=True))
    )
    threshold = ordered[count][0] if count < len(ordered) else None
    chosen = [
        Choice(
            candidates[place].id,
            1.0 if threshold is None else min(1.0, threshold * sizes[place]),
        )
        for _, place in ordered[:count]
    ]
    return sorted(chosen, key=lambda choice: _uniform(f"{key}/order/{choice.id}"))


def _size(each: Candidate, rank: float) -> float:
    off = PASSED_OFF + RISKY_OFF * rank * rank if each.verdict >= PASS else FAILED_OFF
    return sqrt(off * (1 - off)) / each.chance


def _ranks(candidates: Sequence[Candidate]) -> list[float]:
    """Return where each free score stands among all traffic, from 0 for the safest to below 1."""
    known = sorted((each.risk, 1 / each.chance) for each in candidates if each.risk is not None)
    total = sum(weight for _, weight in known)
    place: dict[float, float] = {}
    below = 0.0
    for risk, weight in known:
        place.setdefault(risk, below / total)
        below += weight
    return [0.5 if each.risk is None else place[each.risk] for each in candidates]


def _uniform(text: str) -> float:
    """Return a number above 0 and at most 1 that is always the same for a text."""
    digest = blake2b(text.encode("utf-8", "replace"), digest_size=7).digest()
    return (int.from_bytes(digest, "big") + 1) / 2**56
