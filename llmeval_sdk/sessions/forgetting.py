"""Deletes the conversations of a user from the file of open sessions."""

from __future__ import annotations

from pathlib import Path

from llmeval_sdk.sessions.start import SUFFIX
from llmeval_sdk.store.forgetting import Belongings, file_beside


def forget(store: Path, theirs: Belongings, *, really: bool) -> int:
    """Delete the sessions with a turn in a user's traces; return how many turns they have."""
    turns = 0
    with file_beside(store.with_suffix(SUFFIX)) as database:
        if database is None:
            return 0
        keys = {
            key
            for trace in theirs.traces
            for (key,) in database.execute("SELECT DISTINCT key FROM turns WHERE trace=?", (trace,))
        }
        for key in keys:
            (count,) = database.execute("SELECT count(*) FROM turns WHERE key=?", (key,)).fetchone()
            turns += count
            if really:
                database.execute("DELETE FROM turns WHERE key=?", (key,))
                database.execute("DELETE FROM sessions WHERE key=?", (key,))
    return turns
