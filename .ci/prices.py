"""Write the price list of the package from genai-prices, which Pydantic keeps (MIT).

    python .ci/prices.py llmeval_sdk/judges/models/prices.json

Only facts are taken: names and numbers. The list holds the prices of a day, and those that a vendor
has announced for later. It keeps its date while it is made anew from the same release, so that the
same release always gives the same file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any

from genai_prices import types
from genai_prices.data import providers


SOURCE = "genai-prices"
MAKERS = (
    "openai", "anthropic", "google", "mistral", "x-ai", "deepseek", "cohere", "meta", "moonshotai",
    "minimax", "zai", "perplexity", "voyageai",
)  # fmt: skip
"""Vendors of models of their own. A name without a host in front has the price of the first that
lists it, and else the dearest of those who serve the models of others."""
KINDS = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
}
"""The prices that an entry lists in this order, as the setting `LLMEVAL_PRICES` does, by their
names in genai-prices."""
FURTHER_KINDS = {
    "cache_write_1h": "cache_write_1h_mtok",
    "input_audio": "input_audio_mtok",
    "output_audio": "output_audio_mtok",
    "cache_audio_read": "cache_audio_read_mtok",
    "thousand_requests": "requests_kcount",
}
"""The kinds that few models have."""
HALF_HOURS = [timedelta(minutes=30 * count) for count in range(48)]


def table(day: date) -> dict[str, Any]:
    """Return the whole list, as of a day."""
    hosts = {provider.id: entries(provider, day) for provider in providers}
    makers = {name: hosts.pop(name) for name in MAKERS}
    return {
        "source": SOURCE,
        "version": version(SOURCE),
        "date": day.isoformat(),
        "makers": makers,
        "hosts": {name: priced for name, priced in sorted(hosts.items()) if priced},
    }


def entries(provider: types.Provider, day: date) -> dict[str, Any]:
    """Return the prices of a provider by the names that they stand for, separated by spaces."""
    names_of: dict[str, set[str]] = {}
    for model in provider.models:
        price = entry(model, day)
        if price is not None:
            names_of.setdefault(json.dumps(price), set()).update(names(model, provider))
    by_names = {" ".join(sorted(known)): json.loads(price) for price, known in names_of.items()}
    return dict(sorted(by_names.items()))


def names(model: types.ModelInfo, provider: types.Provider) -> Iterator[str]:
    """Yield all names that are surely of this model: its id, and texts that it is matched by."""
    yield model.id.lower()
    for name in (model.id, *literals(model.match)):
        plain = name.lower().rstrip("-@:/")
        if provider.find_model(plain) is model:
            yield plain


def literals(clause: Any) -> Iterator[str]:
    """Yield the texts of a rule of matching; the patterns in it name nothing exactly."""
    for part in getattr(clause, "or_", ()):
        yield from literals(part)
    if isinstance(clause, types.ClauseAnd):
        yield from (text for part in clause.and_ for text in literals(part))
    elif not isinstance(clause, types.ClauseOr | types.ClauseRegex):
        (text,) = vars(clause).values()
        yield text


def entry(model: types.ModelInfo, day: date) -> Any:
    """Return the price of a model from a day on; ``None`` where tokens have none."""
    price = at(model, day)
    if price is None:
        return None
    later = {start.isoformat(): at(model, start) for start in sorted(starts(model)) if start > day}
    return {**full(price), "from": later} if later else price


def starts(model: types.ModelInfo) -> set[date]:
    """Return the days on which prices of a model begin."""
    conditions = model.prices if isinstance(model.prices, list) else []
    constraints = (condition.constraint for condition in conditions)
    return {c.start_date for c in constraints if isinstance(c, types.StartDateConstraint)}


def at(model: types.ModelInfo, day: date) -> Any:
    """Return the price on a day; where it depends on the time of day, the dearest."""
    morning = datetime.combine(day, time(0, 15), timezone.utc)
    of_day = [model.get_prices(morning + later) for later in HALF_HOURS]
    price = max(of_day, key=lambda price: (number(price.input_mtok), number(price.output_mtok)))
    kinds = {name: value for name, value in vars(price).items() if value is not None}
    if not kinds and model.id.endswith(":free"):
        return [0, 0]
    if "input_mtok" not in kinds:
        return None
    base = row(kinds, 0)
    steps = {tier.start for value in kinds.values() for tier in getattr(value, "tiers", ())}
    if not steps:
        return base
    return {**full(base), "above": {str(step): row(kinds, step + 1) for step in sorted(steps)}}


def row(kinds: Mapping[str, Any], tokens: int) -> Any:
    """Return the prices of a request with so many input tokens: a list, unless it has more."""
    listed = [number(kinds[name], tokens) if name in kinds else None for name in KINDS.values()]
    listed[1] = listed[1] or 0
    while listed[-1] is None:
        listed.pop()
    further = {
        kind: number(kinds[name], tokens) for kind, name in FURTHER_KINDS.items() if name in kinds
    }
    return {"tokens": listed, **further} if further else listed


def full(price: Any) -> dict[str, Any]:
    """Return a price as a mapping, to which more can be added."""
    return price if isinstance(price, dict) else {"tokens": price}


def number(price: Decimal | types.TieredPrices | None, tokens: int = 0) -> float:
    """Return a price for a request with so many input tokens, as the shortest number."""
    if isinstance(price, types.TieredPrices):
        reached = [tier.price for tier in price.tiers if tokens > tier.start]
        price = reached[-1] if reached else price.base
    value = float(price or 0)
    return int(value) if value.is_integer() else value


def text(prices: Mapping[str, Any]) -> str:
    """Return the list as JSON with a line for each price, so that changes can be read."""
    return f"{lines(prices, depth=3)}\n"


def lines(value: Any, depth: int) -> str:
    """Return a value as JSON, with a line for each entry of mappings down to a depth."""
    if not depth or not isinstance(value, dict):
        return json.dumps(value, separators=(",", ":"))
    entries = [f"{json.dumps(key)}: {lines(each, depth - 1)}" for key, each in value.items()]
    return "{\n" + ",\n".join(entries) + "\n}"


def main(path: Path) -> None:
    """Write the list; its date is today, unless it was made from this release before."""
    before = json.loads(path.read_text("utf-8")) if path.exists() else {}
    is_known = before.get("version") == version(SOURCE)
    day = date.fromisoformat(before["date"]) if is_known else datetime.now(timezone.utc).date()
    prices = table(day)
    path.write_text(text(prices), "utf-8")
    hosts = {**prices["makers"], **prices["hosts"]}.values()
    names = {name for priced in hosts for known in priced for name in known.split()}
    print(
        f"{SOURCE} {version(SOURCE)} of {day}: {len(names)} names at {len(hosts)} vendors and hosts"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
