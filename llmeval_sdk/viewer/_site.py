"""The shared parts of a viewer's pages: readers of the store, news, long work, and the menu.

Requests borrow readers. News of changes is sent to open pages as server-sent events and costs the
store next to nothing. While somebody watches, the viewer asks SQLite once a second whether another
connection has committed (``data_version``, one number in shared memory), and only then reads the
numbers of the newest rows. A stream ends by itself after some seconds and the browser opens the
next one, because servers such as uvicorn wait for open requests before they stop.

Work that takes longer than a page may goes on while the page says how far it is. A page starts a
task by a key and waits for it a moment. If it is not done by then, the page says how much of it is,
and the browser asks again every second. Tasks run one after another, so that several open pages
cost an app no more than one of its processors.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.offline.saved import SavedReports
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.store.files import path_of, refusal
from llmeval_sdk.store.filters import read_filter
from llmeval_sdk.store.reader import StoreReader, contents_of
from llmeval_sdk.store.selection import Selection
from llmeval_sdk.viewer._render import page, where_of


SELECTED_SECONDS = 30.0
"""How long the requests that a filter selects are remembered: to find them among a million spans
takes a second."""
MAX_SELECTIONS = 4
SECONDS = 5.0
"""The longest that one reading for a page may take. The file may come from a stranger, who could
have made it slow to read."""
PATIENT_SECONDS = 60.0
"""The same for a reading in the background."""
LARGE_STORE = 200_000
"""The figures of a store with more evaluations are counted in the background."""


class NoStoreError(Exception):
    """The store cannot be read, and the message says why; it is empty if there is no store yet."""


class Readers:
    """Lends read-only connections to one file, which may appear, vanish or be replaced meanwhile.

    If ``store`` is ``None``, the file is the one that this process writes at the time of each loan.
    """

    def __init__(self, store: str | os.PathLike[str] | None) -> None:
        self._chosen = None if store is None else path_of(store)
        self._closed = False
        self._lock = threading.Lock()
        self._idle: SimpleQueue[tuple[tuple[int, int], StoreReader]] = SimpleQueue()
        self._selections: OrderedDict[Hashable, tuple[float, Selection]] = OrderedDict()

    @property
    def path(self) -> Path:
        """Return where the store is now."""
        return self._chosen or path_of(runtime.settings().store)

    @contextmanager
    def lend(
        self, where: tuple[str, ...] = (), *, by: str | None = None, seconds: float | None = None
    ) -> Iterator[StoreReader]:
        """Lend a reader that nobody else uses meanwhile.

        With conditions in ``where``, it knows the requests of which they hold, and no others; with
        ``by`` they are in groups, as `Selection` makes them. One reading may take ``seconds``, by
        default `SECONDS`.

        Raises:
            NoStoreError: there is no store, or it cannot be read.
            HTTPException: a text is no condition or grouping.
        """
        file = self._file()
        is_own = bool(where or by) or seconds is not None
        selection = self._selected(file, where, by) if where or by else None
        reader = self._open(selection, seconds) if is_own else self._take(file)
        try:
            yield reader
        except sqlite3.DatabaseError as error:
            reader.close()
            raise self._failed(error, seconds) from error
        except BaseException:
            reader.close()
            raise
        if self._closed or is_own:
            reader.close()
        else:
            self._idle.put((file, reader))

    def _selected(
        self, file: tuple[int, int], where: tuple[str, ...], by: str | None = None
    ) -> Selection:
        """Return a selection of requests, which are looked for again after a while."""
        with self._lock:
            now, key = time.monotonic(), (file, where, by)
            for old, (found_at, _) in list(self._selections.items()):
                if now - found_at > SELECTED_SECONDS:
                    del self._selections[old]  # its file goes once no reader has it
            if key not in self._selections:
                try:
                    groups = () if by is None else (by,)
                    self._selections[key] = now, Selection(read_filter(where), groups)
                except ConfigurationError as error:
                    raise HTTPException(400, str(error)) from None
                if len(self._selections) > MAX_SELECTIONS:
                    self._selections.popitem(last=False)
            return self._selections[key][1]

    def _open(
        self, selection: Selection | None = None, seconds: float | None = None
    ) -> StoreReader:
        limit = SECONDS if seconds is None else seconds
        try:
            return StoreReader(self.path, seconds=limit, selection=selection)
        except ConfigurationError as error:
            raise NoStoreError(str(error)) from error
        except sqlite3.DatabaseError as error:
            raise self._failed(error, seconds) from error

    def _failed(self, error: sqlite3.DatabaseError, seconds: float | None) -> NoStoreError:
        limit = SECONDS if seconds is None else seconds
        return NoStoreError(f"{self.path} cannot be read: {_why(error, limit)}")

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
        return self._open()

    def check(self, where: tuple[str, ...]) -> None:
        """Raise what `lend` would raise if the store is missing or a text is no condition."""
        self._selected(self._file(), where)

    def close(self) -> None:
        """Close all readers: the idle ones now, and those on loan when they are returned."""
        self._closed = True
        self._selections.clear()
        with suppress(Empty):
            while True:
                self._idle.get_nowait()[1].close()


def _why(error: sqlite3.DatabaseError, seconds: float) -> str:
    if "interrupted" in str(error):
        return f"it took longer than {seconds:g} seconds"
    return str(error)


LOOK_SECONDS = 1.0
STREAM_SECONDS = 20.0
RETRY_MS = 1_000

_STATE = """
SELECT ifnull((SELECT max(seq) FROM main.spans), 0) || '.' ||
  ifnull((SELECT max(seq) FROM main.evaluations), 0) || '.' ||
  ifnull((SELECT max(seq) FROM main.not_run), 0) || '.' ||
  ifnull((SELECT max(seq) FROM main.feedback), 0)
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


