"""How pages reach the store: readers that requests borrow, and news of changes for open pages.

News is sent as server-sent events and costs the store next to nothing. While somebody watches, the
viewer asks SQLite once a second whether another connection has committed (``data_version``, one
number in shared memory), and only then reads the numbers of the newest rows. A stream ends by
itself after some seconds and the browser opens the next one, because servers such as uvicorn wait
for open requests before they stop.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.store.files import path_of, refusal
from llmeval_sdk.store.reader import StoreReader


SECONDS = 5.0
"""The longest that one reading for a page may take. The file may come from a stranger, who could
have made it slow to read."""


class NoStoreError(Exception):
    """The store cannot be read, and the message says why; it is empty if there is no store yet."""


class Readers:
    """Lends read-only connections to one file, which may appear, vanish or be replaced meanwhile.

    If ``store`` is ``None``, the file is the one that this process writes at the time of each loan.
    """

    def __init__(self, store: str | os.PathLike[str] | None) -> None:
        self._chosen = None if store is None else path_of(store)
        self._closed = False
        self._idle: SimpleQueue[tuple[tuple[int, int], StoreReader]] = SimpleQueue()

    @property
    def path(self) -> Path:
        """Return where the store is now."""
        return self._chosen or path_of(runtime.settings().store)

    @contextmanager
    def lend(self) -> Iterator[StoreReader]:
        """Lend a reader that nobody else uses meanwhile.

        Raises:
            NoStoreError: there is no store, or it cannot be read.
        """
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
            status = self.path.stat()
        except OSError:
            refused = refusal(self.path)
            raise NoStoreError(
                f"{self.path} is not written: {refused}" if refused else ""
            ) from None
        return status.st_dev, status.st_ino

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
        """Close all readers: the idle ones now, and those on loan when they are returned."""
        self._closed = True
        with suppress(Empty):
            while True:
                self._idle.get_nowait()[1].close()


def _why(error: sqlite3.DatabaseError) -> str:
    if "interrupted" in str(error):
        return f"it took longer than {SECONDS:g} seconds"
    return str(error)


LOOK_SECONDS = 1.0
STREAM_SECONDS = 20.0
RETRY_MS = 1_000

_STATE = """
SELECT ifnull((SELECT max(seq) FROM spans), 0) || '.' ||
  ifnull((SELECT max(seq) FROM evaluations), 0) || '.' ||
  ifnull((SELECT max(seq) FROM not_run), 0) || '.' || ifnull((SELECT max(seq) FROM feedback), 0)
"""


def state_of(connection: sqlite3.Connection) -> str:
    """Return a text that changes whenever a record arrives."""
    return str(connection.execute(_STATE).fetchone()[0])


class Watch:
    """Looks at the store, at most once a second, while somebody waits for news of it."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers
        self._version: tuple[StoreReader, int] | None = None
        self._state = ""
        self._looked = 0.0
        self._looking: asyncio.Lock | None = None
        self._stopped = False

    def stop(self) -> None:
        """End all waiting; `changed` then returns ``None`` within a second."""
        self._stopped = True

    async def changed(self, known: str, *, deadline: float) -> str | None:
        """Wait until the state differs from ``known`` and return it; ``None`` at the deadline."""
        while not self._stopped:
            if (now := await self._now()) != known:
                return now
            if time.monotonic() + LOOK_SECONDS > deadline:
                break
            await asyncio.sleep(LOOK_SECONDS)
        return None

    async def _now(self) -> str:
        """Return the state, at most a second old, so that all streams share one look."""
        self._looking = self._looking or asyncio.Lock()
        async with self._looking:
            if time.monotonic() - self._looked >= LOOK_SECONDS / 2:
                await run_in_threadpool(self._look)
                self._looked = time.monotonic()
        return self._state

    def _look(self) -> None:
        try:
            with self._readers.lend() as reader:
                version = reader, reader.read(_data_version)
                if version != self._version:
                    self._state = reader.read(state_of)
                    self._version = version
        except NoStoreError:
            self._state = ""


def _data_version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA data_version").fetchone()[0])


async def stream(request: Request) -> Response:
    """Answer with a stream that holds one event for each change of the store."""
    known = request.headers.get("last-event-id") or request.query_params.get("state", "")
    news = _news(request.app.state.site.watch, known)
    return StreamingResponse(news, media_type="text/event-stream")


async def _news(watch: Watch, known: str) -> AsyncIterator[str]:
    yield f"retry: {RETRY_MS}\n\n"
    deadline = time.monotonic() + STREAM_SECONDS
    while (now := await watch.changed(known, deadline=deadline)) is not None:
        spans = _spans(now) - _spans(known)
        yield f"id: {now}\nevent: change\ndata: {json.dumps({'spans': max(spans, 0)})}\n\n"
        known = now


def _spans(state: str) -> int:
    number = state.partition(".")[0]
    return int(number) if number.isdecimal() else 0
