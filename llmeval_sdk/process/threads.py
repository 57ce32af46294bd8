"""Our threads and event loops, and code of the app on a thread beside ours, with a deadline.

Python cannot stop a thread. A call that misses its deadline is therefore *abandoned*: nobody waits
for it any more, its result is thrown away, and its thread runs on until the call returns. All code
of the app that may hang is run this way:

===========================  ======================  ==============================================
what runs aside              who waits               deadline
===========================  ======================  ==============================================
own heuristics               the worker              5 s for a record; once the process ends,
                                                     0.2 s, halved by each call that misses it
``redact=``                  the worker              2 s for a record
judges that are plain        the judges' event loop  ``judge_timeout``
functions
judge models and decision    the judges' event loop  that of the judgement
models that are plain
functions
===========================  ======================  ==============================================

- **Threads.** They are daemons, so that none of them ever holds up the end of the process. A thread
  that has answered is kept for the next call, and ends after two idle seconds. At the end of the
  process, when Python starts no thread any more, a call that a thread waits for is refused; a call
  that an event loop waits for runs on the loop's own thread, which is a daemon too.
- **How many calls are abandoned.** At most `MAX_ABANDONED` of one function. The function is then
  not called again until one of them comes back. Calls of a judge that are under way at that moment
  may still be abandoned, so a judge leaves fewer than ``MAX_ABANDONED`` plus ``judge_concurrency``
  threads behind.
- **Slow code that does come back.** Each missed deadline holds up the thread that waits. A function
  that has missed `MAX_ABANDONED` deadlines in a row is therefore not called for `REST_FACTOR` times
  as long as the thread waited, so that it costs at most a tenth of that thread's time. Waiting in
  an event loop holds up nobody, so there no function rests.
- **What is reported.** ``stats().problems`` counts ``<site>: abandoned`` and ``<site>: refused``,
  and the log has at most one line a minute for each site.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, TypeVar

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.process.forks import after_in_child
from llmeval_sdk.process.loading import loading
from llmeval_sdk.process.shield import caught, tell


T = TypeVar("T")
MAX_LOOKUPS = 32
"""How many name lookups may be abandoned at a time: more than calls of the app's code, because each
comes back after the resolver's own timeout, and hosts that can be resolved must not wait for it."""


