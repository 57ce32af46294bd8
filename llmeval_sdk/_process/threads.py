"""Runs code that blocks beside an event loop, and an event loop beside code that blocks."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any, TypeVar

from llmeval_sdk._process.aside import Aside
from llmeval_sdk._process.due import left


T = TypeVar("T")
MAX_LOOKUPS = 32
"""Name lookups that may be abandoned at a time. They are no code of the app: a resolver that is
down answers each of them after a while, and hosts that can be resolved must not wait for that."""


class OneThread:
    """A daemon thread that does its work once, however often and from wherever it is started.

    It needs no lock: a finaliser or a signal handler may start it in the middle of a start. Of
    several threads that were started so, only the first works; the others end at once.
    """

    def __init__(self, work: Callable[[], None], *, name: str) -> None:
        self._work = work
        self._name = name
        self._turns = count()
        self._threads: list[threading.Thread] = []

    def start(self) -> bool:
        """Start it if it is not; False where no thread can start: at exit, or none is left."""
        if not self._threads:
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return bool(self._threads)
            self._threads.append(thread)
        return True

    def join(self, deadline: float) -> bool:
        """Wait for its end until a monotonic deadline; say whether it ended, or never began."""
        for thread in self._threads:
            thread.join(left(deadline))
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self) -> None:
        if next(self._turns) == 0:
            self._threads.append(threading.current_thread())  # its start may have been interrupted
            self._work()


class DaemonLoop(asyncio.SelectorEventLoop):
    """An event loop whose default executor, such as for name lookups, never holds up the exit.

    The interpreter waits at exit for the threads of a usual one, and lets it take nothing more: a
    judge that starts then could not resolve its server's name.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lookups = Aside("name lookup", MAX_LOOKUPS)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Call a function on a daemon thread, or on the executor that is given."""
        if executor is not None:
            return super().run_in_executor(executor, func, *args)
        return self.create_task(self._lookups.call_async(func, *args))


def run(start: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end from plain code, even inside a running loop (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(start())
    results: list[T] = []
    errors: list[BaseException] = []
    context = contextvars.copy_context()

    def work() -> None:
        try:
            results.append(context.run(asyncio.run, start()))
        except BaseException as problem:
            errors.append(problem)

    thread = threading.Thread(target=work, name="llmeval-judge-call", daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


async def within(seconds: float, call: Coroutine[Any, Any, T]) -> T:
    """Await a call for at most so long; raises ``asyncio.TimeoutError``.

    Before Python 3.12 ``wait_for`` makes a task of it, which gives the turn to everybody else
    first: 32 calls in a row then find 32 idle connections, and the pool looks at each of them.
    """
    if sys.version_info >= (3, 11):
        async with asyncio.timeout(seconds):
            return await call
    return await asyncio.wait_for(call, seconds)
