"""Keeps the store within its bounds: the traces that arrived first are deleted first, and whole."""

from __future__ import annotations

import sqlite3


SLICE = 100
"""How many spans' traces one transaction deletes, so that other processes get their turn."""
VACUUM_PAGES = 256

_LIVE = """
SELECT (page_count - freelist_count) * page_size
FROM pragma_page_count, pragma_freelist_count, pragma_page_size
"""
_FOLLOWERS = ("evaluations", "not_run", "feedback")


def live_bytes(connection: sqlite3.Connection) -> int:
    """Return the size of what is stored: the file without its free pages."""
    return int(connection.execute(_LIVE).fetchone()[0])


def drop_oldest(connection: sqlite3.Connection, *, before_ns: int | None = None) -> int:
    """Delete a slice of the oldest traces with all that belongs to them, and what has no trace.

    With ``before_ns`` (nanoseconds since the epoch), only traces that began before it are deleted.
    This runs inside the caller's transaction, and returns how many rows it deleted.
    """
    before = connection.total_changes
    oldest = "SELECT trace_id, start_ns FROM spans ORDER BY seq LIMIT ?"
    rows = connection.execute(oldest, (SLICE,)).fetchall()
    drop_traces(
        connection, {trace for trace, start in rows if before_ns is None or start < before_ns}
    )
    _drop_strays(connection, before_ns)
    return connection.total_changes - before


def drop_traces(connection: sqlite3.Connection, traces: set[str]) -> None:
    """Delete traces with all that belongs to them, inside the caller's transaction."""
    for trace in traces:
        spans = "SELECT span_id FROM spans WHERE trace_id = :trace"
        for table in _FOLLOWERS:
            connection.execute(
                f"DELETE FROM {table} WHERE span_id IN ({spans}) AND trace_id = :trace",  # noqa: S608
                {"trace": trace},
            )
        connection.execute("DELETE FROM spans WHERE trace_id = ?", (trace,))


def _drop_strays(connection: sqlite3.Connection, before_ns: int | None) -> None:
    """Delete records older than all spans that are left: theirs are gone, or never came."""
    first = connection.execute("SELECT start_ns FROM spans ORDER BY seq LIMIT 1").fetchone()
    limit = before_ns if before_ns is not None else (first[0] if first else (1 << 63) - 1)
    for table in _FOLLOWERS:
        connection.execute(
            f"DELETE FROM {table} WHERE time_ns < ? AND seq IN "  # noqa: S608
            f"(SELECT seq FROM {table} ORDER BY seq LIMIT ?)",
            (limit, 2 * SLICE),
        )


def shrink(connection: sqlite3.Connection) -> bool:
    """Give free pages back to the disk if a tenth of the file is free; return whether it was."""
    free = _number(connection, "freelist_count")
    if free * 10 <= _number(connection, "page_count") or free < VACUUM_PAGES:
        return False
    connection.execute(f"PRAGMA incremental_vacuum({VACUUM_PAGES})").fetchall()
    return True


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])
