"""Deletes from a store all that belongs to one user: personal data that somebody wants gone.

The file of state forgets what the user's ids and the ids of their traces and spans name, by what
its `StateTables` say. What other backends hold is not this file's business, and neither is the
spool, whose records are delivered within seconds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from llmeval_sdk.model import JUDGE_TAG
from llmeval_sdk.store._schema import OF_SESSION, SESSION
from llmeval_sdk.store.encode import dumps
from llmeval_sdk.store.files import open_file
from llmeval_sdk.store.sessions import A_NAME, MAX_ID_LENGTH
from llmeval_sdk.store.state import Belongings, StateFile, StateTables
from llmeval_sdk.store.writer import drop_traces


def belongings_of(
    connection: sqlite3.Connection, users: Sequence[str], copied: Iterable[str] = ()
) -> Belongings:
    """Return what a store has of a user.

    Args:
        connection: a store that is open.
        users: the forms of the user's id.
        copied: ids of spans of another store; what links to them is a copy, and the user's too.
    """
    traces = {row[0] for user in users for row in connection.execute(_OF_USER, {"user": user})}
    traces.update(row[0] for span in copied for row in connection.execute(_COPIES, (span,)))
    return _belongings(connection, users, traces, with_sessions=True)


def belongings_of_traces(connection: sqlite3.Connection, traces: Iterable[str]) -> Belongings:
    """Return what a store has of some traces: their spans, and what judges said of these."""
    return _belongings(connection, (), set(traces), with_sessions=False)


def _belongings(
    connection: sqlite3.Connection, users: Sequence[str], traces: set[str], *, with_sessions: bool
) -> Belongings:
    """Collect the spans and judge traces; sessions are as a whole those of a user alone."""
    found = [row for trace in traces for row in connection.execute(_SPANS, (trace,))]
    spans = frozenset(span for span, _ in found)
    sessions = frozenset(session for _, session in found if session and with_sessions)
    readings = [(span, None) for span in spans]
    readings += connection.execute(_ON_SESSIONS.format("span_id, name"), _listed(sessions))
    judges = {
        trace
        for span, judge in readings
        for (trace,) in connection.execute(_JUDGED, {"span": span, "judge": judge})
    }
    return Belongings(tuple(users), frozenset(traces), spans, sessions, frozenset(judges - traces))


def forget(path: Path, theirs: Belongings) -> None:
    """Delete a user's traces with all that was said of them, and overwrite where they stood.

    Raises ``sqlite3.Error`` if the file cannot be written.
    """
    with closing(open_file(path)) as connection, _overwriting(connection):
        drop_traces(connection, {*theirs.traces, *theirs.judge_traces})
        for table, column in (("fields", "span_id, id"), ("evaluations", "seq")):
            chosen = _ON_SESSIONS.format(column)
            connection.execute(
                f"DELETE FROM {table} WHERE ({column}) IN ({chosen})",  # noqa: S608 - constants
                _listed(theirs.sessions),
            )


def forget_in_state(
    path: Path, theirs: Belongings, tables: Mapping[str, StateTables], *, really: bool
) -> dict[str, int]:
    """Delete what a file of state has of a user, as far as ``really`` says so.

    Returns how many rows that are, by the names of ``tables``. Raises what using a `StateFile`
    raises.
    """
    return _delete_from_state(
        path, tables, lambda each, connection: each.forget(connection, theirs), really=really
    )


def reset_in_state(
    path: Path, tables: Mapping[str, StateTables], *, really: bool
) -> dict[str, int]:
    """Delete all that a file of state keeps in some tables; see `forget_in_state`."""
    return _delete_from_state(path, tables, StateTables.empty, really=really)


def _delete_from_state(
    path: Path,
    tables: Mapping[str, StateTables],
    delete: Callable[[StateTables, sqlite3.Connection], int],
    *,
    really: bool,
) -> dict[str, int]:
    files: dict[Path, dict[str, StateTables]] = {}
    for name, each in tables.items():
        files.setdefault(each.path() if each.path else path, {})[name] = each
    counts: dict[str, int] = {}
    for file, own in files.items():
        counts |= _delete_from_file(file, own, delete, really=really)
    return counts


def _delete_from_file(
    path: Path,
    tables: Mapping[str, StateTables],
    delete: Callable[[StateTables, sqlite3.Connection], int],
    *,
    really: bool,
) -> dict[str, int]:
    if not path.exists():
        return dict.fromkeys(tables, 0)
    with (
        closing(StateFile(path, *tables.values(), timeout=10.0)) as file,
        file.reading() as connection,
    ):
        with _overwriting(connection, really=really):
            counts = {name: delete(each, connection) for name, each in tables.items()}
        if really:
            connection.execute("PRAGMA incremental_vacuum").fetchall()
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return counts


def expire_in_state(
    path: Path, before_ns: int, tables: Mapping[str, StateTables], *, really: bool
) -> int:
    """Delete what a file of state has from before a time; see `forget_in_state`."""
    expired = _delete_from_state(
        path, tables, lambda each, connection: each.expire(connection, before_ns), really=really
    )
    return sum(expired.values())


def _listed(sessions: Iterable[str]) -> dict[str, str | None]:
    return {"sessions": dumps([session[:MAX_ID_LENGTH] for session in sessions])}


@contextmanager
def _overwriting(connection: sqlite3.Connection, *, really: bool = True) -> Iterator[None]:
    """Make one change of the block, and overwrite the places of what it deletes.

    Where not ``really``, all is taken back at its end.
    """
    connection.execute("PRAGMA secure_delete = ON").fetchall()
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT" if really else "ROLLBACK")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    if really:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


_OF_USER = """
SELECT DISTINCT trace_id FROM spans INDEXED BY spans_summed
WHERE tags IS NOT NULL AND json_valid(tags) AND (
  CAST(json_extract(tags, '$.user_id') AS TEXT) = :user
  OR CAST(json_extract(tags, '$."user.id"') AS TEXT) = :user)
"""
_COPIES = """
SELECT trace_id FROM spans INDEXED BY spans_linked
WHERE substr(links, 39, 16) = ? AND links IS NOT NULL
"""
_SPANS = "SELECT span_id, session_id FROM spans WHERE trace_id = ?"
_ON_SESSIONS = f"""
SELECT {{}} FROM evaluations INDEXED BY evaluations_of_sessions
WHERE {OF_SESSION} AND {SESSION} IN (SELECT value FROM json_each(:sessions)) AND {A_NAME}
"""  # noqa: S608 - constants
_JUDGED = f"""
SELECT trace_id FROM spans INDEXED BY spans_linked
WHERE substr(links, 39, 16) = :span AND links IS NOT NULL AND json_valid(tags)
  AND json_extract(tags, '$."{JUDGE_TAG}"') = ifnull(:judge, json_extract(tags, '$."{JUDGE_TAG}"'))
"""  # noqa: S608 - constants
"""A session is judged on its last turn, which need not be the user's: then the judge is named."""
