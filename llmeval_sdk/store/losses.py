"""What processes could not deliver: a note in the store by those that could still write to it."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from llmeval_sdk.store.encode import dumps, loads


Losses = Mapping[str, Mapping[str, int]]
"""By exporter and reason."""


def key_of(started_ns: int, pid: int) -> str:
    """Return the name under which a process notes its losses; older ones sort first."""
    return f"lost:{started_ns:020d}:{pid}"


def note(connection: sqlite3.Connection, key: str, lost: Losses) -> None:
    """Store what one process has lost so far, in place of what it noted before."""
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, dumps(lost)))


def total(connection: sqlite3.Connection) -> dict[str, dict[str, int]]:
    """Add up what all processes have lost."""
    found: dict[str, dict[str, int]] = {}
    for (noted,) in connection.execute(_NOTED):
        for exporter, reasons in loads(noted).items():
            into = found.setdefault(exporter, {})
            for reason, times in reasons.items():
                into[reason] = into.get(reason, 0) + times
    return found


def forget(connection: sqlite3.Connection, before_ns: int) -> None:
    """Delete the notes of processes that began before a time."""
    connection.execute("DELETE FROM meta WHERE key >= 'lost:' AND key < ?", (key_of(before_ns, 0),))


_NOTED = "SELECT value FROM meta WHERE key >= 'lost:' AND key < 'lost;'"
