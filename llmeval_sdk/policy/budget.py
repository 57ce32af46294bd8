"""`Budget`: the limits on what judges may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

from llmeval_sdk.errors import ConfigurationError


UNPRICED_TOKENS_PER_MINUTE = 200_000
"""Enough for sixty calls of some 3,000 tokens each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The limits on what judges may use. ``None`` removes a limit; 0 allows nothing.

    Raises:
        ConfigurationError: A limit is not a number of at least 0.
    """

    calls_per_minute: float | None = 60
    """Calls in any 60 seconds. A limit below 1 allows one call in 60 / calls_per_minute seconds."""
    tokens_per_minute: float | None = None
    unpriced_tokens_per_minute: float | None = UNPRICED_TOKENS_PER_MINUTE
    """Tokens in any 60 seconds for models whose price is unknown, in place of ``usd_per_day``.
    ``tokens_per_minute``, if set, is used instead. A larger judgement takes the whole minute. If
    ``usd_per_day`` is ``None``, this limit does not apply either."""
    usd_per_day: float | None = 5.0
    """US dollars in a UTC day, for models whose price is known. 0 also refuses all other models."""
    concurrency: int = 8
    """Calls at the same time, in each process."""
    judges: Mapping[str, Budget] = field(default_factory=dict, hash=False)
    """Further limits for single judges by name, within this one. Their concurrency is ignored."""

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
