"""The turns of sessions: what is kept of each, and the tables in the file of state that keep them.

A session is due when it has been idle. A process takes it with a lease that it renews; where the
process dies, the lease runs out and another takes the session. What was delivered by then is
delivered again under the same id, so each idle period has one verdict.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from time import time_ns
from typing import Literal, NamedTuple

from llmeval_sdk.config import Settings
from llmeval_sdk.judges.prompt import shortened
from llmeval_sdk.model import DAY_NS, Record, Step
from llmeval_sdk.model.chat import as_text, both_ends, question, to_text
from llmeval_sdk.model.conversation import SESSION
from llmeval_sdk.plugins.sessions.heuristics import COUNTED
from llmeval_sdk.plugins.sessions.settings import SessionSettings
from llmeval_sdk.store.files import Unusable
from llmeval_sdk.store.state import (
    Belongings,
    StateFile,
    StateTables,
    open_state_read_only,
    state_path,
    tables_of,
)


LONGEST_ID = 256
"""Characters of a session's id that are kept. Sessions are told apart by the whole of it."""
LONGEST_TEXT = 8_000
"""Characters of what the user or the agent said in one turn."""
LONGEST_RESULT = 2_000
"""Characters of the arguments, and of the result, of a tool call."""
MOST_CALLS = 40
"""The most tool calls of one turn that are kept; of more, the first and the last are."""


class KeptTurn(NamedTuple):
    """A turn on its way to the file."""

    key: bytes
    """The session, by a hash of its id."""
    session_id: str
    trace_id: str
    span_id: str
    span_name: str
    span_kind: str
    start_ns: int
    end_ns: int
    is_top: bool
    """Whether its span has none of this process above it."""
    text: str
    """The turn as JSON; empty where the span says neither what was asked nor what was answered."""
    user: str | None = None
    """The app's user, cut to `LONGEST_ID`; a hash where ids are hashed."""


def key_of(session_id: str) -> bytes:
    """Return what a session is known by, however long its id is."""
    return hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).digest()[:16]


def written(record: Record, *, content: bool) -> str:
    """Write what was asked, done and answered as JSON; ``""`` for a record that says nothing.

    ``m`` marks a bare model call: where one only asks for a tool, the answer comes with the next.
    The run of an agent that stops without an answer, to ask a person, is a turn of its own.
    """
    request = record.request
    asked = question(request) if request is not None else None
    if asked is None and request is not None:
        asked = as_text(request)
    if not asked and not record.response:
        return ""
    if not content:
        return json.dumps({"u": None, "a": None, "t": []})
    calls = [_call(step) for step in both_ends(_calls_of_turn(record.steps or ()), MOST_CALLS)]
    turn: dict[str, object] = {
        "u": shortened(asked or "", LONGEST_TEXT),
        "a": shortened(record.response or "", LONGEST_TEXT),
        "t": calls,
    }
    if record.span_kind == "llm":
        turn["m"] = 1
    return json.dumps(turn, ensure_ascii=False).encode("utf-8", "replace").decode("utf-8")


def _calls_of_turn(steps: Sequence[Step]) -> list[Step]:
    """Return the tool calls since the user spoke last: messages hold those of former turns too."""
    spoke = max((place for place, step in enumerate(steps) if step.role == "user"), default=-1)
    return [step for step in steps[spoke + 1 :] if step.role == "tool"]


class _StoredCall(NamedTuple):
    name: str | None
    arguments: str | None
    result: str | None
    error: str | None
    effect: Literal["read", "write"] | None
    start_ns: int | None
    end_ns: int | None


def _call(step: Step) -> _StoredCall:
    texts = (to_text(value) for value in (step.arguments, step.result))
    arguments, result = (
        None if text is None else shortened(text, LONGEST_RESULT) for text in texts
    )
    error = None if step.error is None else step.error[:500]
    return _StoredCall(step.name, arguments, result, error, step.effect, step.start_ns, step.end_ns)


def joined(outer: str, inner: Iterable[str]) -> str:
    """Add the tool calls of turns that lie inside another one, where that has none of its own."""
    turn = json.loads(outer)
    if turn["t"]:
        return outer
    turn["t"] = [call for text in inner for call in json.loads(text)["t"]][:MOST_CALLS]
    return json.dumps(turn, ensure_ascii=False)


class StoredTurn(NamedTuple):
    """A turn as it stands in the file."""

    start_ns: int
    end_ns: int
    text: str


