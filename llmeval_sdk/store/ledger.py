"""The shared budget file: one small text that all processes of a host change under one lock.

SQLite was chosen instead of a locked binary file because it is as fast here (50 µs a change),
survives a process that is killed in the middle, and behaves the same on Windows.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from llmeval_sdk.process import private
from llmeval_sdk.store.connection import Database


T = TypeVar("T")

_NOT_WRITABLE = (errno.EROFS, errno.EACCES, errno.EPERM)


class HostLedger:
    """Books next to the store, for `llmeval_sdk.evaluation.limiter` and the histories of fields.

    Opened when first used, and again after a fork, which closes it. Blocks for about ``timeout``
    seconds at most while other processes write, then raises ``sqlite3.OperationalError``. Where
    the folder cannot be written (a read-only disk), or others can write there, the books are kept
    in memory and `shared` is False. Any thread may use it.
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 0.5) -> None:
        self._path = Path(path)
        self._timeout = timeout
        self._database = Database(self._connect)
        self.shared = True
        """Whether other processes see these books, known after the first use."""

    def update(self, change: Callable[[str], tuple[str | None, T]], /) -> T:
        """Replace the text by what ``change`` returns (``None``: keep it); return the rest."""
        with self._database.use() as database:
            database.execute("BEGIN IMMEDIATE")
            try:
                (text,) = database.execute("SELECT text FROM books").fetchone()
                new, result = change(text)
                if new is not None:
                    database.execute("UPDATE books SET text = ?", (new,))
                    database.execute("COMMIT")
                return result
            finally:
                if database.in_transaction:
                    database.execute("ROLLBACK")

    def close(self) -> None:
        """Close the file; using the ledger again opens it again."""
        self._database.close()

    def _connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(
            self._place(), timeout=self._timeout, isolation_level=None, check_same_thread=False
        )
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                database.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError:  # SQLite does not wait for this lock by itself
                if time.monotonic() > deadline:
                    database.close()
                    raise
                time.sleep(0.002)
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute(
            "CREATE TABLE IF NOT EXISTS books (id INTEGER PRIMARY KEY CHECK (id = 1), text TEXT)"
        )
        database.execute("INSERT OR IGNORE INTO books VALUES (1, '')")
        return database

    def _place(self) -> Path | str:
        """Create the file, private and not through a link; otherwise stay in memory."""
        try:
            private.make_folder(self._path.parent)
            private.check_folder(self._path.parent.lstat(), shared=True)
            private.make_file(self._path)
            private.check_file(self._path)
        except OSError as error:
            if error.errno not in _NOT_WRITABLE:
                raise
            self.shared = False
            return ":memory:"
        self.shared = True
        return self._path
