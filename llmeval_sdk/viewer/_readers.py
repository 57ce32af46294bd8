"""Readers of the store that requests share: each has one to itself while it needs it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue

from llmeval_sdk import runtime
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.store.files import path_of, refusal
from llmeval_sdk.store.reader import StoreReader


SECONDS = 5.0
"""How long one reading for a page may take: a store is a file, and may come from anybody."""


class NoStoreError(Exception):
    """There is nothing to show yet, or nothing that can be read; the message says which."""


class Readers:
    """Lends read-only connections to one file, which may come, go or be replaced meanwhile.

    Without a ``store`` it is the one that this process writes, wherever that is by then.
    """

    def __init__(self, store: str | os.PathLike[str] | None) -> None:
        self._chosen = None if store is None else path_of(store)
        self._closed = False
        self._idle: SimpleQueue[tuple[tuple[int, int], StoreReader]] = SimpleQueue()

    @property
    def path(self) -> Path:
        """Where the store is."""
        return self._chosen or path_of(runtime.settings().store)

    @contextmanager
    def lend(self) -> Iterator[StoreReader]:
        """Lend a reader; raises `NoStoreError` where there is no store."""
        file = self._file()
        reader = self._take(file)
        try:
            yield reader
        except sqlite3.DatabaseError as error:
            reader.close()
            raise NoStoreError(f"{self.path} cannot be read: {_why(error)}") from error
        except BaseException:
            reader.close()
            raise
        if self._closed:
            reader.close()
        else:
            self._idle.put((file, reader))

    def _file(self) -> tuple[int, int]:
        try:
            found = self.path.stat()
        except OSError:
            refused = refusal(self.path)
            raise NoStoreError(
                f"{self.path} is not written: {refused}" if refused else ""
            ) from None
        return found.st_dev, found.st_ino

    def _take(self, file: tuple[int, int]) -> StoreReader:
        while True:
            try:
                of_file, reader = self._idle.get_nowait()
            except Empty:
                break
            if of_file == file:
                return reader
            reader.close()
        try:
            return StoreReader(self.path, seconds=SECONDS)
        except ConfigurationError as error:
            raise NoStoreError(str(error)) from error

    def close(self) -> None:
        """Close them all, those that are lent when they come back."""
        self._closed = True
        with suppress(Empty):
            while True:
                self._idle.get_nowait()[1].close()


def _why(error: sqlite3.DatabaseError) -> str:
    if "interrupted" in str(error):
        return f"it took longer than {SECONDS:g} seconds"
    return str(error)
