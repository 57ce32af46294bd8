"""The file in which all processes of a host keep the turns of sessions and who evaluates them.

A session is due when it has been idle. A process takes it with a lease that it renews; where the
process dies, the lease runs out and another takes the session. What was delivered by then is
delivered again under the same id, so each idle period has one verdict.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from llmeval_sdk.plugins.sessions._turn import FIRST_TURNS, KeptTurn, StoredTurn, joined
from llmeval_sdk.process import private
from llmeval_sdk.store.connection import Database


MOST_TURNS = 500
"""The most turns of a session that are kept; of more, the first few and the latest are."""
MOST_BYTES = 256 << 10
"""Bytes of a session's turns."""
FILE_BYTES = 8 << 30
"""The size from which on the file takes no new session until others are forgotten."""
MEMORY_BYTES = 64 << 20
"""The size from which on sessions in memory take no further turn, until others are forgotten."""
KEPT_NS = 7 * 86_400 * 10**9
"""How long an evaluated session is remembered: who resumes it later begins a new one."""
LONGEST_NS = 86_400 * 10**9
"""A session that is never idle is evaluated once in this time all the same."""
LEASE_SECONDS = 30.0
"""The longest lease: after it a session that a process took is free again, unless it is renewed."""
WAIT_SECONDS = 0.5
SCHEMA = 1


class DueSession(NamedTuple):
    """A session that is to be evaluated, and that this process has taken."""

    key: bytes
    session_id: str
    period: int
    turns: int
    """All that it ever had, also those that were cut."""
    due: int
    active: int
    """When its last turn was noted."""
    is_endless: bool
    target: tuple[str, str, str, str]
    """Trace id, span id, name and kind of its last root span."""
    was_taken: bool
    """Whether another process had taken it and ended before it was done."""


