"""Connections to SQLite that nobody traces and that are closed before a fork.

SQLite must not be open across a fork. A child that opens the same file inherits the library's
record of locks that it does not hold, and its commits vanish when the parent closes the file. So a
fork waits a moment until no statement runs and then closes the connection; parent and child each
open their own when they next need one. If a statement ran on, the child never touches the file
(`Inherited`).
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llmeval_sdk.process.forks import after_in_child
from llmeval_sdk.process.loading import loading


FORK_WAIT_SECONDS = 0.5
"""How long a fork waits for a statement to end. Statements take milliseconds, and only creating the
file takes longer, when the disk is busy."""


class Connection(sqlite3.Connection):
    """A connection that its own functions in SQL can refer to weakly."""


def connect(database: str | os.PathLike[str], **options: Any) -> sqlite3.Connection:
    """Connect to a database, unseen by whatever traces the app's own ones.

    ddtrace and OpenTelemetry replace `sqlite3.connect`. What it calls they leave alone: through it,
    each statement of the store would be a span of the app's, which is billed and stored again.
    """
    return Connection(database, **options)


Opener = Callable[[], sqlite3.Connection]
Anchor = Callable[[], sqlite3.Connection | None]


class Inherited(Exception):  # noqa: N818 - a state, not a mistake
    """This process was forked while its parent used the file."""


class Database:
    """One lazily opened connection, used by one thread at a time.

    ``anchor`` opens a second, read-only connection to the same file. While it is open, closing
    the first one does not copy the log into the file and wait for the disk, so that a fork costs
    microseconds.
    """

    def __init__(
        self, opener: Opener, *, anchor: Anchor = lambda: None, in_memory: bool = False
    ) -> None:
        self._opener = opener
        self._open_anchor = anchor
        self._anchor: sqlite3.Connection | None = None
        self._in_memory = in_memory
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._pid = os.getpid()
        self._inherited = False
        self._held_for_fork = False
        self._fork_waits = False
        self.forks = False
        """Whether this process, or the one it was forked from, has forked with the file in use.
        Work is then done in smaller pieces, since forks wait for each and then reopen the file."""
        _databases[:] = [ref for ref in _databases if ref() is not None]
        _databases.append(weakref.ref(self))

    @contextmanager
    def use(self) -> Iterator[sqlite3.Connection]:
        """Lend the connection, for a few milliseconds only, because a fork may be waiting.

        Raises:
            Inherited: this process is a child that must not open the file.
            Exception: whatever opening the file raises.
        """
        if os.getpid() != self._pid:
            self._in_child()
        opened = False
        while True:
            with self._turn():
                if self._inherited:
                    raise Inherited
                missing = self._connection is None
                if missing:
                    self._connection = self._opener()
                    self._anchor = self._open_anchor()
                if (
                    missing and not opened
                ):  # opening takes as long as a transaction, so a fork may go next
                    opened = True
                    continue
                assert self._connection is not None
                yield self._connection
                return

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Hold the lock, but let a waiting fork go first, because the lock itself is not fair."""
        deadline = time.monotonic() + FORK_WAIT_SECONDS
        while self._fork_waits and time.monotonic() < deadline:
            time.sleep(0.0005)
        with self._lock:
            yield

    def close(self) -> None:
        """Close this process's own connection; the next use opens another."""
        if os.getpid() != self._pid:
            self._in_child()
        with self._lock:
            self._close(self._anchor, self._connection)

    def _close(self, *in_order: sqlite3.Connection | None) -> None:
        self._connection = self._anchor = None
        for connection in in_order:
            if connection is not None:
                connection.close()

    def _before_fork(self, deadline: float) -> None:
        self._fork_waits = True
        wait = max(0.0, deadline - time.monotonic())
        self._held_for_fork = self._lock.acquire(timeout=wait)
        if self._held_for_fork and not self._in_memory:
            self.forks = self.forks or self._connection is not None
            self._close(self._connection, self._anchor)

    def _in_parent(self) -> None:
        self._fork_waits = False
        if self._held_for_fork:
            self._held_for_fork = False
            self._lock.release()

    def _in_child(self) -> None:
        in_use = self._lock.locked() and not self._held_for_fork
        self._pid = os.getpid()
        self._held_for_fork = self._fork_waits = False
        self._lock = threading.Lock()
        left = [c for c in (self._connection, self._anchor) if c is not None]
        self._connection = self._anchor = None
        for connection in left:
            _leak(connection)
        if (in_use or left) and not self._in_memory:
            self._inherited = True


def _leak(connection: sqlite3.Connection) -> None:
    """Never close an inherited connection, because closing it would undo the parent's writes."""
    _leaked.append(connection)
    try:
        import ctypes

        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
    except Exception:  # without ctypes, the list keeps it until the interpreter ends
        return


_databases: list[weakref.ref[Database]] = []
_leaked: list[sqlite3.Connection] = []


def _all() -> list[Database]:
    return [database for ref in tuple(_databases) if (database := ref()) is not None]


def _before_fork() -> None:
    deadline = time.monotonic() + FORK_WAIT_SECONDS
    for database in _all():
        try:
            database._before_fork(deadline)
        except Exception:  # noqa: S112
            continue


def _after_fork_in_parent() -> None:
    for database in _all():
        database._in_parent()


def _after_fork_in_child() -> None:
    for database in _all():
        database._in_child()


loading.at_fork(before=_before_fork, after=_after_fork_in_parent)
after_in_child(_after_fork_in_child)
