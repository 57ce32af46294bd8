"""News for open pages, by server-sent events, for next to nothing on the store.

While somebody watches, one look a second asks SQLite whether another connection has committed
(``data_version``, one number in shared memory); only then are the newest rows' numbers read.
A stream ends by itself after some seconds, and the browser opens the next: servers that wait for
open requests before they stop, as uvicorn does, need not wait long.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import AsyncIterator

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.viewer._readers import NoStoreError, Readers


LOOK_SECONDS = 1.0
STREAM_SECONDS = 20.0
RETRY_MS = 1_000

_STATE = """
SELECT ifnull((SELECT max(seq) FROM spans), 0) || '.' ||
  ifnull((SELECT max(seq) FROM evaluations), 0) || '.' ||
  ifnull((SELECT max(seq) FROM not_run), 0) || '.' || ifnull((SELECT max(seq) FROM feedback), 0)
"""


def state(connection: sqlite3.Connection) -> str:
    """Return a text that changes whenever a record arrives."""
    return str(connection.execute(_STATE).fetchone()[0])


class Watch:
    """Looks at one store while anybody waits for news of it."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers
        self._version: tuple[StoreReader, int] | None = None
        self._state = ""
        self._looked = 0.0
        self._looking: asyncio.Lock | None = None
        self._stopped = False

    def stop(self) -> None:
        """Let whoever waits go."""
        self._stopped = True

    async def changed(self, known: str, *, deadline: float) -> str | None:
        """Wait until the state is another one than ``known``; ``None`` at the deadline."""
        while not self._stopped:
            if (now := await self._now()) != known:
                return now
            if time.monotonic() + LOOK_SECONDS > deadline:
                break
            await asyncio.sleep(LOOK_SECONDS)
        return None

    async def _now(self) -> str:
        """Return the state, at most a second old: many streams share one look."""
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
                    self._state = reader.read(state)
                    self._version = version
        except NoStoreError:
            self._state = ""


def _data_version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA data_version").fetchone()[0])


async def stream(request: Request) -> Response:
    """Answer with a stream of events, one whenever the store has changed."""
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
