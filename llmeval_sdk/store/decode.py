"""Reads evaluations that `store.encode.sparse` wrote and JSON has carried."""

from __future__ import annotations

from typing import Any

from llmeval_sdk.model import Evaluation, Failure, Usage


def evaluation_from(plain: dict[str, Any]) -> Evaluation:
    """Read an evaluation that `sparse` wrote and JSON has carried."""
    for name, kind in (("usage", Usage), ("error", Failure)):
        if plain.get(name) is not None:
            plain[name] = kind(**plain[name])
    if type(plain.get("value")) is int:
        plain["value"] = float(plain["value"])
    return Evaluation(**plain)
