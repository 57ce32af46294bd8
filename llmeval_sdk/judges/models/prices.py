"""What models cost, as far as that is known. The prices in `prices.json` are approximate."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple, TypeAlias

from llmeval_sdk.model import NOTHING, SpanData, Usage
from llmeval_sdk.model.fields import CACHED


MILLION = 1_000_000
Prices: TypeAlias = Mapping[str, tuple[float, ...]]
"""Prices by model, each as `Price` has them."""

_VENDOR = re.compile(r"^(?:[a-z]{2,6}\.)?(?:openai|anthropic|mistral|google)\.")
_VERSION = re.compile(r"(?:[-@:.](?:\d+|v\d+|latest|preview|exp))*")
"""What may follow a known name: dates and versions, but no other word such as ``-audio``."""


class Price(NamedTuple):
    """The price of a model in US dollars per 1,000,000 tokens."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    """What input costs that a cache had, and that it keeps; by default as much as any other."""

    def cost(self, usage: Usage, metrics: Mapping[str, float] = NOTHING) -> float:
        """Return the cost of a usage in US dollars.

        ``metrics`` says how many input tokens a cache had or keeps. Tokens of unknown direction
        count as output, and so do the reasoning tokens, which are part of it.
        """
        unknown = max(usage.total_tokens - usage.input_tokens - usage.output_tokens, 0)
        usd = usage.input_tokens * self.input + (usage.output_tokens + unknown) * self.output
        left: float = usage.input_tokens
        for name, price in zip(CACHED, self[2:], strict=True):
            cached = min(max(metrics.get(name) or 0, 0), left)
            left -= cached
            usd += 0 if price is None else cached * (price - self.input)
        return usd / MILLION


def price_of(model: str, *, own: Prices | None = None) -> Price | None:
    """Return a model's price, or ``None`` if it is unknown.

    The price is that of the longest known name with which the model's name begins, if only dates
    and versions follow (``gpt-4o-mini-2024-07-18``). A provider in front (``openai/gpt-4o``,
    ``us.anthropic.claude-…``) is ignored unless the whole name is known. The prices in ``own`` (US
    dollars per million input and output tokens) come first.
    """
    return (_found(model, own) if own else None) or _listed_price(model)


def cost(
    model: str, usage: Usage, metrics: Mapping[str, float] = NOTHING, *, own: Prices | None = None
) -> float | None:
    """Return what a usage cost in US dollars, by the provider or the price list."""
    if usage.cost_usd is not None:
        return usage.cost_usd
    price = price_of(model, own=own)
    return None if price is None else price.cost(usage, metrics)


def with_cost(span: SpanData, *, own: Prices | None = None) -> SpanData:
    """Return a model call's span with its cost, if that is known and not there yet."""
    if span.usage is None:
        return span
    usage = _priced(span.usage, span.model_name, span.metrics, own)
    return span if usage is span.usage else replace(span, usage=usage)


def total(
    calls: Iterable[tuple[Usage, str | None, Mapping[str, float]]], *, own: Prices | None = None
) -> Usage | None:
    """Return the sum of what model calls used, or ``None`` if there were no calls.

    Each call comes with the name of its model and its metrics. The cost covers the calls whose
    price is known, and is ``None`` if no price is known.
    """
    found: Usage | None = None
    for usage, model, metrics in calls:
        priced = _priced(usage, model, metrics, own)
        found = priced if found is None else found + priced
    return found


def _priced(
    usage: Usage, model: str | None, metrics: Mapping[str, float], own: Prices | None
) -> Usage:
    """Return a usage with its cost; the same object if the cost is unknown or already there."""
    if usage.cost_usd is not None or not model:
        return usage
    usd = cost(model, usage, metrics, own=own)
    return usage if usd is None else replace(usage, cost_usd=usd)


@lru_cache(maxsize=256)
def _listed_price(model: str) -> Price | None:
    return _found(model, _listed())


def _found(model: str, prices: Prices) -> Price | None:
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
def _listed() -> Prices:
    text = files(__package__).joinpath("prices.json").read_text("utf-8")
    prices = json.loads(text)
    models: dict[str, tuple[float, ...]] = {**prices["models"], **prices["decisions"]["models"]}
    return models
