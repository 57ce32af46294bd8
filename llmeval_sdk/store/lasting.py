"""For how long the limit of a store's size lasts at the pace of its latest traces."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from llmeval_sdk.model import HOUR_NS
from llmeval_sdk.store.writer import live_bytes
from llmeval_sdk.text.terminal import megabytes, number, plural


SHORTEST_NS = HOUR_NS // 60
"""A pace is told of a minute or more."""


@dataclass(frozen=True, slots=True)
class Lasting:
    """How much a trace takes on average, and how many come."""

    limit: int
    """Bytes that the store may have."""
    bytes_a_trace: float
    traces_a_second: float
    observed_ns: int
    """The time that the pace was seen in: the last hour, or less where the store has less."""

    @property
    def seconds(self) -> float:
        """How long traces stay until newer ones take their place."""
        return self.limit / (self.bytes_a_trace * self.traces_a_second)

    @property
    def sentence(self) -> str:
        """Say it in words."""
        minutes = round(self.observed_ns * 60 / HOUR_NS)
        over = "hour" if minutes >= 60 else plural(minutes, "minute").removeprefix("1 ")
        return (
            f"{megabytes(self.limit)} last about {_length(self.seconds)} at the pace of the last"
            f" {over}: {number(self.traces_a_second)} traces a second"
        )


def lasting(connection: sqlite3.Connection, limit: int, now_ns: int) -> Lasting | None:
    """Return for how long a limit in bytes lasts; ``None`` without one or without recent traces."""
    total, oldest = connection.execute(_TRACES).fetchone()
    if not limit or not total:
        return None
    since = max(oldest, now_ns - HOUR_NS)
    latest = connection.execute(_LATEST, (since, now_ns)).fetchone()[0]
    if not latest or now_ns - since < SHORTEST_NS:
        return None
    pace = latest * 1e9 / (now_ns - since)
    return Lasting(limit, live_bytes(connection) / total, pace, now_ns - since)


def _length(seconds: float) -> str:
    for unit, size in (("day", 86_400), ("hour", 3_600)):
        if seconds >= 2 * size:
            return plural(round(seconds / size), unit)
    return plural(max(1, round(seconds / 60)), "minute")


_TRACES = "SELECT count(*), min(start_ns) FROM spans WHERE parent_id IS NULL"
_LATEST = """
SELECT count(*) FROM spans WHERE parent_id IS NULL AND start_ns >= ? AND start_ns <= ?
"""
