"""Runs code that blocks beside an event loop, and an event loop beside code that blocks."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any, TypeVar

from llmeval_sdk.process.due import left
from llmeval_sdk.process.helper_threads import HelperThreads


T = TypeVar("T")
MAX_LOOKUPS = 32
"""How many name lookups may be abandoned at a time: more than calls of the app's code, because each
comes back after the resolver's own timeout, and hosts that can be resolved must not wait for it."""


class OneThread:
    """A daemon thread that does its work once, however often and from wherever it is started.

    It has no lock, because a signal handler or a finaliser may call `start` in the middle of
    another `start`. Several threads may then begin; the first one works and the others end at once.
    """

    def __init__(self, work: Callable[[], None], *, name: str) -> None:
        self._work = work
        self._name = name
        self._turns = count()
        self._threads: list[threading.Thread] = []

    def start(self) -> bool:
        """Start the thread unless it was started; False where Python can start none."""
        if not self._threads:
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return bool(self._threads)
            self._threads.append(thread)
        return True

    def join(self, deadline: float) -> bool:
        """Wait for the thread until a monotonic deadline; True if it has ended or never began."""
        for thread in self._threads:
            thread.join(left(deadline))
        return not any(thread.is_alive() for thread in self._threads)

    def _run(self) -> None:
        if next(self._turns) == 0:
            self._threads.append(threading.current_thread())  # `start` may have been interrupted
            self._work()


class DaemonLoop(asyncio.SelectorEventLoop):
    """An event loop that runs what has no executor of its own, such as name lookups, on daemons.

    At exit the interpreter waits for the threads of the usual executor and lets it take no further
    work, so that a judge that starts during the exit could not resolve the name of its server.
    """

    def __init__(self, selector: Any = None) -> None:
        super().__init__(selector)
        self._lookups = HelperThreads("name lookup", MAX_LOOKUPS)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Call a function on a daemon thread, or on ``executor`` where there is one."""
        if executor is not None:
            return super().run_in_executor(executor, func, *args)
        return self.create_task(self._lookups.call_async(func, *args))


def run(start: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine from plain code and wait for it, even inside a running loop (a notebook)."""
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
    """Await a call for at most this many seconds; raises ``asyncio.TimeoutError`` after them.

    Before Python 3.12 ``wait_for`` wraps the call in a task, which runs only after everything that
    is ready now. Of 32 calls none then begins before all have given up their connections, and the
    client's pool looks through 32 idle ones for each call.
    """
    if sys.version_info >= (3, 11):
        async with asyncio.timeout(seconds):
            return await call
    return await asyncio.wait_for(call, seconds)
