"""The noun: what judges may use at most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

from llmeval_sdk.errors import ConfigurationError


UNPRICED_TOKENS_PER_MINUTE = 200_000
"""Sixty calls with some 3,000 tokens each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What judges may use at most. ``None`` lifts a limit; 0 allows nothing.

    Raises:
        ConfigurationError: a limit that is no number of at least 0.
    """

    calls_per_minute: float | None = 60
    """In any 60 seconds; below 1, one call in 60 / calls_per_minute seconds."""
    tokens_per_minute: float | None = None
    unpriced_tokens_per_minute: float | None = UNPRICED_TOKENS_PER_MINUTE
    """Stands in for ``usd_per_day`` where the model's price is unknown: tokens in any 60 seconds,
    unless ``tokens_per_minute`` says how many. A judgement that is larger takes the whole minute.
    Without a limit in dollars there is none in its stead."""
    usd_per_day: float | None = 5.0
    """By UTC day, where the model's price is known. 0 refuses models of unknown price as well."""
    concurrency: int = 8
    """Calls at a time, in each process."""
    judges: Mapping[str, Budget] = field(default_factory=dict, hash=False)
    """Further limits of single judges, by name, inside this one; their concurrency is not used."""

    def __post_init__(self) -> None:
        for limit in (
            "calls_per_minute",
            "tokens_per_minute",
            "unpriced_tokens_per_minute",
            "usd_per_day",
        ):
            value = getattr(self, limit)
            if value is not None and not (_is_number(value) and 0 <= value < float("inf")):
                raise ConfigurationError(
                    f"Budget: {limit} must be a number of at least 0, or None for no limit,"
                    f" not {value!r}"
                )
        if type(self.concurrency) is not int or self.concurrency < 1:
            raise ConfigurationError(
                f"Budget: concurrency must be a whole number of at least 1,"
                f" not {self.concurrency!r}"
            )
        for name, budget in self.judges.items():
            if not isinstance(budget, Budget) or budget.judges:
                raise ConfigurationError(
                    f"Budget: judges[{name!r}] must be a Budget without judges of its own"
                )


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
