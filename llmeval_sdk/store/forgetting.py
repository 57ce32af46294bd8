"""Deletes from a store all that belongs to one user: personal data that somebody wants gone.

What other backends hold is not this file's business, and neither is the spool, whose records are
delivered within seconds.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from llmeval_sdk.store._prune import drop_traces
from llmeval_sdk.store.files import open_file


@dataclass(frozen=True, slots=True)
class Forgotten:
    """How much was deleted, or would be."""

    traces: int
    spans: int


def traces_of(connection: sqlite3.Connection, user: str) -> Forgotten:
    """Count the traces of which any span has the user."""
    return Forgotten(*connection.execute(_COUNT, {"user": user}).fetchone())


def forget(path: Path, user: str) -> Forgotten:
    """Delete the traces of a user with all scores and feedback, and overwrite where they stood.

    Raises ``sqlite3.Error`` if the file cannot be written.
    """
    with closing(open_file(path)) as connection:
        connection.execute("PRAGMA secure_delete = ON").fetchall()
        connection.execute("BEGIN IMMEDIATE")
        try:
            found = traces_of(connection, user)
            traces = {trace for (trace,) in connection.execute(_TRACES, {"user": user})}
            drop_traces(connection, traces)
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return found


_TRACES = """
SELECT DISTINCT trace_id FROM spans INDEXED BY spans_summed
WHERE tags IS NOT NULL AND json_valid(tags) AND (
  CAST(json_extract(tags, '$.user_id') AS TEXT) = :user
  OR CAST(json_extract(tags, '$."user.id"') AS TEXT) = :user)
"""
_COUNT = f"""
SELECT count(DISTINCT trace_id), count(*) FROM spans WHERE trace_id IN ({_TRACES})
"""  # noqa: S608 - constants