class TurnStore:
    """The file; ``OSError`` and ``sqlite3.Error`` say why it cannot be used.

    Args:
        path: Of the file; ``None`` keeps sessions in memory, for this process alone.
        idle_ns: How long a session is idle before it is evaluated.
    """

    look_seconds = 10.0
    """How often it is looked whether sessions are due, where they are not idle sooner."""

    def __init__(self, path: Path | None, idle_ns: int) -> None:
        self._path = path
        self._idle = idle_ns
        self._database = Database(self._connect, in_memory=path is None)

    def add(self, turns: Iterable[KeptTurn], now: int) -> tuple[int, int]:
        """Keep turns; return how many were cut from their sessions, and how many found no room."""
        cut = refused = 0
        with self._changing() as database:
            if is_full := self._is_full(database):
                _forget(database, now, most=100)
                is_full = self._is_full(database)
            for turn in turns:
                if is_full and (self._path is None or not _is_known(database, turn.key)):
                    refused += 1
                else:
                    cut += self._add(database, turn, now)
        return cut, refused

    def take(self, owner: str, now: int, until: int, most: int) -> list[DueSession]:
        """Take sessions that are due and that nobody else is evaluating."""
        with self._database.use() as database:
            if database.execute(_ANY_DUE, (now, now)).fetchone() is None:
                return []
        with self._changing() as database:
            rows = database.execute(_DUE, (now, now, most)).fetchall()
            taken = [(owner, until, key) for key, *_ in rows]
            database.executemany("UPDATE sessions SET owner=?, lease=? WHERE key=?", taken)
        return [self._due(row) for row in rows]

    def turns(self, key: bytes) -> list[StoredTurn]:
        """Return the turns that are kept of a session, in order."""
        with self._database.use() as database:
            rows = database.execute(
                "SELECT start, end, text FROM turns WHERE key=? ORDER BY start, span", (key,)
            )
            return [StoredTurn(*row) for row in rows]

    def done(self, owner: str, sessions: Iterable[DueSession]) -> None:
        """Note that sessions were evaluated, unless they were taken over by somebody meanwhile.

        One that went on while it was evaluated stays due, and its day begins anew.
        """
        rows = [(one.due, one.active, self._idle, one.key, owner) for one in sessions]
        with self._changing() as database:
            database.executemany(_DONE, rows)

    def renew(self, owner: str, until: int) -> None:
        """Keep the sessions that are being evaluated here."""
        with self._changing() as database:
            database.execute("UPDATE sessions SET lease=? WHERE owner=?", (until, owner))

    def release(self, owner: str) -> None:
        """Leave the sessions that were taken and not evaluated to others."""
        with self._changing() as database:
            database.execute("UPDATE sessions SET owner=NULL, lease=NULL WHERE owner=?", (owner,))

    def tidy(self, now: int) -> None:
        """Forget sessions that were evaluated long ago, and correct times of a clock set back."""
        with self._changing() as database:
            limit = now if self._is_full(database) else now - KEPT_NS
            _forget(database, limit, most=1_000)
            late = now + 2 * self._idle + LONGEST_NS
            database.execute(_SET_BACK, (now + self._idle, now, now, late))
            database.execute(_FREED, (now + int(3 * LEASE_SECONDS * 1e9),))

    def go_on_in_memory(self) -> None:
        """Do without a file that cannot be used."""
        self._path = None
        self._database = Database(self._connect, in_memory=True)

    def close(self) -> None:
        """Close the file; using the shelf again opens it again."""
        self._database.close()

    def _due(self, row: Sequence[Any]) -> DueSession:
        key, session_id, period, turns, due, active, owner, target = row
        trace_id, span_id, name, kind, *_ = json.loads(target)
        about = (trace_id, span_id, name, kind)
        is_endless = due < active + self._idle
        was_taken = owner is not None
        return DueSession(key, session_id, period, turns, due, active, is_endless, about, was_taken)

    # -- inside a transaction ---------------------------------------------------------------------

    def _add(self, database: sqlite3.Connection, turn: KeptTurn, now: int) -> int:
        """Keep one turn; return how many of its session were cut to make room."""
        known = database.execute(_STATE, (turn.key,)).fetchone()
        opened, due, count, kept, size, target = known or (now, None, 0, 0, 0, None)
        start = min(turn.start_ns, now)
        end = max(start, min(turn.end_ns, now))
        text, cut = turn.text, 0
        if text and known:
            if database.execute(_SAME, (turn.key, start, turn.span_id)).fetchone() is not None:
                return 0  # the spool delivered it twice
            if database.execute(_OUTER, (turn.key, start, end, turn.trace_id)).fetchone():
                text = ""
        if not text and due is None:
            return 0  # it brings nothing to evaluate
        if due is None:  # the session begins, or goes on after it was evaluated
            opened, target = now, None
        if text:
            about = (turn.key, start, end, turn.trace_id)
            inner = database.execute(_INNER, about).fetchall() if known else []
            length = len(text.encode())
            for place, span, held, _ in inner:
                database.execute(_DROP, (turn.key, place, span))
                count, kept, size = count - 1, kept - 1, size - held
            if inner:
                text = joined(text, [held for *_, held in inner])
                length = len(text.encode())
            before = kept
            kept, size = _with_room(database, turn.key, length, kept, size)
            cut = before - kept
            database.execute(
                "INSERT INTO turns VALUES (?,?,?,?,?,?,?)",
                (turn.key, start, turn.span_id, end, turn.trace_id, length, text),
            )
            count, kept, size = count + 1, kept + 1, size + length
        target = _later(target, turn, end)
        due = min(now + self._idle, opened + max(LONGEST_NS, self._idle))
        values = (turn.session_id, opened, due, now, count, kept, size, target)
        if known is None:
            database.execute(_NEW, (turn.key, *values))
        else:
            database.execute(_CHANGED, (*values, turn.key))
        database.execute(_OF_USER, (turn.key, turn.user))
        return cut

    def _is_full(self, database: sqlite3.Connection) -> bool:
        most = MEMORY_BYTES if self._path is None else FILE_BYTES
        return self._bytes(database) > most

    def _bytes(self, database: sqlite3.Connection) -> int:
        (pages,) = database.execute("PRAGMA page_count").fetchone()
        (free,) = database.execute("PRAGMA freelist_count").fetchone()
        (size,) = database.execute("PRAGMA page_size").fetchone()
        return int((pages - free) * size)

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        with self._database.use() as database:
            database.execute("BEGIN IMMEDIATE")
            try:
                yield database
                database.execute("COMMIT")
            finally:
                if database.in_transaction:
                    database.execute("ROLLBACK")

    def _connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(
            self._place(), timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "cache_size = -2000"):
                database.execute(f"PRAGMA {pragma}").fetchall()
            database.execute("BEGIN IMMEDIATE")
            for statement in _TABLES:
                database.execute(statement)
            database.execute("COMMIT")
        except BaseException:
            database.close()
            raise
        return database

    def _place(self) -> Path | str:
        """Create the file, private and not through a link."""
        if self._path is None:
            return ":memory:"
        private.make_folder(self._path.parent)
        private.check_folder(self._path.parent.lstat(), shared=True)
        private.make_file(self._path)
        private.check_file(self._path)
        return self._path


