"""What one judge said, and did not say, as sums."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from llmeval_sdk.statistics.mean import Tally


@dataclass(slots=True)
class Judged:
    """What one judge said, and did not say, about the spans of one name in one period."""

    origin: float = 0.0
    """What is subtracted from each verdict in `tally`, so that the sums of large ones stay exact.
    """
    tally: Tally = field(default_factory=Tally)
    """Sums over the verdicts that are numbers and have an inclusion probability."""
    passed: int = 0
    """How many of those are passes."""
    passed_weight: float = 0.0
    """The sum of the inverses of the inclusion probabilities of the passes."""
    low: float = inf
    high: float = -inf
    """The range of those verdicts."""
    numbers: int = 0
    """How many verdicts are numbers, with an inclusion probability or without."""
    total: float = 0.0
    """The sum of those, less `origin` each."""
    is_out_of_scale: bool = False
    """Whether any of them is outside 0..1."""
    passed_over: int = 0
    """How many records were not escalated or not sampled."""
    categories: Counter[str] = field(default_factory=Counter)
    """How often it gave each word that is not a number, including neutral ones such as ``skipped``.
    """
    answered: int = 0
    """How many judgements have no error, whether or not they are numbers."""
    reasons: Counter[str] = field(default_factory=Counter)
    cost_usd: float | None = None
    versions: set[str] = field(default_factory=set)
    """The versions of the judge that gave these verdicts."""

    @property
    def mean(self) -> float | None:
        """The plain mean of the verdicts that are numbers."""
        return self.total / self.numbers + self.origin if self.numbers else None

    def join(self, other: Judged) -> None:
        """Add what the same judge said in another period or about spans of another name."""
        self.origin = other.origin
        self.tally.join(other.tally)
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.is_out_of_scale |= other.is_out_of_scale
        for name in ("passed", "passed_weight", "numbers", "total", "passed_over", "answered"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.categories += other.categories
        self.reasons += other.reasons
        self.versions |= other.versions
        if other.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + other.cost_usd

    def add(self, sums: Sums) -> None:
        """Add verdicts that are numbers, with an inclusion probability each or without."""
        self.numbers += sums.numbers
        self.total += sums.total
        self.is_out_of_scale |= sums.low < 0 or sums.high > 1
        if sums.known:
            self.low, self.high = min(self.low, sums.low), max(self.high, sums.high)
            self.passed += sums.passed
            self.passed_weight += sums.passed_weight
            self.tally.join(
                Tally(
                    count=sums.known, judged=sums.known, heaviest=1 / sums.least_chance,
                    w=sums.w, wy=sums.wy, ww=sums.ww, wwy=sums.wwy, wwyy=sums.wwyy,
                )
            )  # fmt: skip


class Sums(NamedTuple):
    """What some verdicts add up to, as statements below return it; y is a verdict less the origin.

    If only some of them have an inclusion probability, what follows ``known`` is of those.
    """

    numbers: int
    low: float
    high: float
    total: float
    known: int = 0
    least_chance: float = 1.0
    w: float = 0.0
    ww: float = 0.0
    wy: float = 0.0
    wwy: float = 0.0
    wwyy: float = 0.0
    passed: int = 0
    passed_weight: float = 0.0
