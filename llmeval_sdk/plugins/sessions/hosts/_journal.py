"""The file of this host's turns, and which of them Redis has not been told of."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from llmeval_sdk.plugins.sessions._turn import KeptTurn
from llmeval_sdk.plugins.sessions._turn_store import MOST_BYTES, TurnStore


MOST_TOLD = 100
"""Turns, or sessions, of which Redis is told at a time."""


class News(NamedTuple):
    """What Redis is to be told of a session."""

    key: bytes
    session_id: str
    period: int
    is_open: bool
    opened: int
    active: int
    """When this host noted its last turn."""
    cut: int
    target: tuple[tuple[str, str, str, str], bool, int] | None
    """What its last root span on this host is called, whether none is above it, and its end."""
    turns: list[KeptTurn]
    rows: list[tuple[bytes, int, str]]
    """The rows that are deleted once Redis knows."""


class Journal(TurnStore):
    """The file of turns, which also says of each turn whether Redis has it yet.

    Both are written together, so that neither the end of a process nor a Redis that is away loses
    one.
    """

    def news(self) -> list[News]:
        """Return some of what Redis was not told; a few hundred kilobytes."""
        with self._database.use() as database:
            rows = database.execute(_UNSHARED, (MOST_TOLD,)).fetchall()
            news, size = [], 0
            for key, of_session in groupby(rows, key=lambda row: row[0]):
                places = [tuple(row) for row in of_session]
                turns = [_turn(database, *place) for place in places]
                one = _news(database, key, [turn for turn in turns if turn], places)
                size += sum(len(turn.text) for turn in one.turns)
                news.append(one)
                if size > MOST_BYTES:
                    break
            return news

    def sessions_after(self, key: bytes) -> list[News]:
        """Return the next sessions of the file with all that Redis may not know any more."""
        with self._database.use() as database:
            news, size = [], 0
            for (name,) in database.execute(_NEXT, (key, MOST_TOLD)).fetchall():
                places = database.execute(_PLACES, (name,)).fetchall()
                one = _news(database, name, [], [])
                if one.is_open:
                    turns = [_turn(database, *place) for place in places]
                    one = one._replace(turns=[turn for turn in turns if turn])
                size += sum(len(turn.text) for turn in one.turns)
                news.append(one)
                if size > MOST_BYTES:
                    break
            return news

    def note_told(self, news: Iterable[News]) -> None:
        """Note that Redis knows."""
        with self._changing() as database:
            database.executemany(_TOLD, [row for one in news for row in one.rows])

    def idle_sessions(self, now: int) -> list[bytes]:
        """Return open sessions that may have been evaluated somewhere, as they are idle here."""
        with self._database.use() as database:
            return [key for (key,) in database.execute(_IDLE, (now, MOST_TOLD))]

    def note_evaluated(self, key: bytes, period: int, active: int) -> None:
        """Note that a session was evaluated, here or elsewhere; ``period`` is its next one."""
        with self._changing() as database:
            database.execute(_EVALUATED, (period, active, key))

    def look_later(self, keys: Iterable[bytes], when: int) -> None:
        """Ask for sessions again at a time."""
        with self._changing() as database:
            database.executemany(
                "UPDATE sessions SET due=? WHERE key=?", [(when, key) for key in keys]
            )

    def tell_again(self, keys: Sequence[bytes], when: int) -> None:
        """Note that Redis does not know sessions; those without a turn have nothing to evaluate."""
        with self._changing() as database:
            for key in keys:
                database.execute(_AGAIN, (key,))
                database.execute(
                    "UPDATE sessions SET due = CASE WHEN kept > 0 THEN ? END WHERE key=?",
                    (when, key),
                )

    def position(self) -> tuple[str | None, bytes | None]:
        """Return which data of Redis this file was shared with, and from where on it was not yet.

        The second is ``None`` where Redis was told of all sessions.
        """
        with self._database.use() as database:
            row: tuple[str, bytes | None] | None = database.execute(
                "SELECT which, after FROM shared_with"
            ).fetchone()
            return (None, None) if row is None else row

    def note_position(self, which: str, after: bytes | None) -> None:
        """Note up to which session Redis was told."""
        with self._changing() as database:
            database.execute("DELETE FROM shared_with")
            database.execute("INSERT INTO shared_with VALUES (?,?)", (which, after))

    def _add(self, database: sqlite3.Connection, turn: KeptTurn, now: int) -> int:
        cut = super()._add(database, turn, now)
        row = (turn.key, min(turn.start_ns, now), turn.span_id)
        database.execute("INSERT OR IGNORE INTO unshared VALUES (?,?,?)", row)
        return cut

    def _connect(self) -> sqlite3.Connection:
        database = super()._connect()
        try:
            for statement in _TABLES:
                database.execute(statement)
        except BaseException:
            database.close()
            raise
        return database


def _turn(database: sqlite3.Connection, key: bytes, start: int, span: str) -> KeptTurn | None:
    row = database.execute(_TURN, (key, start, span)).fetchone()
    if row is None:  # it was cut, or is part of an outer one, or said nothing
        return None
    trace, end, text = row
    return KeptTurn(key, "", trace, span, "", "", start, end, False, text)


def _news(
    database: sqlite3.Connection,
    key: bytes,
    turns: list[KeptTurn],
    rows: list[tuple[bytes, int, str]],
) -> News:
    row = database.execute(_STATE, (key,)).fetchone()
    if row is None:  # it brought nothing to evaluate, or was forgotten
        return News(key, "", 0, False, 0, 0, 0, None, [], rows)
    session_id, period, due, opened, active, count, kept, target = row
    *about, is_top, end = json.loads(target)
    return News(
        key, session_id, period, due is not None, opened, active, count - kept,
        (tuple(about), bool(is_top), end), turns, rows,
    )  # fmt: skip


_TABLES = (
    """CREATE TABLE IF NOT EXISTS unshared (key BLOB, start INTEGER, span TEXT,
    PRIMARY KEY (key, start, span)) WITHOUT ROWID""",
    "CREATE TABLE IF NOT EXISTS shared_with (which TEXT, after BLOB)",
)
_UNSHARED = "SELECT key, start, span FROM unshared ORDER BY key, start, span LIMIT ?"
_TOLD = "DELETE FROM unshared WHERE key=? AND start=? AND span=?"
_TURN = "SELECT trace, end, text FROM turns WHERE key=? AND start=? AND span=?"
_PLACES = "SELECT key, start, span FROM turns WHERE key=? ORDER BY start, span"
_NEXT = "SELECT key FROM sessions WHERE key>? ORDER BY key LIMIT ?"
_STATE = "SELECT id, period, due, opened, active, turns, kept, target FROM sessions WHERE key=?"
_IDLE = (
    "SELECT key FROM sessions WHERE due<=? AND NOT EXISTS"
    " (SELECT 1 FROM unshared WHERE unshared.key = sessions.key) ORDER BY due LIMIT ?"
)
_EVALUATED = (
    "UPDATE sessions SET period=?, due=NULL, owner=NULL, lease=NULL, opened=active,"
    " active=max(active, ?) WHERE key=? AND NOT EXISTS"
    " (SELECT 1 FROM unshared WHERE unshared.key = sessions.key)"
)
_AGAIN = "INSERT OR IGNORE INTO unshared SELECT key, start, span FROM turns WHERE key=?"