def _with_room(
    database: sqlite3.Connection, key: bytes, length: int, kept: int, size: int
) -> tuple[int, int]:
    """Cut old turns until ``length`` bytes have room; return how many are left, and their bytes."""
    while kept and (kept >= MOST_TURNS or size + length > MOST_BYTES):
        oldest = database.execute(_OLDEST, (key, min(FIRST_TURNS, kept - 1)))
        place, span, held = oldest.fetchone()
        database.execute(_DROP, (key, place, span))
        kept, size = kept - 1, size - held
    return kept, size


def _forget(database: sqlite3.Connection, limit: int, *, most: int) -> None:
    """Forget sessions that were evaluated and had their last turn before ``limit``."""
    rows = database.execute(_FORGOTTEN, (limit, most)).fetchall()
    for table in ("turns", "users", "sessions"):
        database.executemany(f"DELETE FROM {table} WHERE key=?", rows)  # noqa: S608 - constants


def _is_known(database: sqlite3.Connection, key: bytes) -> bool:
    return database.execute("SELECT 1 FROM sessions WHERE key=?", (key,)).fetchone() is not None


def _later(target: str | None, turn: KeptTurn, end: int) -> str:
    """Return the last root span of a session: that of this turn, unless a later one is known."""
    known: Sequence[Any] | None = None if target is None else json.loads(target)
    if target is not None and known is not None and (known[4], known[5]) > (turn.is_top, end):
        return target
    about = (turn.trace_id, turn.span_id, turn.span_name, turn.span_kind, turn.is_top, end)
    return json.dumps(about)


_TABLES = (
    """CREATE TABLE IF NOT EXISTS sessions (key BLOB PRIMARY KEY, id TEXT, opened INTEGER,
    due INTEGER, active INTEGER, turns INTEGER, kept INTEGER, bytes INTEGER, target TEXT,
    period INTEGER NOT NULL DEFAULT 1, owner TEXT, lease INTEGER) WITHOUT ROWID""",
    "CREATE INDEX IF NOT EXISTS sessions_due ON sessions (due) WHERE due IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS sessions_owned ON sessions (owner) WHERE owner IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS sessions_done ON sessions (active) WHERE due IS NULL",
    """CREATE TABLE IF NOT EXISTS turns (key BLOB, start INTEGER, span TEXT, end INTEGER,
    trace TEXT, size INTEGER, text TEXT, PRIMARY KEY (key, start, span)) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS users (key BLOB, user TEXT, PRIMARY KEY (key, user))
    WITHOUT ROWID""",  # a table, as processes of an earlier release go on writing their columns
    f"PRAGMA user_version = {SCHEMA}",
)
_STATE = "SELECT opened, due, turns, kept, bytes, target FROM sessions WHERE key=?"
_SAME = "SELECT 1 FROM turns WHERE key=? AND start=? AND span=?"
_OUTER = (
    "SELECT 1 FROM (SELECT end, trace FROM turns WHERE key=? AND start<=? ORDER BY start DESC"
    " LIMIT 8) WHERE end>=? AND trace=?"
)
_INNER = (
    "SELECT start, span, size, text FROM turns WHERE key=? AND start>=? AND end<=? AND trace=?"
    " ORDER BY start"
)
_OF_USER = "INSERT OR IGNORE INTO users VALUES (?, ?)"  # no user is ignored: a key is not null
_DROP = "DELETE FROM turns WHERE key=? AND start=? AND span=?"
_OLDEST = "SELECT start, span, size FROM turns WHERE key=? ORDER BY start, span LIMIT 1 OFFSET ?"
_NEW = (
    "INSERT INTO sessions (key, id, opened, due, active, turns, kept, bytes, target)"
    " VALUES (?,?,?,?,?,?,?,?,?)"
)
_CHANGED = (
    "UPDATE sessions SET id=?, opened=?, due=?, active=?, turns=?, kept=?, bytes=?, target=?"
    " WHERE key=?"
)
_ANY_DUE = "SELECT 1 FROM sessions WHERE due<=? AND (lease IS NULL OR lease<?) LIMIT 1"
_DUE = (
    "SELECT key, id, period, turns, due, active, owner, target FROM sessions"
    " WHERE due<=? AND (lease IS NULL OR lease<?) ORDER BY due LIMIT ?"
)
_DONE = (
    "UPDATE sessions SET period=period+1, owner=NULL, lease=NULL, opened=active,"
    " due=CASE WHEN due=? AND active=? THEN NULL ELSE active+? END WHERE key=? AND owner=?"
)
_FORGOTTEN = "SELECT key FROM sessions WHERE due IS NULL AND active<? ORDER BY active LIMIT ?"
_SET_BACK = "UPDATE sessions SET due=?, active=?, opened=min(opened, ?) WHERE due>?"
_FREED = "UPDATE sessions SET owner=NULL, lease=NULL WHERE owner IS NOT NULL AND lease>?"
