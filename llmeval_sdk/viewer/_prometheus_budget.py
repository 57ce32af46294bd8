"""What ``/metrics`` says of the judges' budget of this host, from the books beside the store."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge

from llmeval_sdk import runtime
from llmeval_sdk.config.shared import SharedSettings
from llmeval_sdk.policy import books
from llmeval_sdk.policy.budget import Budget
from llmeval_sdk.store.files import READ_WAIT_MS, path_of


class BudgetGauges:
    """The gauges of the money that judges may use in this UTC day; ``judge=""`` is all of them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._spent = Gauge(
            "llmeval_budget_spent_usd", "US dollars that judges spent in this UTC day",
            ("judge",), registry=registry,
        )  # fmt: skip
        self._left = Gauge(
            "llmeval_budget_left_usd", "US dollars that judges may still spend in this UTC day",
            ("judge",), registry=registry,
        )  # fmt: skip

    def show(self, store: Path) -> None:
        """Take over how the budget stands; nothing is shown of one that this host does not keep."""
        self._spent.clear()
        self._left.clear()
        state = _books_of(store)
        if state is None:
            return
        limit, now = _budget_of(store), time.time()
        for judge, budget in {"": limit, **limit.judges}.items():
            used = books.used(state, now, name=judge)
            self._spent.labels(judge).set(used.usd)
            if budget.usd_per_day is not None:
                left = budget.usd_per_day - used.usd - used.reserved_usd
                self._left.labels(judge).set(max(left, 0.0))


def _books_of(store: Path) -> books.BookState | None:
    """Read the books of this host, without ever writing to them."""
    path = store.with_suffix(".budget")
    if runtime.settings().of(SharedSettings).shared is not None or not path.is_file():
        return None
    try:
        connection = sqlite3.connect(
            f"{path.as_uri()}?mode=ro", uri=True, timeout=READ_WAIT_MS / 1_000
        )
        with closing(connection):
            (text,) = connection.execute("SELECT text FROM books").fetchone()
        return books.load(text)
    except (sqlite3.Error, TypeError, ValueError):
        return None


def _budget_of(store: Path) -> Budget:
    """Return the limits of the app, if this process is the app, else those of the settings."""
    settings = runtime.settings()
    is_the_app = runtime.stats().exporters and path_of(settings.store) == store
    pipeline = runtime.pipeline() if is_the_app else None
    if pipeline is not None:
        return pipeline.plan.keeper.budget
    return Budget(usd_per_day=settings.usd_per_day)
