"""Runs code that blocks beside an event loop, and an event loop beside code that blocks."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from collections.abc import Callable, Coroutine
from itertools import count
from time import monotonic
from typing import Any, TypeVar

from llmeval_sdk.errors import JudgeError


T = TypeVar("T")
MAX_LEFT_BEHIND = 32
"""Calls that nobody waits for any more and that still run; with so many, none is begun."""
_left_behind: set[threading.Thread] = set()


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
            thread.join(max(0.0, deadline - monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self) -> None:
        if next(self._turns) == 0:
            self._threads.append(threading.current_thread())  # its start may have been interrupted
            self._work()


async def on_daemon_thread(function: Callable[..., T], *args: Any) -> T:
    """Call a blocking function on a daemon thread of its own and wait for it without blocking.

    An executor's threads keep the process from exiting while a call hangs; a daemon thread does
    not, and a cancelled wait just leaves it behind. Context variables are the caller's.

    Raises:
        JudgeError: 32 earlier calls were left behind and have not come back.
    """
    _left_behind.difference_update([each for each in [*_left_behind] if not each.is_alive()])
    if len(_left_behind) >= MAX_LEFT_BEHIND:
        raise JudgeError("timeout", f"{MAX_LEFT_BEHIND} earlier calls have not come back")
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            result = context.run(function, *args)
        except Exception as problem:
            error = problem
        except BaseException as problem:  # a SystemExit here must not end the loop
            error = RuntimeError(f"{type(problem).__name__} in a judge")
        else:
            return deliver(lambda: future.set_result(result))
        if isinstance(error, StopIteration):  # which no future may carry
            error = RuntimeError("StopIteration in a judge")
        return deliver(lambda: future.set_exception(error))

    def deliver(settle: Callable[[], None]) -> None:
        try:
            loop.call_soon_threadsafe(lambda: None if future.done() else settle())
        except RuntimeError:  # nobody waits any more: the loop is closed
            pass

    thread = _start_or_call(work)
    try:
        return await future
    except asyncio.CancelledError:
        if thread is not None:
            _left_behind.add(thread)
        raise


class DaemonLoop(asyncio.SelectorEventLoop):
    """An event loop whose default executor, such as for name lookups, never holds up the exit.

    The interpreter waits at exit for the threads of a usual one, and lets it take nothing more: a
    judge that starts then could not resolve its server's name.
    """

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Call a function on a daemon thread of its own, or on the executor that is given."""
        if executor is not None:
            return super().run_in_executor(executor, func, *args)
        return self.create_task(on_daemon_thread(func, *args))


def _start_or_call(work: Callable[[], None]) -> threading.Thread | None:
    """Do work on a daemon thread; at exit, when Python 3.12 and later start none, do it here."""
    thread = threading.Thread(target=work, name="llmeval-judge-call", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        work()
        return None
    return thread


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
