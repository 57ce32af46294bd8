"""Deletes from a store all that belongs to one user: personal data that somebody wants gone.

Other rooms keep files beside the store, and delete from those what the ids of the user's traces and
spans name. What other backends hold is not this file's business, and neither is the spool, whose
records are delivered within seconds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from llmeval_sdk import _private
from llmeval_sdk.store._prune import drop_traces
from llmeval_sdk.store.files import open_file


@dataclass(frozen=True, slots=True)
class Belongings:
    """The traces of which any span has a user, and all of their spans."""

    traces: frozenset[str]
    spans: frozenset[str]


def belongings_of(connection: sqlite3.Connection, users: Iterable[str]) -> Belongings:
    """Return what a store has of a user, by any form of the user's id."""
    found = [row for user in users for row in connection.execute(_SPANS, {"user": user})]
    return Belongings(frozenset(trace for trace, _ in found), frozenset(span for _, span in found))


def forget(path: Path, traces: Iterable[str]) -> None:
    """Delete traces with all scores and feedback, and overwrite where they stood.

    Raises ``sqlite3.Error`` if the file cannot be written.
    """
    with closing(open_file(path)) as connection, _overwriting(connection):
        drop_traces(connection, set(traces))


@contextmanager
def file_beside(path: Path) -> Iterator[sqlite3.Connection | None]:
    """Open a database beside the store to delete from it; ``None`` where there is none.

    Raises ``OSError`` for a file that somebody else may have made, and ``sqlite3.Error`` for one
    that cannot be written.
    """
    if not path.exists():
        yield None
        return
    _private.check_file(path)
    with closing(sqlite3.connect(path, timeout=10.0, isolation_level=None)) as connection:
        connection.execute("PRAGMA trusted_schema = OFF")
        with _overwriting(connection):
            yield connection


@contextmanager
def _overwriting(connection: sqlite3.Connection) -> Iterator[None]:
    """Make one change of the block, and overwrite the places of what it deletes."""
    connection.execute("PRAGMA secure_delete = ON").fetchall()
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


_SPANS = """
SELECT trace_id, span_id FROM spans WHERE trace_id IN (
  SELECT DISTINCT trace_id FROM spans INDEXED BY spans_summed
  WHERE tags IS NOT NULL AND json_valid(tags) AND (
    CAST(json_extract(tags, '$.user_id') AS TEXT) = :user
    OR CAST(json_extract(tags, '$."user.id"') AS TEXT) = :user))
"""