def record_of_session(
    turns: Sequence[StoredTurn], *, session_id: str, key: bytes, count: int, span_name: str
) -> Record:
    """Make the Record of a session: all of the conversation in its steps.

    A model call that only asked for a tool is one turn with the next call, which has its result.
    Its trace id is made of the session's id, so that sampling and escalation draw by session.
    """
    steps: list[Step] = []
    left_out = count - len(turns)
    response: str | None = None
    whole = [json.loads(text) for _, _, text in turns]
    for place, ((start, end, _), turn) in enumerate(zip(turns, whole, strict=True)):
        if left_out > 0 and place == min(FIRST_TURNS, len(turns) - 1):
            steps.append(Step("system", f"[{left_out} turns of this session are left out here]"))
        if (
            turn.get("m")
            and turn["a"] == ""
            and turn["t"]
            and place + 1 < len(whole)
            and (turn["u"] == whole[place + 1]["u"])
        ):
            count -= 1
            continue
        if turn["u"] != "":  # None where texts may not be kept
            steps.append(Step("user", turn["u"], start_ns=start, end_ns=start))
        steps += [_step(_StoredCall(*call)) for call in turn["t"]]
        if turn["a"] != "":
            response = turn["a"]
            steps.append(Step("assistant", response, start_ns=end, end_ns=end))
    attributes: Mapping[str, object] = {SESSION: session_id, COUNTED: count}
    seconds = (max(t.end_ns for t in turns) - turns[0].start_ns) / 1e9 if turns else None
    return Record(
        request=None,
        response=response,
        steps=tuple(steps) or None,
        attributes=attributes,
        latency_seconds=seconds,
        trace_id=key.hex(),
        span_name=span_name,
    )


FIRST_TURNS = 5
"""Turns at the beginning of a session that stay, however long it gets."""


def _step(call: _StoredCall) -> Step:
    arguments: object = call.arguments
    with suppress(ValueError):  # it was cut, or was no JSON from the beginning
        arguments = json.loads(call.arguments) if call.arguments else {}
    return Step("tool", None, call.name, arguments, *call[2:])


MOST_TURNS = 500
"""The most turns of a session that are kept; of more, the first few and the latest are."""
MOST_BYTES = 256 << 10
"""Bytes of a session's turns."""
FILE_BYTES = 8 << 30
"""The size from which on the file takes no new session until others are forgotten."""
MEMORY_BYTES = 64 << 20
"""The size from which on sessions in memory take no further turn, until others are forgotten."""
KEPT_NS = 7 * DAY_NS
"""How long an evaluated session is remembered: who resumes it later begins a new one."""
LONGEST_NS = DAY_NS
"""A session that is never idle is evaluated once in this time all the same."""
LEASE_SECONDS = 30.0
"""The longest lease: after it a session that a process took is free again, unless it is renewed."""


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
    """The turns in the file of state. Using them raises what using a `StateFile` raises.

    Args:
        path: The file of state; ``None`` keeps sessions in memory, for this process alone.
        idle_ns: How long a session is idle before it is evaluated.
    """

    def __init__(self, path: Path | None, idle_ns: int) -> None:
        self._idle = idle_ns
        self._file = StateFile(path, TABLES)

    def add(self, turns: Iterable[KeptTurn], now: int) -> tuple[int, int]:
        """Keep turns; return how many were cut from their sessions, and how many found no room."""
        cut = refused = 0
        with self._file.changing() as database:
            if is_full := self._is_full(database):
                _forget(database, now, most=100)
                is_full = self._is_full(database)
            for turn in turns:
                if is_full and (self._file.path is None or not _is_known(database, turn.key)):
                    refused += 1
                else:
                    cut += self._add(database, turn, now)
        return cut, refused

    def take(self, owner: str, now: int, until: int, most: int) -> list[DueSession]:
        """Take sessions that are due and that nobody else is evaluating."""
        with self._file.reading() as database:
            if database.execute(_ANY_DUE, (now, now)).fetchone() is None:
                return []
        with self._file.changing() as database:
            rows = database.execute(_DUE, (now, now, most)).fetchall()
            taken = [(owner, until, key) for key, *_ in rows]
            database.executemany("UPDATE sessions SET owner=?, lease=? WHERE key=?", taken)
        return [self._due(row) for row in rows]

    def turns(self, key: bytes) -> list[StoredTurn]:
        """Return the turns that are kept of a session, in order."""
        with self._file.reading() as database:
            rows = database.execute(
                "SELECT start, end, text FROM turns WHERE key=? ORDER BY start, span", (key,)
            )
            return [StoredTurn(*row) for row in rows]

    def done(self, owner: str, sessions: Iterable[DueSession]) -> None:
        """Note that sessions were evaluated, unless they were taken over by somebody meanwhile.

        One that went on while it was evaluated stays due, and its day begins anew.
        """
        rows = [(one.due, one.active, self._idle, one.key, owner) for one in sessions]
        with self._file.changing() as database:
            database.executemany(_DONE, rows)

    def renew(self, owner: str, until: int) -> None:
        """Keep the sessions that are being evaluated here."""
        with self._file.changing() as database:
            database.execute("UPDATE sessions SET lease=? WHERE owner=?", (until, owner))

    def release(self, owner: str) -> None:
        """Leave the sessions that were taken and not evaluated to others."""
        with self._file.changing() as database:
            database.execute("UPDATE sessions SET owner=NULL, lease=NULL WHERE owner=?", (owner,))

    def tidy(self, now: int) -> None:
        """Forget sessions that were evaluated long ago, and correct times of a clock set back."""
        with self._file.changing() as database:
            limit = now if self._is_full(database) else now - KEPT_NS
            _forget(database, limit, most=1_000)
            late = now + 2 * self._idle + LONGEST_NS
            database.execute(_SET_BACK, (now + self._idle, now, now, late))
            database.execute(_FREED, (now + int(3 * LEASE_SECONDS * 1e9),))

    def go_on_in_memory(self) -> None:
        """Do without a file that cannot be used."""
        self._file.go_on_in_memory()

    def close(self) -> None:
        """Close the file; using the turns again opens it again."""
        self._file.close()

    def _due(self, row: tuple[bytes, str, int, int, int, int, str | None, str]) -> DueSession:
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
        most = MEMORY_BYTES if self._file.path is None else FILE_BYTES
        return self._bytes(database) > most

    def _bytes(self, database: sqlite3.Connection) -> int:
        (pages,) = database.execute("PRAGMA page_count").fetchone()
        (free,) = database.execute("PRAGMA freelist_count").fetchone()
        (size,) = database.execute("PRAGMA page_size").fetchone()
        return int((pages - free) * size)


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


