"""One metric in two reports: by how much it changed, and how sure that is."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal


CONFIDENCE = 0.95
RESAMPLES = 2_000
DRAWS = 50_000_000
"""Rows times resamples for one metric, at most; a mean of so many rows needs fewer resamples."""
FEW = 20
"""Pairs below which no interval is given: resampling so few says little."""
LITTLE = 0.01
"""A difference that stops no change, however sure it is: with many rows any is."""


@dataclass(frozen=True, slots=True)
class Change:
    """One metric in both reports, over the rows that are rated in both."""

    path: str
    pairs: int
    before: float
    after: float
    low: float | None = None
    """The 95 % interval of ``difference``, where there are enough pairs."""
    high: float | None = None
    direction: int = 1
    """1 where more is better, -1 where less is, 0 where neither is."""
    chance: float | None = None
    """How likely so great a difference is where nothing changed (two-sided p, paired)."""

    @property
    def difference(self) -> float:
        """After minus before."""
        return self.after - self.before

    @property
    def verdict(self) -> Literal["better", "worse", "changed", "unchanged", "unsure"]:
        """What the interval says; ``unsure`` where it holds 0, or there is none."""
        if self.low is None or self.high is None:
            return "unsure" if self.difference else "unchanged"
        if self.low == self.high == 0:
            return "unchanged"
        if self.low <= 0 <= self.high:
            return "unsure"
        if self.direction == 0:
            return "changed"
        return "better" if (self.low > 0) is (self.direction > 0) else "worse"


def surely_worse(changes: Iterable[Change]) -> tuple[Change, ...]:
    """Return what got worse even when all metrics are seen together.

    Of twenty metrics that did not change, one looks changed at 95 %. Holm's procedure keeps the
    chance that any is blamed wrongly at 5 %, however many there are.
    """
    known = sorted((each for each in changes if each.chance is not None), key=_chance)
    sure = []
    for place, change in enumerate(known):
        if _chance(change) > (1 - CONFIDENCE) / (len(known) - place):
            break
        if change.verdict == "worse" and abs(change.difference) >= LITTLE:
            sure.append(change)
    return tuple(sure)


def _chance(change: Change) -> float:
    return 1.0 if change.chance is None else change.chance


def change_of(
    np: Any,
    random: Any,
    path: str,
    before: array[float],
    after: array[float],
    *,
    direction: int,
) -> Change:
    """Compare the values of a metric, pair by pair."""
    one, other = np.frombuffer(before), np.frombuffer(after)
    low = high = chance = None
    if len(one) >= FEW:
        low, high = interval(np, random, other - one)
        chance = _by_chance(other - one)
    means = float(one.mean()), float(other.mean())
    return Change(path, len(one), *means, low, high, direction, chance)


def interval(np: Any, random: Any, differences: Any) -> tuple[float, float]:
    """Return the percentile interval of the mean difference, from rows drawn with replacement."""
    count = len(differences)
    if not differences.any():
        return 0.0, 0.0
    resamples = int(min(RESAMPLES, max(200, DRAWS // count)))
    means = [differences[random.integers(0, count, count)].mean() for _ in range(resamples)]
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(means, (tail, 1 - tail))
    return float(low), float(high)


def _by_chance(differences: Any) -> float:
    """Return the two-sided p of the mean difference, which is about normal from 20 pairs on."""
    mean, spread = float(differences.mean()), float(differences.std(ddof=1))
    if not spread:
        return 0.0 if mean else 1.0
    return math.erfc(abs(mean) / spread * math.sqrt(len(differences) / 2))


def describe(change: Change) -> str:
    """Say a change in one line."""
    between = ""
    if change.low is not None and change.high is not None:
        between = f", 95 % [{change.low:+.3g}, {change.high:+.3g}]"
    return (
        f"{change.path}: {change.before:.4g} to {change.after:.4g} "
        f"({change.difference:+.3g}{between})"
    )