T = TypeVar("T")
WAIT_SECONDS = 0.1
"""How long a page waits for a task."""
MAX_TASK_SECONDS = 300.0
"""How long a task may take."""
MAX_TASKS = 6
"""How many tasks are kept, those that wait and those with results; the oldest result makes way."""
LEFT_SECONDS = 15.0
"""How long a waiting task is kept that no page asks for, if there is no room for a newer one."""


class StoppedError(Exception):
    """A task took too long, or nobody needs it any more."""


class BusyError(Exception):
    """As many tasks as are kept are unfinished, so that another one finds no room."""


class BackgroundTask(Generic[T]):
    """One piece of work and how far it is.

    Args:
        work: is called with a function that it tells how many more units are done.
        total: how many units there are, if that is known.
        unit: what is counted, such as ``rows``.
    """

    def __init__(
        self, work: Callable[[Callable[[int], None]], T], total: int | None, unit: str
    ) -> None:
        self._work = work
        self._over = threading.Event()
        self._stopped = False
        self._until: float | None = None
        self._result: T | None = None
        self._error: Exception | None = None
        self.asked_at = time.monotonic()
        """When a page last asked for it."""
        self.is_spent = False
        """Whether the task failed and its error was shown; it is then of no more use."""
        self.total = total
        self.unit = unit
        self.count = 0

    def is_done(self, seconds: float) -> bool:
        """Wait for so long; return whether the task is over."""
        return self._over.wait(seconds)

    def result(self) -> T:
        """Return what the work returned, or raise what it raised; call it once it is done."""
        if self._error is not None:
            self.is_spent = True
            raise self._error
        return self._result  # type: ignore[return-value]

    def stop(self) -> None:
        """Have the task end the next time that it tells of its progress."""
        self._stopped = True

    def run(self) -> None:
        """Do the work on this thread."""
        self._until = time.monotonic() + MAX_TASK_SECONDS
        try:
            self._tick(0)
            self._result = self._work(self._tick)
        except Exception as error:
            self._error = error
        except BaseException as error:  # such as SystemExit, which must not pass for a result
            self._error = StoppedError(f"it ended with {type(error).__name__}")
        finally:
            self._over.set()

    def _tick(self, units: int) -> None:
        self.count += units
        if self._stopped:
            raise StoppedError("nobody needs it any more")
        if self._until is not None and time.monotonic() > self._until:
            raise StoppedError(f"it took longer than {MAX_TASK_SECONDS:.0f} seconds")