def _forget(database: sqlite3.Connection, limit: int, *, most: int) -> int:
    """Forget sessions that were evaluated before ``limit``; return how many."""
    rows = database.execute(_FORGOTTEN, (limit, most)).fetchall()
    for table in _OF_A_SESSION:
        database.executemany(f"DELETE FROM {table} WHERE key=?", rows)  # noqa: S608 - constants
    return len(rows)


def _is_known(database: sqlite3.Connection, key: bytes) -> bool:
    return database.execute("SELECT 1 FROM sessions WHERE key=?", (key,)).fetchone() is not None


def _later(target: str | None, turn: KeptTurn, end: int) -> str:
    """Return the last root span of a session: that of this turn, unless a later one is known."""
    known: Sequence[object] | None = None if target is None else json.loads(target)
    if target is not None and known is not None and (known[4], known[5]) > (turn.is_top, end):
        return target
    about = (turn.trace_id, turn.span_id, turn.span_name, turn.span_kind, turn.is_top, end)
    return json.dumps(about)


_SCRIPT = """
CREATE TABLE sessions (
  key BLOB PRIMARY KEY,  -- a hash of the session's id
  id TEXT,
  opened INTEGER,  -- times are nanoseconds since the epoch
  due INTEGER,  -- null once it was evaluated
  active INTEGER,
  turns INTEGER,  -- all that it ever had
  kept INTEGER,
  bytes INTEGER,
  target TEXT,  -- its last root span
  period INTEGER NOT NULL DEFAULT 1,
  owner TEXT,  -- the process that evaluates it, until the lease runs out
  lease INTEGER
) WITHOUT ROWID;
CREATE INDEX sessions_due ON sessions (due) WHERE due IS NOT NULL;
CREATE INDEX sessions_owned ON sessions (owner) WHERE owner IS NOT NULL;
CREATE INDEX sessions_done ON sessions (active) WHERE due IS NULL;

CREATE TABLE turns (
  key BLOB,
  start INTEGER,
  span TEXT,
  end INTEGER,
  trace TEXT,
  size INTEGER,
  text TEXT,
  PRIMARY KEY (key, start, span)
) WITHOUT ROWID;

-- The users of each session, by the forms that their ids have here.
CREATE TABLE session_users (key BLOB, user TEXT, PRIMARY KEY (key, user)) WITHOUT ROWID;
"""
_OF_ONE_HOST = """
DROP TABLE IF EXISTS unshared_turns;  -- hosts once shared sessions through Redis
DROP TABLE IF EXISTS sessions_shared_with;
"""


