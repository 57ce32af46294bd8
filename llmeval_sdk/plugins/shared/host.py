"""What a host remembers on disk of the shared budgets: who it is, and who else was there."""

from __future__ import annotations

import json
from collections.abc import Callable
from time import monotonic
from typing import Any
from uuid import uuid4

from llmeval_sdk.evaluation.limiter import Ledger


WRITE_SECONDS = 5.0


class Host:
    """The identity of this host, shared by its processes through a small file beside the store.

    Where the file cannot be kept, each process is a host of its own.
    """

    def __init__(self, ledger: Ledger, *, clock: Callable[[], float] = monotonic) -> None:
        self._ledger = ledger
        self._clock = clock
        self._written = float("-inf")
        self._name: str | None = None

    @property
    def name(self) -> str:
        """The random name of this host. It reads a file: never ask on the app's thread."""
        if self._name is None:
            self._name = self._ledger.update(_name)
        return self._name

    def known(self, budget: str) -> dict[str, Any] | None:
        """Return what was last known of all hosts that share a budget."""
        known: dict[str, Any] | None = self._ledger.update(
            lambda text: (None, _read(text).get("known", {}).get(budget))
        )
        return known

    def remember(self, budget: str, known: dict[str, Any]) -> None:
        """Keep what is known of all hosts, every few seconds, unless the file has it newer."""
        if self._clock() - self._written < WRITE_SECONDS:
            return
        self._written = self._clock()

        def change(text: str) -> tuple[str | None, None]:
            content = _read(text)
            kept = content.setdefault("known", {})
            if kept.get(budget, {}).get("version", -1) >= known["version"]:
                return None, None
            kept[budget] = known
            return json.dumps(content), None

        self._ledger.update(change)

    def close(self) -> None:
        """Close the file; using it again opens it again."""
        close = getattr(self._ledger, "close", None)
        if close is not None:
            close()


def _name(text: str) -> tuple[str | None, str]:
    content = _read(text)
    name = content.get("host")
    if isinstance(name, str):
        return None, name
    content["host"] = uuid4().hex[:16]
    return json.dumps(content), content["host"]


def _read(text: str) -> dict[str, Any]:
    try:
        content = json.loads(text) if text else {}
    except ValueError:
        content = {}
    return content if isinstance(content, dict) else {}