class Background:
    """The tasks of one viewer, each known by its key, and the one thread that does them.

    A task that has not ended keeps its place while pages ask for it; a result makes way for a newer
    task.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tasks: OrderedDict[Hashable, BackgroundTask[Any]] = OrderedDict()
        self._running: BackgroundTask[Any] | None = None
        self._is_working = False

    def start(
        self,
        key: Hashable,
        work: Callable[[Callable[[int], None]], T],
        *,
        total: int | None = None,
        unit: str = "rows",
    ) -> BackgroundTask[T]:
        """Return the task with this key, which is started unless it was started before.

        Raises:
            BusyError: it would be a new task, and all that are kept are unfinished.
        """
        with self._lock:
            task: BackgroundTask[T] | None = self._tasks.get(key)
            if task is not None and not task.is_spent:
                task.asked_at = time.monotonic()
                if task.is_done(0):
                    self._tasks.move_to_end(key)
                return task
            self._tasks.pop(key, None)
            self._make_room()
            if not self._is_working:
                threading.Thread(target=self._run, name="llmeval-view", daemon=True).start()
                self._is_working = True
            task = self._tasks[key] = BackgroundTask(work, total, unit)
        return task

    def close(self) -> None:
        """Have all tasks end soon."""
        with self._lock:
            for task in self._tasks.values():
                task.stop()

    def _make_room(self) -> None:
        """Forget the oldest result, else a task that its page has left, if there is no room."""
        if len(self._tasks) < MAX_TASKS:
            return
        left = time.monotonic() - LEFT_SECONDS
        over = [key for key, task in self._tasks.items() if task.is_done(0)]
        waiting = [key for key, task in self._tasks.items() if task is not self._running]
        keys = over or [key for key in waiting if self._tasks[key].asked_at < left]
        if not keys:
            raise BusyError(f"{MAX_TASKS} pages are being read already; try again in a moment")
        task = self._tasks.pop(keys[0])
        if not task.is_done(0):
            task.stop()
            task.run()  # It only ends, for whoever still holds it.

    def _run(self) -> None:
        """Do the tasks one after another, and end when none is left."""
        while True:
            with self._lock:
                waiting = (task for task in self._tasks.values() if not task.is_done(0))
                task = self._running = next(waiting, None)
                if task is None:
                    self._is_working = False
                    return
            task.run()


def counting_page(request: Request, title: str, task: BackgroundTask[Any]) -> Response:
    """Answer that a task is still at work; the browser asks again in a second."""
    return page(request, "counting.html", title=title, task=task, problem="", state="")


def read_aside(
    request: Request, title: str, read: Callable[[StoreReader], T], unit: str
) -> T | Response:
    """Read what a page shows. For a large store or under a filter, this is done in the background.

    The result is then kept for a while. If reading takes longer than a page may, the page that says
    so is returned instead.
    """
    site: Site = request.app.state.site
    where = where_of(request)

    def work(_: Callable[[int], None]) -> tuple[float, T]:
        with site.readers.lend(where, seconds=PATIENT_SECONDS) as reader:
            found = read(reader)
        return time.monotonic(), found

    if not where:
        with site.readers.lend() as reader:
            if reader.read(_count_of_rows) <= LARGE_STORE:
                return read(reader)
    site.readers.check(where)
    key = (request.url.path, request.query_params.get("range"), site.readers.path, where)
    task = site.background.start(key, work, unit=unit)
    if task.is_done(0) and time.monotonic() - task.result()[0] > SELECTED_SECONDS:
        task.is_spent = True
        task = site.background.start(key, work, unit=unit)
    return task.result()[1] if task.is_done(WAIT_SECONDS) else counting_page(request, title, task)


def _count_of_rows(connection: sqlite3.Connection) -> int:
    """Return how many spans or evaluations were ever stored, which is there without counting."""
    return max(
        int(connection.execute(f"SELECT ifnull(max(seq), 0) FROM main.{table}").fetchone()[0])  # noqa: S608
        for table in ("spans", "evaluations")
    )


def busy_page(request: Request, error: Exception) -> Response:
    """Answer that there is no room for a task; the browser tries again in a second."""
    return page(request, "counting.html", 503, title="Busy", problem=str(error), state="")


_NEEDS = {
    "/sessions": "sessions", "/scores": "scores", "/versions": "versions", "/label": "verdicts",
    "/review": "doubtful",
}  # fmt: skip
_OF_LABELS = ("/label", "/review")


class SavedReportsBeside:
    """The saved reports of offline runs, by default beside the store, wherever that is now."""

    def __init__(self, readers: Readers, folder: str | os.PathLike[str] | None) -> None:
        self._readers = readers
        self._chosen = None if folder is None else Path(folder)
        self._reports: SavedReports | None = None

    def now(self) -> SavedReports:
        """Return the reports of the folder."""
        folder = self._chosen or self._readers.path.with_name("reports")
        if self._reports is None or self._reports.folder != folder:
            self._reports = SavedReports(folder)
        return self._reports


class Menu:
    """Knows the pages that have something to show. What was there once is not looked for again."""

    def __init__(self, readers: Readers, reports: SavedReportsBeside, *, labels: bool) -> None:
        self._readers = readers
        self._reports = reports
        self._needs = {
            path: need for path, need in _NEEDS.items() if labels or path not in _OF_LABELS
        }
        self._held: set[str] = set()

    def pages(self) -> set[str]:
        """Return the paths of the pages beside traces and overview that have something to show."""
        missing = set(self._needs.values()) - self._held
        with suppress(NoStoreError):
            if missing:
                with self._readers.lend() as reader:
                    self._held |= reader.read(lambda store: contents_of(store, missing))
        there = {path for path, need in self._needs.items() if need in self._held}
        has_reports = self._reports.now().has_any()
        return there | ({"/experiments"} if has_reports else set())


@dataclass(frozen=True, slots=True)
class Site:
    """The objects that all pages of one viewer share."""

    readers: Readers
    watch: Watch
    feedback: bool
    background: Background
    menu: Menu
    reports: SavedReportsBeside