def _forget_user(database: sqlite3.Connection, theirs: Belongings) -> int:
    """Delete the sessions in which a user took part; return how many turns they have.

    The table of users says who did, also where the store has no trace of theirs any more.
    """
    keys = {
        key for user in theirs.users for (key,) in database.execute(_BY_USER, (user[:LONGEST_ID],))
    }
    keys.update(key for trace in theirs.traces for (key,) in database.execute(_BY_TRACE, (trace,)))
    turns = 0
    for key in keys:
        turns += database.execute("DELETE FROM turns WHERE key=?", (key,)).rowcount
        for table in _OF_A_SESSION:
            database.execute(f"DELETE FROM {table} WHERE key=?", (key,))  # noqa: S608 - constants
    return turns


def _expire(database: sqlite3.Connection, before_ns: int) -> int:
    """Delete sessions that were evaluated and had their last turn before a time."""
    return _forget(database, before_ns, most=1 << 40)


_OF_A_SESSION = ("turns", "session_users", "sessions")
_BY_USER = "SELECT key FROM session_users WHERE user=?"
_BY_TRACE = "SELECT DISTINCT key FROM turns WHERE trace=?"
TABLES = StateTables(
    owner="sessions",
    noun="turn of open sessions",
    scripts=(_SCRIPT, _OF_ONE_HOST),
    tables=_OF_A_SESSION,
    forget=_forget_user,
    expire=_expire,
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
_OF_USER = (
    "INSERT OR IGNORE INTO session_users VALUES (?, ?)"  # no user is ignored: a key is not null
)
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


# What `llmeval doctor` says of sessions: how many wait, and which of them look wrong.

Finding = tuple[bool | None, str, str]
"""Whether it is well (``None``: neither well nor broken), what it is about, and a sentence."""
_MOST_NAMED = 5
_LATE_NS = 600 * 10**9
"""How long sessions may have been due before somebody is told that no process evaluates them."""


def findings(settings: Settings, *, offline: bool = False) -> Iterator[Finding]:
    """Say how the sessions of this host are, without making or changing a file."""
    path = state_path(settings.store)
    try:
        database = open_state_read_only(path)
        if database is None:
            return
        with closing(database):
            if tables_of(database, TABLES):
                idle = settings.of(SessionSettings).session_idle
                yield from _of_file(database, str(path), idle)
    except (Unusable, sqlite3.Error) as error:
        yield False, str(path), f"cannot be read: {error}. Sessions are kept in memory only"


def _of_file(database: sqlite3.Connection, path: str, idle: float) -> Iterator[Finding]:
    count = database.execute("SELECT count(*) FROM sessions").fetchone()[0]
    if not count:
        return
    waiting = database.execute("SELECT count(*) FROM sessions WHERE due IS NOT NULL").fetchone()[0]
    yield True, path, f"{count:,} sessions, {waiting:,} of them open; idle after {idle:g} s"
    now = time_ns()
    late = database.execute(
        "SELECT count(*) FROM sessions WHERE due < ? AND (lease IS NULL OR lease < ?)",
        (now - _LATE_NS, now),
    ).fetchone()[0]
    if late:
        words = (
            f"{late:,} have been due for more than ten minutes: no process with evaluators of "
            "sessions is recording. The next one that does evaluates them"
        )
        yield None, "late", words
    crowded = database.execute(
        "SELECT id, turns FROM sessions WHERE turns > ? ORDER BY turns DESC LIMIT ?",
        (MOST_TURNS, _MOST_NAMED),
    ).fetchall()
    for name, turns in crowded:
        words = (
            f"{turns:,} turns, of which {MOST_TURNS} at most are kept: is this id shared by all "
            "users? Give each conversation an id of its own"
        )
        yield None, f"session {name[:60]!r}", words
    endless = database.execute(
        "SELECT id FROM sessions WHERE due > ? AND opened < ? AND turns <= ? LIMIT ?",
        (now, now - LONGEST_NS // 2, MOST_TURNS, _MOST_NAMED),
    ).fetchall()
    for (name,) in endless:
        words = "not idle for twelve hours: it is evaluated once a day. Does something poll in it?"
        yield None, f"session {name[:60]!r}", words
