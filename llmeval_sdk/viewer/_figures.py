"""The figures of one evaluator: what many of its scores add up to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from llmeval_sdk import _values
from llmeval_sdk.store.bins import BINS, bin_of, has_bins
from llmeval_sdk.store.views import Recent


POINTS = 40
"""The largest number of periods in a trend."""
_STEPS = (
    0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3_600, 21_600, 86_400, 604_800, 2_592_000,
)  # fmt: skip
"""The lengths that a period may have, in seconds."""


@dataclass(frozen=True, slots=True)
class Figures:
    """A summary of the scores of one evaluator."""

    name: str
    judge: bool
    count: int
    mean: float | None
    """The plain mean, counting yes and pass as 1, no and fail as 0; ``None`` for other words."""
    low: float
    high: float
    """The range of `histogram`."""
    histogram: tuple[int, ...]
    categories: Mapping[str, int]
    """How often each category was given, most frequent first."""
    failed: int
    not_applicable: int
    capped: bool

    @property
    def shares(self) -> list[tuple[str, int, float]]:
        """Return the categories with their counts and shares."""
        return [(name, times, times / self.count) for name, times in self.categories.items()]


def figures(name: str, recent: Recent, *, judge: bool) -> Figures:
    """Summarise the latest scores of an evaluator."""
    there = [value for value in recent.values if value is not None]
    numbers = [value for value in there if type(value) is float and isfinite(value)]
    words = Counter(_word(value) for value in there if type(value) is not float)
    rated = [_values.number(value) for value in there if not _values.is_neutral(value)]
    rates = [rating for rating in rated if rating is not None]
    low, high = (min(numbers), max(numbers)) if numbers else (0.0, 1.0)
    if low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    return Figures(
        name,
        judge,
        len(there),
        sum(rates) / len(rates) if len(rates) == len(rated) > 0 else None,
        low,
        high,
        _histogram(numbers, low, high),
        dict(words.most_common()),
        recent.failed,
        len(recent.values) - len(there) - recent.failed,
        recent.capped,
    )


def _word(value: str | int) -> str:
    return value if isinstance(value, str) else _values.word(value)


def _histogram(numbers: Sequence[float], low: float, high: float) -> tuple[int, ...]:
    if not numbers or not has_bins(low, high):
        return ()
    bins = Counter(bin_of(value, low, high) for value in numbers)
    return tuple(bins[place] for place in range(BINS))


def period_of(times: Sequence[int]) -> int:
    """Return the length, in nanoseconds, that divides these times into at most `POINTS` periods."""
    seconds = (max(times) - min(times)) / 1e9 if times else 0.0
    step = next((step for step in _STEPS if seconds / step <= POINTS), _STEPS[-1])
    return int(step * 1e9)


def means_by_period(recent: Recent, period_ns: int) -> list[tuple[int, float, int]]:
    """Return the beginning, mean and count of each period that has scores.

    There are none if any value is a category, because words have no mean.
    """
    if any(
        isinstance(value, str) and _values.number(value) is None and not _values.is_neutral(value)
        for value in recent.values
    ):
        return []
    sums: dict[int, list[float]] = {}
    for time_ns, value in zip(recent.times, recent.values, strict=True):
        number = _values.number(value)
        if number is not None:
            total = sums.setdefault(time_ns - time_ns % period_ns, [0.0, 0])
            total[0] += number
            total[1] += 1
    return [(begin, total / times, int(times)) for begin, (total, times) in sorted(sums.items())]


def words_by_period(recent: Recent, period_ns: int) -> list[tuple[int, str, int]]:
    """Return how often each category was given in each period."""
    counts: Counter[tuple[int, str]] = Counter()
    for time_ns, value in zip(recent.times, recent.values, strict=True):
        if value is not None and type(value) is not float:
            counts[time_ns - time_ns % period_ns, _word(value)] += 1
    return [(begin, word, times) for (begin, word), times in sorted(counts.items())]


def quantile(ordered: Sequence[float], share: float) -> float | None:
    """Return the value below which a share of some ordered values lies."""
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else None
