"""What models cost, as far as that is known: the app's own prices, and the list in `prices.json`.

``make prices`` writes the list from the release of genai-prices that `constraints.txt` names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timezone
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, NamedTuple, TypeAlias

from llmeval_sdk.model import NOTHING, SpanData, Usage


MILLION = 1_000_000
MAX_AGE_DAYS = 120
"""After so many days the list should be looked at before it is trusted."""
Prices: TypeAlias = Mapping[str, tuple[float, ...]]
"""Prices by model: of input, output, and input that a cache had and that it keeps."""


class Price(NamedTuple):
    """The price of a model in US dollars per 1,000,000 tokens; ``None`` is that of other tokens."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    cache_write_1h: float | None = None
    input_audio: float | None = None
    output_audio: float | None = None
    cache_audio_read: float | None = None
    thousand_requests: float = 0.0
    """What a thousand requests cost beside their tokens."""
    above: tuple[tuple[int, Price], ...] = ()
    """From how many input tokens of a request on, exclusive, which price is that of all its
    tokens; in rising order."""

    @property
    def steps(self) -> tuple[int, ...]:
        """The numbers of input tokens of a request above which its price is another."""
        return tuple(start for start, _ in self.above)

    def at(self, input_tokens: float) -> Price:
        """Return the price of requests with so many input tokens, which has no further steps."""
        reached = [price for start, price in self.above if input_tokens > start]
        return reached[-1] if reached else self._replace(above=())

    def cost(
        self, usage: Usage, metrics: Mapping[str, float] = NOTHING, *, requests: int = 1
    ) -> float:
        """Return the cost of a usage in US dollars.

        ``metrics`` says how many tokens a cache had or keeps, and how many were sound. Tokens of
        unknown direction count as output, and so do the reasoning tokens, which are part of it.

        Where the price has `steps`, the usage is that of one request.
        """
        price = self.at(usage.input_tokens) if self.above else self
        unknown = max(usage.total_tokens - usage.input_tokens - usage.output_tokens, 0)
        output = usage.output_tokens + unknown
        usd = usage.input_tokens * price.input + output * price.output
        if metrics:
            usd += price._further(usage.input_tokens, output, metrics)
        return usd / MILLION + requests * price.thousand_requests / 1_000

    def _further(self, tokens_in: float, tokens_out: float, metrics: Mapping[str, float]) -> float:
        """Return by how much the tokens of special kinds cost more, in millionths of a dollar."""

        def part(name: str, most: float, *, without: float = 0) -> float:
            return min(max((metrics.get(name) or 0) - without, 0), most)

        read = part("cache_read_input_tokens", tokens_in)
        written = part("cache_write_input_tokens", tokens_in - read)
        written_1h = part("cache_write_1h_input_tokens", written)
        audio_read = part("audio_cache_read_input_tokens", read)
        audio_in = part("audio_input_tokens", tokens_in - read - written, without=audio_read)
        audio_out = part("audio_output_tokens", tokens_out)
        cache_read = _or(self.cache_read, self.input)
        cache_write = _or(self.cache_write, self.input)
        return (
            read * (cache_read - self.input)
            + written * (cache_write - self.input)
            + written_1h * (_or(self.cache_write_1h, cache_write) - cache_write)
            + audio_read * (_or(self.cache_audio_read, cache_read) - cache_read)
            + audio_in * (_or(self.input_audio, self.input) - self.input)
            + audio_out * (_or(self.output_audio, self.output) - self.output)
        )

    def most(self, usage: Usage, *, requests: int = 1) -> float:
        """Return the most that a usage may cost in US dollars: a cache may keep all its input."""
        price = self.at(usage.input_tokens)
        dearest = max(price.input, _or(price.cache_write, 0.0))
        return price._replace(input=dearest).cost(usage, requests=requests)


def _or(price: float | None, other: float) -> float:
    return other if price is None else price


def today() -> date:
    """Return the day by UTC, by which prices begin."""
    return datetime.now(timezone.utc).date()


def price_of(model: str, *, own: Prices | None = None, on: date | None = None) -> Price | None:
    """Return a model's price on a day (by default today), or ``None`` if it is unknown.

    A name is known as it is listed, in any case of its letters, or with a date or ``-latest``
    behind it. What stands in front of it, up to a slash or as Bedrock's ``us.anthropic.``, is left
    out part by part until the rest is known; where it names a host, that host's own price counts. A
    name without a host has the price of the model's maker, and else the dearest of those who serve
    it. The prices in ``own`` (US dollars per million tokens) come first.
    """
    if len(model) > MAX_NAME:
        return None
    day = on or today()
    if own:
        listed = {name.lower(): price for name, price in own.items()}
        for name in (name for names, _ in _readings(model) for name in names):
            if name in listed:
                return _price(list(listed[name]), day)
    return _listed_price(model, day)


