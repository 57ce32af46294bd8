"""Opens the store's file, and decides who may read it and what makes it unusable."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
from pathlib import Path

from llmeval_sdk.process import private
from llmeval_sdk.store import _schema, texts
from llmeval_sdk.store.connection import connect


STATEMENT_WAIT_SECONDS = 0.02
"""How long SQLite itself waits for another process's lock; longer waits happen between statements.
"""
READ_WAIT_MS = 5_000
WAL_BYTES = 16 << 20
CACHE_KIB = 8_000
LONGEST_VALUE = 64 << 20
"""Bytes of the longest text or row that is read."""
LIMIT_LENGTH = 0
"""SQLITE_LIMIT_LENGTH, which Python has a name for from 3.11 on."""


class Unusable(Exception):  # noqa: N818 - a state, not a mistake
    """The file cannot be used as the store; the message says why."""


def path_of(store: str | os.PathLike[str]) -> Path:
    """Return the absolute path of a store, ``~`` expanded."""
    return private.absolute(store)


def is_locked(error: BaseException) -> bool:
    """Say whether another process holds the lock, so that trying again may help."""
    return isinstance(error, sqlite3.OperationalError) and "locked" in str(error)


def open_file(path: Path) -> sqlite3.Connection:
    """Open the store for writing. If need be, it is created or brought forward.

    Raises `Unusable`, or `sqlite3.OperationalError` while other processes hold the file.
    """
    try:
        _create(path)
        connection = _prepared(_connect(str(path)))
        try:
            private.check_file(path)  # again, because the log beside it was made or read just now
        except OSError:
            connection.close()
            raise
        return connection  # noqa: TRY300
    except (OSError, sqlite3.Error, _schema.SchemaError) as error:
        if is_locked(error):
            raise
        raise Unusable(_reason(error)) from error


def open_anchor(path: Path) -> sqlite3.Connection | None:
    """Open a connection that only keeps the file open; return ``None`` if that is not possible."""
    connection = None
    try:
        connection = _connect(f"{path.as_uri()}?mode=ro", uri=True)
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
    except sqlite3.Error:
        if connection is not None:
            connection.close()
        return None
    return connection


def open_memory(uri: str) -> sqlite3.Connection:
    """Open the stand-in for a file that cannot be written."""
    return _prepared(_connect(uri, uri=True))


def open_read_only(location: str | os.PathLike[str]) -> sqlite3.Connection:
    """Open a store, or the URI of a stand-in, for reading only; raises `Unusable`."""
    text = os.fspath(location)
    try:
        if text.startswith("file:"):
            return _readable(_connect(text, uri=True))
        path = path_of(location)
        if not path.is_file():
            refused = refusal(path)
            also = f", and none is made: {refused}" if refused else ""
            raise Unusable(f"there is no such file{also}")
        private.reclaim(path.parent)
        private.check_file(path, reading=True)
        try:
            return _readable(_connect(f"{path.as_uri()}?mode=ro", uri=True))
        except sqlite3.OperationalError as error:
            if "open" not in str(error) and "readonly" not in str(error):
                raise
            # WAL needs a writable folder; if this one is not, nobody else writes there either
            return _readable(_connect(f"{path.as_uri()}?immutable=1", uri=True))
    except (OSError, sqlite3.Error, _schema.SchemaError) as error:
        raise Unusable(_reason(error)) from error


def _readable(connection: sqlite3.Connection) -> sqlite3.Connection:
    try:
        connection.execute(f"PRAGMA busy_timeout = {READ_WAIT_MS}").fetchall()
        connection.execute("PRAGMA read_uncommitted = 1")  # tells only where a cache is shared
        if hasattr(connection, "setlimit"):
            connection.setlimit(LIMIT_LENGTH, LONGEST_VALUE)
        if not _schema.STORE.version_of(connection):
            raise _schema.EmptyError("it holds nothing yet")  # noqa: TRY301
        _schema.STORE.refuse_programs(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _connect(database: str, *, uri: bool = False) -> sqlite3.Connection:
    connection = connect(
        database,
        timeout=STATEMENT_WAIT_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=64,
        uri=uri,
    )
    texts.add_functions(connection)
    return connection


def _prepared(connection: sqlite3.Connection) -> sqlite3.Connection:
    try:
        version = _schema.STORE.version_of(connection)  # before anything is altered
        for pragma in (
            *(() if version else ("auto_vacuum = INCREMENTAL",)),  # which tables make final
            "journal_mode = WAL",
            "synchronous = NORMAL",
            f"journal_size_limit = {WAL_BYTES}",
            f"wal_autocheckpoint = {WAL_BYTES >> 12}",
            f"cache_size = -{CACHE_KIB}",
        ):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        if version < _schema.STORE.version:
            _schema.STORE.migrate(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def make_folder(folder: Path) -> None:
    """Create the folder for a file that users asked for: 0700, and not in a repository.

    Raises OSError if it cannot be created.
    """
    if private.make_folder(folder):
        with contextlib.suppress(OSError):
            ignored = folder / ".gitignore"
            if private.make_file(ignored):
                ignored.write_text("*\n", "utf-8")


def refusal(path: Path) -> str | None:
    """Say why a store is not written there: other users could read or replace it."""
    try:
        private.reclaim(path.parent)
        if path.parent.is_dir():
            private.check_folder(path.parent.lstat(), shared=True)
        private.check_file(path)
    except OSError as error:
        return _reason(error) if error.errno in (errno.EPERM, errno.ELOOP) else None
    return None


def _create(path: Path) -> None:
    """Create the file with mode 0600, in a 0700 folder of its own if the folder is missing.

    Raises OSError, also if other users could have put something there or could change it.
    """
    make_folder(path.parent)
    private.check_folder(path.parent.lstat(), shared=True)
    private.make_file(path)
    private.check_file(path)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return str(error)
