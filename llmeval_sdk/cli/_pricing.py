"""Prices for reports: those that come along, one's own, and those that a command names."""

from __future__ import annotations

from collections.abc import Mapping

from llmeval_sdk import config
from llmeval_sdk._prices import price_of
from llmeval_sdk.store.traffic import Pricing


Prices = Mapping[str, tuple[float, ...]]


def pricing(anew: Prices | None = None) -> Pricing:
    """Return the prices of a report; calls of models with a price among ``anew`` get that one."""
    own = {**(config.from_environment(problems=[]).prices or {}), **(anew or {})}

    def is_anew(model: str) -> bool:
        return model in (anew or ()) or price_of(model, own=anew) != price_of(model)

    return Pricing(lambda model: price_of(model, own=own), is_anew if anew else None)