def cost(
    model: str, usage: Usage, metrics: Mapping[str, float] = NOTHING, *, own: Prices | None = None
) -> float | None:
    """Return what the usage of one request cost in US dollars: as it says, else by its price."""
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


# How a name of a model is read.


MAX_NAME = 500
"""Characters of a name; a longer one is no model's."""
_HOSTS = {
    "azure_ai": "azure", "bedrock": "aws", "bedrock_converse": "aws", "fireworks_ai": "fireworks",
    "gemini": "google", "together_ai": "together", "vertex_ai": "google", "xai": "x-ai",
}  # fmt: skip
"""What gateways call some hosts, by the names of these in the list."""
_IN_FRONT = re.compile(r"(?:([^/]*)/|([a-z-]+)\.)(?=.)")
_BEHIND = (
    re.compile(r"-v\d+:\d+$"),  # of Bedrock
    re.compile(
        r"""[-@:](?:latest
        | 20[2-9]\d-?(?:0[1-9]|1[0-2])-?(?:0[1-9]|[12]\d|3[01])
        | (?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01]))$
        """,
        re.VERBOSE,
    ),
)
"""What may stand behind a name, the last part first."""


def _readings(model: str) -> Iterator[tuple[list[str], str]]:
    """Yield the names that a model may be listed by, with less and less in front of them.

    Each time it is a name with and without what is behind it, and the host that stands directly in
    front of it, which is empty where nothing does.
    """
    name, host = model.lower(), ""
    while name:
        kind, _, rest = name.partition(":")
        names = [name, f"ft:{rest.partition(':')[0]}"] if kind == "ft" else [name]
        for pattern in _BEHIND:
            if behind := pattern.search(names[-1]):
                names.append(names[-1][: behind.start()])
        yield names, host
        in_front = _IN_FRONT.match(name)
        if in_front is None:
            return
        host, name = in_front[1] or in_front[2], name[in_front.end() :]


# The list.


class PriceList(NamedTuple):
    """The prices that come along."""

    source: str
    version: str
    as_of: date
    """The day whose prices they are."""
    makers: Mapping[str, Mapping[str, Any]]
    """By vendors of models of their own, what the names of these cost, as the file has it."""
    hosts: Mapping[str, Mapping[str, Any]]
    """By those who serve the models of others."""

    def age(self, on: date) -> int:
        """Return how many days old it is on a day."""
        return (on - self.as_of).days

    def price(self, model: str, day: date) -> Price | None:
        """Return the price of a model on a day; ``None`` if it is unknown."""
        for names, host in _readings(model):
            prices = [_price(listed, day) for listed in self._listed(names, host)]
            if prices:
                return max(prices, key=lambda price: (price.cost(_SHORT), price.cost(_LONG)))
        return None

    def _listed(self, names: Sequence[str], host: str) -> Sequence[Any]:
        """Return what the file has of a name: several prices where nobody says whose counts."""
        host = _HOSTS.get(host, host)
        own = self.makers.get(host) or self.hosts.get(host) or {}
        for listed in (own, *self.makers.values()):
            for name in names:
                if name in listed:
                    return [listed[name]]
        for name in names:
            maker, _, rest = name.partition("/")  # a gateway's names may begin as for the maker
            prices = [self.makers.get(maker, {}).get(rest)]
            prices += [served.get(name) for served in self.hosts.values()]
            if any(prices):
                return [price for price in prices if price]
        return ()


_SHORT, _LONG = Usage(1_000, 1_000, 2_000), Usage(300_000, 1_000, 301_000)
"""Requests by which prices are compared; the longer one is above the steps that most have."""


@cache
def price_list() -> PriceList:
    """Return the prices that come along, read once."""
    raw = json.loads(files(__package__).joinpath("prices.json").read_text("utf-8"))
    makers, hosts = (
        {host: _by_name(priced) for host, priced in raw[group].items()}
        for group in ("makers", "hosts")
    )
    return PriceList(raw["source"], raw["version"], date.fromisoformat(raw["date"]), makers, hosts)


def _by_name(priced: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return prices by single names; the file has all names of one price in one text."""
    return {name: price for names, price in priced.items() for name in names.split()}


def _price(listed: Any, day: date) -> Price:
    """Return a price of the file as it is on a day."""
    if isinstance(listed, list):
        return Price(*listed)
    begun = [later for start, later in listed.get("from", {}).items() if start <= day.isoformat()]
    if begun:
        return _price(begun[-1], day)
    above = listed.get("above", {}).items()
    further = {kind: listed[kind] for kind in Price._fields if kind in listed and kind != "above"}
    price = Price(*listed["tokens"], **further)
    return price._replace(above=tuple((int(start), _price(row, day)) for start, row in above))


@lru_cache(maxsize=256)
def _listed_price(model: str, day: date) -> Price | None:
    return price_list().price(model, day)
