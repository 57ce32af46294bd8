"""Sessions whose turns arrive at several hosts: they meet in Redis, and one host evaluates each.

The worker never waits for Redis. A turn is written into this host's file of state first, and is
sent to Redis on the link's thread, with the next beat. What the thread takes there waits here for
the worker.
"""

from __future__ import annotations

import json
import sqlite3
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import groupby
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Any, NamedTuple

from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.plugins.sessions.turn_store import (
    FIRST_TURNS,
    KEPT_NS,
    LONGEST_ID,
    LONGEST_NS,
    MOST_BYTES,
    MOST_TURNS,
    TABLES,
    DueSession,
    KeptTurn,
    StoredTurn,
    TurnStore,
    joined,
)
from llmeval_sdk.plugins.shared.redis_client import KEYS, RedisThread, connect, elapsed
from llmeval_sdk.plugins.shared.settings import RedisAddress, SharedSettings
from llmeval_sdk.process.shield import tell
from llmeval_sdk.store.files import Unusable
from llmeval_sdk.store.state import open_state_read_only, state_path, tables_of


if TYPE_CHECKING:
    from redis import Redis


# The turns in this host's file, and which of them Redis does not have yet.

MOST_SENT = 100
"""Turns, or sessions, that are sent to Redis at a time."""


class SessionUpdate(NamedTuple):
    """What is sent to Redis of one session."""

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


class UnsharedTurns(TurnStore):
    """The file of turns, which also says of each turn whether Redis has it yet.

    Both are written together, so that neither the end of a process nor a Redis that is away loses
    one.
    """

    def updates(self) -> list[SessionUpdate]:
        """Return some of what was not sent to Redis; a few hundred kilobytes."""
        with self._file.reading() as database:
            rows = database.execute(_UNSHARED, (MOST_SENT,)).fetchall()
            updates, size = [], 0
            for key, of_session in groupby(rows, key=lambda row: row[0]):
                places = [tuple(row) for row in of_session]
                turns = [_stored_turn(database, *place) for place in places]
                one = _update(database, key, [turn for turn in turns if turn], places)
                size += sum(len(turn.text) for turn in one.turns)
                updates.append(one)
                if size > MOST_BYTES:
                    break
            return updates

    def sessions_after(self, key: bytes) -> list[SessionUpdate]:
        """Return the next sessions of the file with all that Redis may not know any more."""
        with self._file.reading() as database:
            updates, size = [], 0
            for (name,) in database.execute(_NEXT, (key, MOST_SENT)).fetchall():
                places = database.execute(_PLACES, (name,)).fetchall()
                one = _update(database, name, [], [])
                if one.is_open:
                    turns = [_stored_turn(database, *place) for place in places]
                    one = one._replace(turns=[turn for turn in turns if turn])
                size += sum(len(turn.text) for turn in one.turns)
                updates.append(one)
                if size > MOST_BYTES:
                    break
            return updates

    def note_sent(self, updates: Iterable[SessionUpdate]) -> None:
        """Note that Redis knows."""
        with self._file.changing() as database:
            database.executemany(_SENT, [row for one in updates for row in one.rows])

    def idle_sessions(self, now: int) -> list[bytes]:
        """Return open sessions that may have been evaluated somewhere, as they are idle here."""
        with self._file.reading() as database:
            return [key for (key,) in database.execute(_IDLE, (now, MOST_SENT))]

    def note_evaluated(self, key: bytes, period: int, active: int) -> None:
        """Note that a session was evaluated, here or elsewhere; ``period`` is its next one."""
        with self._file.changing() as database:
            database.execute(_EVALUATED, (period, active, key))

    def look_later(self, keys: Iterable[bytes], when: int) -> None:
        """Ask for sessions again at a time."""
        with self._file.changing() as database:
            database.executemany(
                "UPDATE sessions SET due=? WHERE key=?", [(when, key) for key in keys]
            )

    def send_again(self, keys: Sequence[bytes], when: int) -> None:
        """Note that Redis does not know sessions; those without a turn have nothing to evaluate."""
        with self._file.changing() as database:
            for key in keys:
                database.execute(_AGAIN, (key,))
                database.execute(
                    "UPDATE sessions SET due = CASE WHEN kept > 0 THEN ? END WHERE key=?",
                    (when, key),
                )

    def position(self) -> tuple[str | None, bytes | None]:
        """Return which data of Redis this file was shared with, and from where on it was not yet.

        The second is ``None`` where all sessions were sent.
        """
        with self._file.reading() as database:
            row: tuple[str, bytes | None] | None = database.execute(
                "SELECT which, after FROM sessions_shared_with"
            ).fetchone()
            return (None, None) if row is None else row

    def note_position(self, which: str, after: bytes | None) -> None:
        """Note up to which session all was sent."""
        with self._file.changing() as database:
            database.execute("DELETE FROM sessions_shared_with")
            database.execute("INSERT INTO sessions_shared_with VALUES (?,?)", (which, after))

    def _add(self, database: sqlite3.Connection, turn: KeptTurn, now: int) -> int:
        cut = super()._add(database, turn, now)
        row = (turn.key, min(turn.start_ns, now), turn.span_id)
        database.execute("INSERT OR IGNORE INTO unshared_turns VALUES (?,?,?)", row)
        return cut


