"""Deletes the conversations of a user from the file of open sessions."""

from __future__ import annotations

from pathlib import Path

from llmeval_sdk.plugins.sessions._turn import LONGEST_ID
from llmeval_sdk.store.files import SESSIONS_SUFFIX
from llmeval_sdk.store.forgetting import Belongings, file_beside


def forget(store: Path, theirs: Belongings, *, really: bool) -> int:
    """Delete the sessions in which a user took part; return how many turns they have.

    The file says itself who did. One of an earlier release does not: then the sessions with a turn
    in the user's traces are deleted.
    """
    turns = 0
    with file_beside(store.with_suffix(SESSIONS_SUFFIX)) as database:
        if database is None:
            return 0
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        by_user = "SELECT key FROM users WHERE user=?"
        by_trace = "SELECT DISTINCT key FROM turns WHERE trace=?"
        asked = [(by_user, user[:LONGEST_ID]) for user in theirs.users if "users" in tables]
        asked += [(by_trace, trace) for trace in theirs.traces]
        keys = {key for query, about in asked for (key,) in database.execute(query, (about,))}
        for key in keys:
            (count,) = database.execute("SELECT count(*) FROM turns WHERE key=?", (key,)).fetchone()
            turns += count
            for table in ("turns", "sessions", "users") if really else ():
                if table in tables:
                    database.execute(f"DELETE FROM {table} WHERE key=?", (key,))  # noqa: S608
    return turns
