"""Work that takes longer than a page may: it goes on while the page says how far it is.

A page starts a task by a key and waits for it a moment. If it is not done by then, the page says
how much of it is, and the browser asks again every second. Tasks run one after another, so that
several open pages cost an app no more than one of its processors.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from llmeval_sdk.viewer._render import page


T = TypeVar("T")
WAIT_SECONDS = 0.1
"""How long a page waits for a task."""
MOST_SECONDS = 300.0
"""How long a task may take."""
MOST_TASKS = 6
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
        self._until = time.monotonic() + MOST_SECONDS
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
            raise StoppedError(f"it took longer than {MOST_SECONDS:.0f} seconds")


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
        if len(self._tasks) < MOST_TASKS:
            return
        left = time.monotonic() - LEFT_SECONDS
        over = [key for key, task in self._tasks.items() if task.is_done(0)]
        waiting = [key for key, task in self._tasks.items() if task is not self._running]
        keys = over or [key for key in waiting if self._tasks[key].asked_at < left]
        if not keys:
            raise BusyError(f"{MOST_TASKS} pages are being read already; try again in a moment")
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


def busy_page(request: Request, error: Exception) -> Response:
    """Answer that there is no room for a task; the browser tries again in a second."""
    return page(request, "counting.html", 503, title="Busy", problem=str(error), state="")