def _stored_turn(
    database: sqlite3.Connection, key: bytes, start: int, span: str
) -> KeptTurn | None:
    row = database.execute(_TURN, (key, start, span)).fetchone()
    if row is None:  # it was cut, or is part of an outer one, or said nothing
        return None
    trace, end, text = row
    return KeptTurn(key, "", trace, span, "", "", start, end, False, text)


def _update(
    database: sqlite3.Connection,
    key: bytes,
    turns: list[KeptTurn],
    rows: list[tuple[bytes, int, str]],
) -> SessionUpdate:
    row = database.execute(_OF_SESSION, (key,)).fetchone()
    if row is None:  # it brought nothing to evaluate, or was forgotten
        return SessionUpdate(key, "", 0, False, 0, 0, 0, None, [], rows)
    session_id, period, due, opened, active, count, kept, target = row
    *about, is_top, end = json.loads(target)
    return SessionUpdate(
        key, session_id, period, due is not None, opened, active, count - kept,
        (tuple(about), bool(is_top), end), turns, rows,
    )  # fmt: skip


_UNSHARED = "SELECT key, start, span FROM unshared_turns ORDER BY key, start, span LIMIT ?"
_SENT = "DELETE FROM unshared_turns WHERE key=? AND start=? AND span=?"
_TURN = "SELECT trace, end, text FROM turns WHERE key=? AND start=? AND span=?"
_PLACES = "SELECT key, start, span FROM turns WHERE key=? ORDER BY start, span"
_NEXT = "SELECT key FROM sessions WHERE key>? ORDER BY key LIMIT ?"
_OF_SESSION = (
    "SELECT id, period, due, opened, active, turns, kept, target FROM sessions WHERE key=?"
)
_IDLE = (
    "SELECT key FROM sessions WHERE due<=? AND NOT EXISTS"
    " (SELECT 1 FROM unshared_turns WHERE unshared_turns.key = sessions.key) ORDER BY due LIMIT ?"
)
_EVALUATED = (
    "UPDATE sessions SET period=?, due=NULL, owner=NULL, lease=NULL, opened=active,"
    " active=max(active, ?) WHERE key=? AND NOT EXISTS"
    " (SELECT 1 FROM unshared_turns WHERE unshared_turns.key = sessions.key)"
)
_AGAIN = "INSERT OR IGNORE INTO unshared_turns SELECT key, start, span FROM turns WHERE key=?"


# What stands in Redis of a session: how it is written, and read as anybody's data.

PREFIX = f"{KEYS}{{shared}}.session."
"""With this begins the name of a session's keys; the braces keep all on one server of a cluster."""
DUE, HOLD, BORN = (f"{KEYS}{{shared}}.sessions.{word}" for word in ("due", "hold", "born"))
LONGEST_TURN = 1 << 20
"""Characters of a turn that are read."""
MOST_READ = 600
"""Turns of a session that are read."""
SLACK_MS = 1_000
"""By how much two hosts may differ about when a session had its last turn."""
MS = 10**6
"""Nanoseconds of a millisecond."""
_LONGEST_WORD = 1_000
_PARTS_OF_CALL = 7


class Clock(NamedTuple):
    """How this host's clock compares with that of Redis, which puts turns of all hosts in order."""

    ahead_ns: int
    """By how much the clock of Redis is ahead of this one."""

    def on_server(self, here_ns: int) -> int:
        """Return a time of this host in microseconds by the clock of Redis."""
        return (here_ns + self.ahead_ns) // 1000

    def ours(self, microseconds: float) -> int:
        """Return a time of Redis in nanoseconds by the clock of this host."""
        return max(int(microseconds) * 1000 - self.ahead_ns, 0)


