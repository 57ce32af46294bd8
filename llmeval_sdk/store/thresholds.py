"""Plain bounds on the traffic of a window, such as ``latency_seconds.p95>2``.

They are no statistics: what was measured in the window is compared with the bound, and nothing
else. A window of three requests therefore raises an alarm as easily as one of a million.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from llmeval_sdk.store.course import Bound
from llmeval_sdk.store.traffic import Pricing, TrafficGroup, TrafficScope, overall


DAY_SECONDS = 86_400.0
_Read = Callable[[TrafficGroup, float], float | None]


def _percentile(field: str, name: str) -> _Read:
    def read(group: TrafficGroup, _: float) -> float | None:
        percentiles = getattr(group, field)
        return None if percentiles is None else float(getattr(percentiles, name))

    return read


def _cost(per: Callable[[TrafficGroup, float], float]) -> _Read:
    def read(group: TrafficGroup, window: float) -> float | None:
        usd = group.cost_usd if group.calls else 0.0
        return None if usd is None else usd / per(group, window)

    return read


_READ: dict[str, _Read] = {
    **{
        f"{field}.{name}": _percentile(field, name)
        for field in ("latency_seconds", "time_to_first_token_seconds", "tokens_per_second")
        for name in ("p50", "p95", "p99")
    },
    "error_rate": lambda group, _: group.error_rate if group.count else None,
    "cost_usd.total": _cost(lambda *_: 1.0),
    "cost_usd.per_day": _cost(lambda _, window: window / DAY_SECONDS),
    "cost_usd.per_request": _cost(lambda group, _: max(group.count, 1)),
    "requests.per_minute": lambda group, window: group.count / (window / 60),
}
METRICS = tuple(_READ)
"""What a plain bound can be about."""


@dataclass(frozen=True, slots=True)
class Measured:
    """How one plain bound stands."""

    alert: str
    holds: bool | None
    """Whether the alarm is in force; ``None`` where nothing was measured."""
    value: float | None
    count: int
    """How many requests began in the window, or how many gave this feedback."""
    since_ns: int
    until_ns: int
    detail: str = ""


def is_plain(bound: Bound) -> bool:
    """Return whether a bound is about the traffic, and not about a score."""
    return bound.evaluator in _READ


def measure(
    connection: sqlite3.Connection,
    bounds: list[Bound],
    window: tuple[int, int],
    *,
    span_name: str | None = None,
    prices: Mapping[str, tuple[float, ...]] | None = None,
) -> list[Measured]:
    """Compare what happened in a window, in nanoseconds since the epoch, with plain bounds."""
    if not bounds:
        return []
    pricing = Pricing(prices)
    group = overall(connection, TrafficScope(*window, span_name), pricing)
    seconds = max((window[1] - window[0]) / 1e9, 1e-9)
    results = []
    for bound in bounds:
        value = _READ[bound.evaluator](group, seconds)
        detail = ""
        if bound.evaluator.startswith("cost_usd") and group.unpriced_calls:
            models = ", ".join(pricing.unpriced)
            detail = f"{group.unpriced_calls:,} calls have no known price ({models})"
        holds = None if value is None else _is_beyond(bound, value)
        if detail and holds is not True:
            holds = None  # what is not priced may cost anything
        results.append(Measured(str(bound), holds, value, group.count, *window, detail))
    return results


def _is_beyond(bound: Bound, value: float) -> bool:
    """Return whether a value is what a bound warns of."""
    return value < bound.value if bound.sign == "<" else value > bound.value
