"""What the requests of one call used, and what of it a cache had or keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from llmeval_sdk._prices import Prices, cost
from llmeval_sdk.model import Usage


@dataclass(slots=True)
class CallUsage:
    """The sum over all requests of a call that were answered."""

    prices: Prices | None = None
    """Own prices by model, as ``configure(prices=…)`` takes them."""
    _usage: Usage | None = None
    _cached: dict[str, float] = field(default_factory=dict)

    def add(self, usage: Usage | None, cached: Mapping[str, float]) -> None:
        """Add one request; ``cached`` has its input tokens by the names of `_coerce.CACHED`."""
        if usage is None:
            return
        self._usage = usage if self._usage is None else self._usage + usage
        for name, tokens in cached.items():
            self._cached[name] = self._cached.get(name, 0) + tokens

    def usage(self, *models: str) -> Usage | None:
        """Return the sum, with its cost where a cache changed it. Else the caller knows it.

        The first model counts that has a price.
        """
        if self._usage is None or not any(self._cached.values()):
            return self._usage
        costs = (cost(model, self._usage, self._cached, own=self.prices) for model in models)
        return replace(self._usage, cost_usd=next((usd for usd in costs if usd is not None), None))
