"""What the spans of one group add up to: latencies, failures, tokens and money, all exact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import NamedTuple, Protocol

from llmeval_sdk._coerce import CACHED
from llmeval_sdk.model import Usage


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Three percentiles, interpolated between the two values that lie around each."""

    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class TrafficGroup:
    """The spans, model calls or requests of one group, and what the model calls in them used."""

    key: str | None
    """What they have in common; ``None`` for those that have no such value."""
    unit: str
    """What is counted: ``span``, ``call`` of a model, or ``request``, the first span of a trace."""
    count: int
    failed: int
    error_rate: float
    error_types: Mapping[str, int]
    latency_seconds: Percentiles | None
    time_to_first_token_seconds: Percentiles | None
    """Of streams."""
    tokens_per_second: Percentiles | None
    """Of streams: the output tokens, by the time after the first of them."""
    calls: int
    """Model calls whose tokens are known."""
    input_tokens: int
    output_tokens: int
    cache_read_input_tokens: int
    cache_write_input_tokens: int
    reasoning_output_tokens: int
    cost_usd: float | None
    """Of the calls whose price is known; ``None`` if it is of none."""
    unpriced_calls: int
    """Calls of unknown cost: without a known price, or without the tokens they used."""
    clock_jumps: int
    """Spans that end before they begin; the percentiles leave them out."""
    no_answer: float | None = None
    """The share, 0..1, of workflows and agents that did not fail whose answer got lost; ``None``
    where nobody knows, because no content was captured, or where calls of models are counted."""


class CallTokens(NamedTuple):
    """What model calls used. Cached tokens are part of the input, and never more than it."""

    calls: int
    input: int
    output: int
    total: int
    cache_read: int
    cache_write: int
    reasoning: int


class ModelPrice(Protocol):
    """What knows the cost of calls of one model."""

    def cost(self, usage: Usage, metrics: Mapping[str, float]) -> float:
        """Return the cost in US dollars; ``metrics`` has the cached tokens."""


class Pricing:
    """Prices of calls at the time of the report.

    Args:
        price_of: returns a model's price, or ``None`` if it is unknown. By default none is known.
        is_anew: whether a model's price stands in place of the costs that were stored. By default
            a call keeps the cost that was stored with it.
    """

    def __init__(
        self,
        price_of: Callable[[str], ModelPrice | None] = lambda _: None,
        is_anew: Callable[[str], bool] | None = None,
    ) -> None:
        self._price_of = price_of
        self._is_anew = is_anew
        self.has_new = is_anew is not None
        self._prices: dict[str | None, tuple[ModelPrice | None, bool]] = {}
        self.unpriced: Counter[str] = Counter()
        """How many calls have no known price, by model."""
        self.silent: Counter[str] = Counter()
        """How many calls succeeded without reporting the tokens they used, by model."""

    def of(self, model: str | None) -> tuple[ModelPrice | None, bool]:
        """Return a model's price, and whether it stands in place of costs that were stored."""
        if model not in self._prices:
            price = self._price_of(model) if model else None
            is_anew = bool(model and price and self._is_anew and self._is_anew(model))
            self._prices[model] = price, is_anew
        return self._prices[model]


def cost_of(price: ModelPrice, used: CallTokens) -> float:
    """Return what calls cost in US dollars."""
    usage = Usage(used.input, used.output, used.total)
    return price.cost(usage, dict(zip(CACHED, (used.cache_read, used.cache_write), strict=True)))


@dataclass(slots=True)
class TrafficSums:
    """The running sums of one group."""

    count: int = 0
    jumps: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    durations: list[int] = field(default_factory=list)
    """Nanoseconds."""
    first_tokens: list[int] = field(default_factory=list)
    """Nanoseconds."""
    speeds: list[int] = field(default_factory=list)
    """Thousandths of a token per second."""
    used: list[int] = field(default_factory=lambda: [0] * len(CallTokens._fields))
    """What `CallTokens` names, in its order."""
    cost_usd: float | None = None
    unpriced: int = 0
    asked: int = 0
    """Requests that did not fail and of which it is known whether they have an answer."""
    lost: int = 0
    """Those of them whose answer got lost."""

    def add_spans(self, count: int, error: str | None, jumps: int) -> None:
        """Count spans that ended alike."""
        self.count += count
        self.jumps += jumps
        if error is not None:
            self.errors[error] += count

    def add_used(self, used: Sequence[int], cost_usd: float | None, unpriced: int) -> None:
        """Add what calls used."""
        self.used = [one + more for one, more in zip(self.used, used, strict=True)]
        self.unpriced += unpriced
        if cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0.0) + cost_usd

    def merge(self, other: TrafficSums) -> None:
        """Add another group."""
        self.durations += other.durations
        self.first_tokens += other.first_tokens
        self.speeds += other.speeds
        self.count += other.count
        self.errors += other.errors
        self.jumps += other.jumps
        self.asked += other.asked
        self.lost += other.lost
        self.add_used(other.used, other.cost_usd, other.unpriced)

    def group(self, key: str | None, unit: str) -> TrafficGroup:
        """Return what it all adds up to."""
        failed, used = self.errors.total(), CallTokens(*self.used)
        return TrafficGroup(
            key,
            unit,
            self.count,
            failed,
            failed / self.count if self.count else 0.0,
            dict(self.errors.most_common(MOST_TYPES)),
            _percentiles(self.durations, 1e9),
            _percentiles(self.first_tokens, 1e9),
            _percentiles(self.speeds, 1e3),
            used.calls,
            used.input,
            used.output,
            used.cache_read,
            used.cache_write,
            used.reasoning,
            self.cost_usd if isfinite(self.cost_usd or 0.0) else None,
            self.unpriced,
            self.jumps,
            self.lost / self.asked if self.asked else None,
        )


MOST_TYPES = 20
"""How many types of errors a group names."""


def _percentiles(numbers: list[int], per_unit: float) -> Percentiles | None:
    """Return the percentiles of some whole numbers, which are sorted on the way."""
    if not numbers:
        return None
    numbers.sort()

    def at(share: float) -> float:
        place = share * (len(numbers) - 1)
        low = int(place)
        high = min(low + 1, len(numbers) - 1)
        return (numbers[low] + (numbers[high] - numbers[low]) * (place - low)) / per_unit

    return Percentiles(at(0.5), at(0.95), at(0.99))


def listed(text: str | None) -> list[int]:
    """Read whole numbers that SQLite joined with commas.

    A million of them take a tenth of the time in which as many rows are fetched.
    """
    return list(map(int, text.split(","))) if text else []