class Script:
    """Runs the commands of ``sessions.lua``."""

    def __init__(self, redis: Redis) -> None:
        text = (Path(__file__).parent / "sessions.lua").read_text("utf-8")
        self._script = redis.register_script(text)
        self._redis = redis

    def __call__(self, command: str, **request: Any) -> dict[str, Any]:
        """Run one command and return its reply."""
        (reply,) = self.each(command, [request])
        return reply

    def each(self, command: str, requests: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Run a command several times, with one wait for all replies."""
        pipeline = self._redis.pipeline(transaction=False)
        for request in requests:
            text = json.dumps({"command": command, "prefix": PREFIX, **request})
            self._script(keys=[DUE, HOLD, BORN], args=[text], client=pipeline)
        return [json.loads(reply) for reply in pipeline.execute()]


def _open_session(one: SessionUpdate, now: int, clock: Clock, idle_ns: int) -> dict[str, Any]:
    """Return what is sent to Redis of an open session."""
    target = None
    if one.target is not None:
        about, is_top, end = one.target
        target = {"about": about, "top": int(is_top), "end": str(clock.on_server(end))}
    turns = [(str(clock.on_server(turn.start_ns)), _turn_text(turn)) for turn in one.turns]
    return {
        **_place(one, now), "id": one.session_id, "opened": max(now - one.opened, 0) // MS,
        "idle": idle_ns // MS, "longest": LONGEST_NS // MS, "kept": KEPT_NS // MS, "cut": one.cut,
        "most": MOST_TURNS, "most_bytes": MOST_BYTES, "first": FIRST_TURNS,
        "target": target, "turns": turns,
    }  # fmt: skip


def _evaluated_session(one: SessionUpdate, now: int) -> dict[str, Any]:
    """Return what is sent to Redis of a session that was evaluated."""
    return {**_place(one, now), "slack": SLACK_MS}


def _place(one: SessionUpdate, now: int) -> dict[str, Any]:
    ago = max(now - one.active, 0) // MS
    return {"name": one.key.hex(), "period": one.period, "active": ago}


def _turn_text(turn: KeptTurn) -> str:
    """Write a turn for Redis. The same turn always gives the same text, so that it is kept once."""
    about = [turn.span_id, turn.trace_id, turn.end_ns - turn.start_ns, turn.text]
    return json.dumps(about, ensure_ascii=False)


def _due_session(state: Mapping[str, str], idle_ms: int, turns: int) -> DueSession:
    """Read the state of a session that was taken.

    Raises:
        Exception: it is nothing that this SDK wrote.
    """
    target = json.loads(state["target"])
    about = [_word(part) for part in target["about"]]
    trace_id, span_id, name, kind = about
    due, active = int(state["due"]), int(state["active"])
    return DueSession(
        bytes.fromhex(state["name"]),
        _word(state["id"])[:LONGEST_ID],
        int(state["period"]),
        turns + max(int(state["cut"]), 0),
        due,
        active,
        due < active + idle_ms,
        (trace_id, span_id, name, kind),
        bool(state.get("owner")),
    )


def conversation(members: Iterable[tuple[bytes, float]], clock: Clock) -> list[StoredTurn]:
    """Read the turns of a session and put them together, as on one host.

    What lies inside another turn of its trace is part of that one. What cannot be read is left out.
    """
    read = [_turn(member, score, clock) for member, score in members]
    turns = [one for one in read if one is not None]
    turns.sort(key=lambda one: (one[1].start_ns, -one[1].end_ns))
    whole: list[StoredTurn] = []
    inner: list[list[str]] = []
    outer: dict[str, int] = {}
    for trace_id, turn in turns:
        place = outer.get(trace_id)
        if place is not None and whole[place].end_ns >= turn.end_ns:
            inner[place].append(turn.text)
            continue
        outer[trace_id] = len(whole)
        whole.append(turn)
        inner.append([])
    return [
        turn._replace(text=joined(turn.text, below)) if below else turn
        for turn, below in zip(whole, inner, strict=True)
    ]


def _turn(member: bytes, score: float, clock: Clock) -> tuple[str, StoredTurn] | None:
    """Read one turn with its trace; ``None`` for what this SDK did not write."""
    try:
        _, trace_id, nanoseconds, text = json.loads(member[:LONGEST_TURN])
        start = clock.ours(score)
        turn = StoredTurn(start, start + max(int(nanoseconds), 0), text)
        content = json.loads(text)
        says = [content[part] for part in ("u", "a")]
        if any(not isinstance(part, str | None) for part in says):
            return None
        if any(not _is_call(call) for call in content["t"]) or not _is_time(turn.end_ns):
            return None
        return _word(trace_id), turn
    except Exception:  # whatever stands there, nobody but this SDK can be blamed for no turn
        return None


def _is_call(call: Any) -> bool:
    if type(call) is not list or len(call) != _PARTS_OF_CALL:
        return False
    *texts, start, end = call
    are_texts = all(isinstance(text, str | None) for text in texts)
    return are_texts and all(when is None or _is_time(when) for when in (start, end))


def _is_time(nanoseconds: Any) -> bool:
    return type(nanoseconds) is int and 0 <= nanoseconds < 1 << 63


def _word(text: Any) -> str:
    if not isinstance(text, str) or len(text) > _LONGEST_WORD:
        raise TypeError("no short text")
    return text


SITE = "sessions of all hosts"
GAP_SECONDS = 5.0
"""After so long without a word from Redis a host counts it as having been away."""
MOST_TAKEN = 50
"""Sessions that are taken with one beat; more at once where there are more."""
MOST_WAITING = 200
"""Sessions that wait for the worker at most."""
LOOK_SECONDS = 0.5
"""How often the worker looks whether there are any."""
ASK_AGAIN_SECONDS = 10.0


class SharedTurnStore(UnsharedTurns):
    """Keeps turns as any `TurnStore` does, and hands out the sessions of all hosts.

    Args:
        path: Of this host's file.
        idle_ns: How long a session is idle before it is evaluated.
        link: Talks to Redis.
    """

    look_seconds = LOOK_SECONDS
    hold_seconds = 12.0
    """For how long nobody takes a session after Redis was away or lost its data, so that all hosts
    can tell it what they have; longer than judges may not pay then."""

    def __init__(self, path: Path | None, idle_ns: int, link: RedisThread) -> None:
        super().__init__(path, idle_ns)
        self._link = link
        self._hold = int(self.hold_seconds * 1000)
        self.forked()
        link.join(self)

    def forked(self) -> None:
        """Leave to the parent what it took."""
        self._waiting: deque[DueSession] = deque()
        self._turns: dict[bytes, list[StoredTurn]] = {}
        self._held: dict[bytes, str] = {}
        self._done: deque[DueSession] = deque()
        self._script: Script | None = None
        self._owner: str | None = None
        self._lease_ms, self._renewed_until = 0, 0.0
        self._last_reply_at: float | None = None
        self._is_catching_up = self._is_more = False
        self._clock = Clock(0)

    # -- in the worker ----------------------------------------------------------------------------

    def add(self, turns: Iterable[KeptTurn], now: int) -> tuple[int, int]:
        """Keep turns in the file; they are sent to Redis with the next beat."""
        outcome = super().add(turns, now)
        self._link.start()
        return outcome

    def take(self, owner: str, now: int, until: int, most: int) -> list[DueSession]:
        """Return sessions that were taken in Redis for this process; none while that is away."""
        self._owner = owner
        self.renew(owner, until)
        self._link.start()
        if self._link.is_away:
            return []
        taken: list[DueSession] = []
        while self._waiting and len(taken) < most:
            due = self._waiting.popleft()
            if due.key in self._held:
                taken.append(due)
        if self._is_more and len(self._waiting) < MOST_TAKEN:
            self._link.wake()
        return taken

    def turns(self, key: bytes) -> list[StoredTurn]:
        """Return the turns of a session that was taken, once."""
        return self._turns.pop(key, [])

    def done(self, owner: str, sessions: Iterable[DueSession]) -> None:
        """Note that sessions were evaluated; this is sent as soon as Redis is there."""
        self._done.extend(sessions)
        self._link.wake()

    def renew(self, owner: str, until: int) -> None:
        """Keep what was taken, for as long as the worker goes on saying so."""
        seconds = max(until - time_ns(), 0) / 1e9
        self._lease_ms, self._renewed_until = int(seconds * 1000), elapsed() + seconds

    def release(self, owner: str) -> None:
        """Give back what was not evaluated; the link does it when it closes, which is next."""
        self._waiting.clear()
        self._renewed_until = 0.0

    # -- on the link's thread -------------------------------------------------------------------

    def exchange(self, redis: Redis, /) -> None:
        """Send what Redis does not have, ask what became of sessions, and take some."""
        if self._script is None:
            self._script = Script(redis)
        which = self._say_hello(self._script)
        self._send_done(self._script)
        is_behind = self._send_updates(self._script, which)
        if self._is_catching_up:
            redis.set(HOLD, 1, px=self._hold)
            self._is_catching_up = is_behind
        self._ask_about_idle(self._script)
        self._keep(self._script)
        self._take(redis, self._script)
        self._last_reply_at = elapsed()
        if is_behind or self._done:
            self._link.wake()

    def leave(self, redis: Redis, /) -> None:
        """Tell what is left, and give back what was taken."""
        script = self._script
        if script is None:
            return
        self._send_done(script)
        if self._held:
            script("release", owner=self._owner, names=[key.hex() for key in self._held])
        self._forget(list(self._held))
        while self._send_updates(script, None):
            pass

    def _say_hello(self, script: Script) -> str:
        """Learn the time of Redis, and whether it has less than this host sent."""
        sent = time_ns()
        reply = script("hello", hold=self._hold)
        here = (sent + time_ns()) // 2
        theirs = int(reply["seconds"]) * 10**9 + int(reply["microseconds"]) * 1000
        self._clock = Clock(theirs - here)
        which: str = reply["which"]
        sent_to, _ = self.position()
        if sent_to != which:
            self.note_position(which, b"")
            self._is_catching_up = True
        if self._last_reply_at is not None and elapsed() - self._last_reply_at > GAP_SECONDS:
            self._is_catching_up = True
        return which

    def _send_updates(self, script: Script, which: str | None) -> bool:
        """Send a few hundred kilobytes of what Redis does not have; return whether there is more.

        ``which`` data get the sessions that they may have lost, unless it is ``None``.
        """
        updates = self.updates()
        self._send(script, updates)
        self.note_sent(updates)
        is_behind = sum(len(one.rows) for one in updates) >= MOST_SENT
        _, after = self.position()
        if which is not None and after is not None:
            lost = self.sessions_after(after)
            self._send(script, lost)
            self.note_position(which, lost[-1].key if lost else None)
            is_behind = is_behind or bool(lost)
        return is_behind

    def _send(self, script: Script, updates: list[SessionUpdate]) -> None:
        now = time_ns()
        share = [_open_session(one, now, self._clock, self._idle) for one in updates if one.is_open]
        script.each("share", share)
        evaluated = [one for one in updates if not one.is_open and one.period > 1]
        script.each("remind", [_evaluated_session(one, now) for one in evaluated])
        sent = sum(len(one.turns) for one in updates)
        if sent:
            self._link.counts.add("turns shared", sent)

    def _ask_about_idle(self, script: Script) -> None:
        """Ask what became of the sessions that are idle on this host."""
        now = time_ns()
        keys = self.idle_sessions(now)
        if not keys:
            return
        states = script("look", names=[key.hex() for key in keys])["states"]
        unknown, waiting = [], []
        for key, state in zip(keys, states, strict=True):
            if not state["known"]:
                unknown.append(key)
            elif state["due"]:
                waiting.append(key)
            else:
                active = self._clock.ours(int(state["active"]) * 1000)
                self.note_evaluated(key, int(state["period"]), active)
        later = now + int(ASK_AGAIN_SECONDS * 1e9)
        self.send_again(unknown, later)
        self.look_later(waiting, later)

    def _send_done(self, script: Script) -> None:
        """Say what was evaluated. What others took over meanwhile is theirs to say."""
        done = list(self._done)
        if not done:
            return
        sessions = [
            {
                "name": one.key.hex(), "period": one.period, "active": str(one.active),
                "count": self._held.get(one.key, str(one.turns)),
            }
            for one in done
        ]  # fmt: skip
        reply = script(
            "done", owner=self._owner, sessions=sessions, idle=self._idle // MS, kept=KEPT_NS // MS
        )
        noted = set(reply["noted"])
        for one in done:
            self._done.popleft()
            if one.key.hex() in noted:
                active = self._clock.ours(one.active * 1000)
                self.note_evaluated(one.key, one.period + 1, active)
        self._forget([one.key for one in done])

    def _keep(self, script: Script) -> None:
        """Renew what was taken, while the worker is alive; let go of what somebody else has.

        The worker may have begun with it: then it goes on, and Redis decides whose verdict counts.
        """
        names = [key.hex() for key in self._held]
        if names and elapsed() < self._renewed_until:
            reply = script("renew", owner=self._owner, names=names, lease=self._lease_ms)
            lost = [bytes.fromhex(name) for name in reply["lost"]]
            self._forget([key for key in lost if key in self._turns])

    def _take(self, redis: Redis, script: Script) -> None:
        if self._owner is None or elapsed() >= self._renewed_until:
            return
        if len(self._waiting) + MOST_TAKEN > MOST_WAITING:
            return
        reply = script("take", owner=self._owner, lease=self._lease_ms, most=MOST_TAKEN)
        states: list[dict[str, str]] = list(reply["taken"])
        self._is_more = len(states) == MOST_TAKEN
        if not states:
            return
        pipeline: Any = redis.pipeline(transaction=False)
        for state in states:
            name = f"{PREFIX}{state['name']}.turns"
            pipeline.zrange(name, 0, MOST_READ - 1, withscores=True)
        refused = []
        for state, members in zip(states, pipeline.execute(), strict=True):
            if not self._take_in(state, members):
                refused.append(state["name"])
        if refused:
            self._link.counts.add("sessions not understood", len(refused))
            tell(SITE, f"{self._link.place} holds sessions that nobody can read: they are dropped")
            script("drop", names=refused)

    def _take_in(self, state: dict[str, str], members: list[tuple[bytes, float]]) -> bool:
        """Hand a session to the worker; ``False`` where nothing of it can be read."""
        turns = conversation(members, self._clock)
        if not turns:
            return False
        try:
            due = _due_session(state, self._idle // MS, len(turns))
        except Exception:  # whatever stands there, this SDK did not write it
            return False
        self._held[due.key] = str(state["count"])
        self._turns[due.key] = turns
        self._waiting.append(due)
        return True

    def _forget(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            self._held.pop(key, None)
            self._turns.pop(key, None)


# What `llmeval doctor` says of the sessions of all hosts.

Finding = tuple[bool | None, str, str]
_LATE_MS = 600_000


def findings(settings: Settings, *, offline: bool = False) -> Iterator[Finding]:
    """Say what Redis does not have yet, and how many sessions of all hosts are open.

    ``offline`` does not ask Redis. Nothing is changed.
    """
    own = settings.of(SharedSettings)
    if own.shared is None:
        return
    place = own.shared.place
    waiting = _count_unshared(state_path(settings.store))
    if waiting is None:  # no session was ever kept on this host
        return
    if waiting:
        words = f"{waiting:,} turns of this host wait for {place}; none of them is lost"
        yield None, "not shared yet", words
    if not offline:
        yield from _of_redis(own.shared, place)


def _count_unshared(path: Path) -> int | None:
    """Count the turns that Redis does not have yet; ``None`` where this host keeps no session."""
    try:
        database = open_state_read_only(path)
        if database is None:
            return None
        with closing(database):
            if not tables_of(database, TABLES):
                return None
            return int(database.execute("SELECT count(*) FROM unshared_turns").fetchone()[0])
    except (Unusable, sqlite3.Error):  # which the findings on this host's sessions tell
        return None


def _of_redis(address: RedisAddress, place: str) -> Iterator[Finding]:
    try:
        redis = connect(address, connect_seconds=2.0, answer_seconds=2.0)
    except ConfigurationError:  # which the check of what is shared tells
        return
    from redis.exceptions import RedisError

    try:
        seconds, _ = redis.time()
        waiting: Any = redis.zcard(DUE)
        late: Any = redis.zcount(DUE, "-inf", int(seconds) * 1000 - _LATE_MS)
    except (RedisError, OSError) as error:
        words = f"{type(error).__name__}: until it answers, sessions wait and none is evaluated"
        yield False, place, words
        return
    yield True, place, f"{waiting:,} sessions of all hosts are open"
    if late:
        words = (
            f"{late:,} have been due for more than ten minutes: no process with evaluators of "
            "sessions is recording on any host, or there are too few of them"
        )
        yield None, "late", words