class DaemonLoop(asyncio.SelectorEventLoop):
    """An event loop that runs what has no executor of its own, such as name lookups, on daemons.

    At exit the interpreter waits for the threads of the usual executor and lets it take no further
    work, so that a judge that starts during the exit could not resolve the name of its server.
    """

    def __init__(self, selector: Any = None) -> None:
        try:
            super().__init__(selector)
        except BaseException:
            self._closed = True  # else its finaliser would close what it does not have
            raise
        self._lookups = HelperThreads("name lookup", MAX_LOOKUPS, loads=False)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Call a function on a daemon thread, or on ``executor`` where there is one."""
        if executor is not None:
            return super().run_in_executor(executor, func, *args)
        return self.create_task(self._lookups.call_async(func, *args))


def run(start: Callable[[], Coroutine[object, object, T]]) -> T:
    """Run a coroutine from plain code and wait for it, even inside a running loop (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(start())
    answered = threading.Event()
    call = _AppCall(lambda: asyncio.run(start()), (), answered.set)
    if not call.begin():
        raise RuntimeError("no thread can be started")
    answered.wait()
    if call.error is not None:
        raise call.error
    return call.value  # type: ignore[no-any-return]


def in_background(function: Callable[..., object], *args: object) -> bool:
    """Call a function on a helper thread and wait for nothing; False where no thread starts."""
    return _AppCall(function, args, lambda: None).begin()


async def within(seconds: float, call: Coroutine[object, object, T]) -> T:
    """Await a call for at most this many seconds; raises ``asyncio.TimeoutError`` after them.

    Before Python 3.12 ``wait_for`` wraps the call in a task, which runs only after everything that
    is ready now. Of 32 calls none then begins before all have given up their connections, and the
    client's pool looks through 32 idle ones for each call.
    """
    if sys.version_info >= (3, 11):
        async with asyncio.timeout(seconds):
            return await call
    return await asyncio.wait_for(call, seconds)


# Code of the app on a thread of its own.


MAX_ABANDONED = 3
"""A function is not called while this many of its abandoned calls have not come back."""
REST_FACTOR = 10
"""A function that keeps missing its deadline rests for this many times the time it took."""
IDLE_SECONDS = 2.0
"""A thread ends after it has had nothing to do for this long."""
_POLL_SECONDS = 0.05
"""How often a waiting thread asks whether its deadline has changed."""

_idle: list[SimpleQueue[_AppCall]] = []
"""The inboxes of the threads that have nothing to do. ``pop`` and ``remove`` are atomic: whoever
takes an inbox out of this list is the only one to use it."""


class NotCalledError(JudgeError):
    """The function was not called: too many of its calls were abandoned, or it rests."""


class NoThreadError(NotCalledError):
    """The function was not called, because Python cannot start a thread."""


class NoAnswerError(JudgeError):
    """The call missed its deadline and was abandoned after ``seconds``."""

    def __init__(self, seconds: float) -> None:
        super().__init__("timeout", f"no answer after {seconds:.1f} s")


class HelperThreads:
    """Calls one function of the app, or several that count as one, by the rules of this module.

    A copy, such as one made for another process, begins without abandoned calls.

    Args:
        site: what the counters and the log call it, such as ``"heuristic my_score"``.
        most: how many calls may be abandoned at a time.
        loads: whether the first call may import modules, so that a fork waits for it.
    """

    def __init__(self, site: str, most: int = MAX_ABANDONED, *, loads: bool = True) -> None:
        self.site = site
        self._most = most
        self._loads = loads
        self._forget()

    def _forget(self) -> None:
        """Begin without abandoned calls and missed deadlines."""
        self._abandoned: set[_AppCall] = set()
        self._missed_in_a_row = 0
        self._rests_until = 0.0
        self._process = os.getpid()

    def __reduce__(self) -> tuple[type[HelperThreads], tuple[str, int]]:
        return (type(self), (self.site, self._most))

    @property
    def abandoned(self) -> int:
        """How many abandoned calls have not come back."""
        self._abandoned.difference_update([call for call in [*self._abandoned] if call.has_ended])
        return len(self._abandoned)

    def call(self, function: Callable[..., T], *args: object, patience: Callable[[], float]) -> T:
        """Call a function and wait for it; context variables are the caller's.

        ``patience`` returns how many seconds the call may take in all. It is asked again and again,
        so that the deadline can come nearer during the call.

        Raises:
            NotCalledError: too many calls were abandoned, the function rests, or (`NoThreadError`)
                no thread could be started.
            NoAnswerError: the call was abandoned.
            Exception: whatever the function raised. What is no ``Exception``, such as
                ``SystemExit``, becomes a ``RuntimeError``.
        """
        self._check(has_rest=self._missed_in_a_row >= self._most)
        answered = threading.Event()
        call = _AppCall(self._prepared(function), args, answered.set)
        if not call.begin():
            raise NoThreadError("no_worker", "no thread could be started")
        begun = monotonic()
        while not answered.wait(min(_POLL_SECONDS, patience())):
            if (waited := monotonic() - begun) >= patience():
                self._abandon(call)
                self._missed_in_a_row += 1
                self._rests_until = monotonic() + REST_FACTOR * waited
                tell(self.site, f"no answer after {waited:.1f} s, the call is abandoned")
                raise NoAnswerError(waited)
        self._missed_in_a_row = 0
        if call.error is not None:
            raise self._as_exception(call.error)
        return call.value  # type: ignore[no-any-return]

    async def call_async(self, function: Callable[..., T], *args: object) -> T:
        """Call a function that blocks, without blocking the event loop; cancelling abandons it.

        Raises:
            NotCalledError: too many calls were abandoned.
            Exception: whatever the function raised, as for `call`.
        """
        self._check()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def settle() -> None:
            if future.done():
                return
            if call.error is None:
                future.set_result(call.value)
            else:
                future.set_exception(self._as_exception(call.error))

        def answered() -> None:
            try:  # noqa: SIM105
                loop.call_soon_threadsafe(settle)
            except RuntimeError:  # nobody waits any more: the loop is closed
                pass

        call = _AppCall(self._prepared(function), args, answered)
        if not call.begin():
            call.run()
        try:
            return await future
        except asyncio.CancelledError:
            if not call.has_ended:
                self._abandon(call)
            raise

    def _prepared(self, function: Callable[..., T]) -> Callable[..., T]:
        """Return the function; for the first call, one for whose imports a fork waits."""
        if not self._loads:
            return function
        self._loads = False
        return loading.of_app()(function)

    def _check(self, *, has_rest: bool = False) -> None:
        """Refuse a call while too many are abandoned, or while the function rests."""
        if self._process != os.getpid():  # a forked child has none of its parent's threads
            self._forget()
        if self._abandoned and (out := self.abandoned) >= self._most:
            why = f"not called until one of {out} abandoned calls comes back"
        elif has_rest and monotonic() < self._rests_until:
            why = f"it missed {self._missed_in_a_row} deadlines in a row and rests for a while"
        else:
            return
        caught.add(f"{self.site}: refused")
        tell(self.site, why)
        raise NotCalledError("timeout", why)

    def _abandon(self, call: _AppCall) -> None:
        self._abandoned.add(call)
        caught.add(f"{self.site}: abandoned")

    def _as_exception(self, error: BaseException) -> Exception:
        """Return the exception to raise for an error: a future cannot carry every kind."""
        if isinstance(error, Exception) and not isinstance(error, StopIteration):
            return error
        return RuntimeError(f"{type(error).__name__} in {self.site}")


class _AppCall:
    """One call, on whichever thread takes it."""

    __slots__ = ("_args", "_context", "_function", "_notify", "error", "has_ended", "value")

    def __init__(
        self, function: Callable[..., object], args: tuple[object, ...], notify: Callable[[], None]
    ) -> None:
        self._function = function
        self._args = args
        self._notify = notify
        self._context = copy_context()
        self.value: Any = None
        self.error: BaseException | None = None
        self.has_ended = False

    def begin(self) -> bool:
        """Hand the call to an idle thread or a new one; False where none can be started."""
        try:
            inbox = _idle.pop()
        except IndexError:
            inbox = SimpleQueue()
            thread = threading.Thread(
                target=_serve, args=(inbox,), name="llmeval-aside", daemon=True
            )
            try:
                thread.start()
            except RuntimeError:
                return False
        inbox.put(self)
        return True

    def run(self, then: Callable[[], None] = lambda: None) -> None:
        """Call the function here and then ``then``, and wake whoever waits for the answer."""
        try:
            self.value = self._context.run(self._function, *self._args)
        except BaseException as error:  # signals interrupt the main thread only: this is the code's
            self.error = error
        self.has_ended = True
        then()
        self._notify()


def _serve(inbox: SimpleQueue[_AppCall]) -> None:
    """Run one call after another, until none comes for `IDLE_SECONDS`."""

    def offer() -> None:
        """Mark this thread as idle before its caller gets the answer: the next call may use it."""
        _idle.append(inbox)

    call: _AppCall | None = inbox.get()
    while call is not None:
        call.run(offer)
        call = None  # an idle thread keeps no object of the app alive
        try:
            call = inbox.get(timeout=IDLE_SECONDS)
        except Empty:
            try:
                _idle.remove(inbox)
            except ValueError:  # a call has just taken this thread
                call = inbox.get()


after_in_child(_idle.clear)
