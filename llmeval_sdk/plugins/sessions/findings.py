"""What `llmeval doctor` says of sessions: how many wait, and which of them look wrong."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from time import time_ns

from llmeval_sdk.config import Settings
from llmeval_sdk.plugins.sessions._turn_store import LONGEST_NS, MOST_TURNS
from llmeval_sdk.plugins.sessions.hosts.findings import findings as of_all_hosts
from llmeval_sdk.plugins.sessions.settings import SessionSettings
from llmeval_sdk.process import private
from llmeval_sdk.store.files import SESSIONS_SUFFIX, path_of


Finding = tuple[bool | None, str, str]
"""Whether it is well (``None``: neither well nor broken), what it is about, and a sentence."""
_MOST_NAMED = 5
_LATE_NS = 600 * 10**9
"""How long sessions may have been due before somebody is told that no process evaluates them."""


def findings(settings: Settings, *, offline: bool = False) -> Iterator[Finding]:
    """Say how the sessions of this host are, without making or changing a file.

    ``offline`` asks nobody about those of other hosts.
    """
    path = path_of(settings.store).with_suffix(SESSIONS_SUFFIX)
    if not path.exists():
        return
    idle = settings.of(SessionSettings).session_idle
    try:
        private.check_file(path, reading=True)
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
            yield from _of_file(database, str(path), idle)
            yield from of_all_hosts(settings, database, offline=offline)
    except (OSError, sqlite3.Error) as error:
        yield False, str(path), f"cannot be read: {error}. Sessions are kept in memory only"


def _of_file(database: sqlite3.Connection, path: str, idle: float) -> Iterator[Finding]:
    count = database.execute("SELECT count(*) FROM sessions").fetchone()[0]
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
