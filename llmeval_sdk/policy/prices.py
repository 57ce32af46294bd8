"""What models cost, as far as it is known; `prices.json` is data and approximate."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple

from llmeval_sdk.model import SpanData, Usage


MILLION = 1_000_000

_VENDOR = re.compile(r"^(?:[a-z]{2,6}\.)?(?:openai|anthropic|mistral|google)\.")
_VERSION = re.compile(r"(?:[-@:.](?:\d+|v\d+|latest|preview|exp))*")
"""What may follow a known name: dates and versions, not another word such as ``-audio``."""


class Price(NamedTuple):
    """USD per 1,000,000 tokens."""

    input: float
    output: float

    def cost(self, usage: Usage) -> float:
        """Return the USD of a usage; tokens of unknown direction count as output."""
        unknown = max(usage.total_tokens - usage.input_tokens - usage.output_tokens, 0)
        dear = usage.output_tokens + unknown
        return (usage.input_tokens * self.input + dear * self.output) / MILLION


def price_of(model: str, *, own: Mapping[str, tuple[float, float]] | None = None) -> Price | None:
    """Find a model's price by its name; ``None`` when it is unknown, and only tokens are counted.

    The longest known name that the model's name begins with wins, where only dates and versions
    follow (``gpt-4o-mini-2024-07-18``). A provider in front (``openai/gpt-4o``,
    ``us.anthropic.claude-…``) is ignored unless the whole name is known. ``own`` prices win.
    """
    return (_found(model, own) if own else None) or _listed_price(model)


def cost(
    model: str, usage: Usage, *, own: Mapping[str, tuple[float, float]] | None = None
) -> float | None:
    """Return the USD of a usage, as the provider said or by the price list; ``None`` if unknown."""
    if usage.cost_usd is not None:
        return usage.cost_usd
    price = price_of(model, own=own)
    return None if price is None else price.cost(usage)


def with_cost(span: SpanData, *, own: Mapping[str, tuple[float, float]] | None = None) -> SpanData:
    """Return a span of a model call with what it cost; as it is where that is unknown or said."""
    if span.usage is None:
        return span
    usage = _priced(span.usage, span.model_name, own)
    return span if usage is span.usage else replace(span, usage=usage)


def total(
    calls: Iterable[tuple[Usage, str | None]],
    *,
    own: Mapping[str, tuple[float, float]] | None = None,
) -> Usage | None:
    """Sum what calls of models used, each with its model's name; ``None`` where there were none.

    The cost is that of the calls whose price is known; ``None`` where none is.
    """
    found: Usage | None = None
    for usage, model in calls:
        priced = _priced(usage, model, own)
        found = priced if found is None else found + priced
    return found


def _priced(
    usage: Usage, model: str | None, own: Mapping[str, tuple[float, float]] | None
) -> Usage:
    """Return a usage with its cost; the same object where that is unknown or was said."""
    if usage.cost_usd is not None or not model:
        return usage
    usd = cost(model, usage, own=own)
    return usage if usd is None else replace(usage, cost_usd=usd)


@lru_cache(maxsize=256)
def _listed_price(model: str) -> Price | None:
    return _found(model, _listed())


def _found(model: str, prices: Mapping[str, tuple[float, float]]) -> Price | None:
    for name in (model, _bare(model)):
        known = [each for each in prices if _is_version_of(name, each)]
        if known:
            return Price(*prices[max(known, key=len)])
    return None


def _bare(model: str) -> str:
    return _VENDOR.sub("", model.rpartition("/")[2].lower())


def _is_version_of(model: str, known: str) -> bool:
    return model.startswith(known) and _VERSION.fullmatch(model[len(known) :]) is not None


@cache
def _listed() -> Mapping[str, tuple[float, float]]:
    text = files(__package__).joinpath("prices.json").read_text("utf-8")
    models: dict[str, tuple[float, float]] = json.loads(text)["models"]
    return models
