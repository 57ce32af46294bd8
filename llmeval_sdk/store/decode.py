"""Reads evaluations from the JSON that `store.encode.sparse` made of them."""

from __future__ import annotations

from typing import Any

from llmeval_sdk.model import Evaluation, Failure, Usage


def evaluation_from(plain: dict[str, Any]) -> Evaluation:
    """Make an evaluation of what `sparse` wrote, after it was parsed as JSON."""
    for name, kind in (("usage", Usage), ("error", Failure)):
        if plain.get(name) is not None:
            plain[name] = kind(**plain[name])
    if type(plain.get("value")) is int:
        plain["value"] = float(plain["value"])
    return Evaluation(**plain)
