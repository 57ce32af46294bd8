"""The script that keeps the shared budget in Redis, and what its answers mean in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from llmeval_sdk.plugins.shared._lease import MICROS, Limits
from llmeval_sdk.plugins.shared.client import KEYS


_PARTS = ("books", "leases", "generations", "exchange")
_WORDS = {
    "calls": "calls a minute are used up",
    "tokens": "tokens a minute are used up",
    "slots": "calls at a time are under way",
}


def script() -> str:
    """Return the text of the script."""
    folder = Path(__file__).parent
    return "\n".join((folder / f"{part}.lua").read_text("utf-8") for part in _PARTS)


def keys(name: str) -> list[str]:
    """Return the keys of a budget; the braces keep them on one server of a cluster."""
    return [f"{KEYS}{{shared}}.{name}.{part}" for part in ("state", "leases", "ends", "hosts")]


def why_closed(reply: dict[str, Any]) -> str:
    """Say why nobody may pay, and what is waited for."""
    seconds, missing = reply["opens_in"], ", ".join(reply["awaited"])
    waits = f"{seconds:.0f} s more" if seconds else f"hosts that have not reported: {missing}"
    return (
        "the budget of all hosts is being rebuilt, because Redis had no data of it or was "
        f"restarted; {waits}"
    )


def why_refused(refused: dict[str, Any], limits: Limits) -> str:
    """Say which limit of which account was met."""
    name, what = refused["account"], refused["what"]
    most = limits[name][what]
    words = f"{most:g} {_WORDS[what]}" if what in _WORDS else ""
    if what == "usd":
        words = f"USD {most / MICROS:g} a day are used up or reserved"
    return f"{name or 'all judges'}, over all hosts: {words}"
