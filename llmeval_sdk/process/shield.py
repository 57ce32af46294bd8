"""Keeps our own exceptions away from the app: they are caught, counted and logged once a minute.

Two kinds of exceptions pass through untouched: every ``BaseException`` that is no ``Exception``,
and what a signal handler raised, such as a task queue's soft time limit. Everything else was raised
by our code or by what it called, also where that is an object of the app or of another library. The
log is written in the worker, never on the app's thread.
The counters are exact with any number of threads, signal handlers and collector callbacks.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from itertools import count
from types import CodeType, FrameType, TracebackType
from typing import TYPE_CHECKING, NamedTuple

from llmeval_sdk.process.forks import after_in_child


if TYPE_CHECKING:
    from typing_extensions import Self


class Count:
    """An exact counter without a lock: one C call counts, so nothing can come in between.

    ``self.n += 1`` is three steps and loses counts under threads on some interpreters; a lock can
    deadlock when a signal handler or a finaliser counts while the lock is held.
    """

    __slots__ = ("_ticks", "add")

    def __init__(self) -> None:
        self._ticks = count()
        self.add = self._ticks.__next__

    @property
    def value(self) -> int:
        """How often `add` was called. An ``itertools.count`` shows its next number in its repr."""
        return int(repr(self._ticks)[6:-1])


class Counts:
    """A counter per reason, made when a reason first occurs."""

    __slots__ = ("_by_reason",)

    def __init__(self) -> None:
        self._by_reason: dict[str, Count] = {}

    def add(self, reason: str, times: int = 1) -> None:
        """Count a reason; ``setdefault`` lets only one of two threads make its counter."""
        counter = self._by_reason.get(reason) or self._by_reason.setdefault(reason, Count())
        for _ in range(times):
            counter.add()

    def of(self, reason: str) -> int:
        """Return how often one reason was counted so far."""
        counter = self._by_reason.get(reason)
        return 0 if counter is None else counter.value

    def snapshot(self) -> dict[str, int]:
        """Return the counts so far, by reason."""
        return {reason: counter.value for reason, counter in list(self._by_reason.items())}

    def clear(self) -> None:
        """Forget all counts."""
        self._by_reason.clear()

    @property
    def total(self) -> int:
        """Return the sum over the reasons."""
        return sum(self.snapshot().values())


# The guard.


INTERVAL_SECONDS = 60.0


class Notice(NamedTuple):
    """One line for the log: where something happened, what it was, and how often so far."""

    site: str
    what: str
    times: int


caught = Counts()
notices: deque[Notice] = deque(maxlen=64)
_last_told: dict[str, float] = {}
_told_once: set[str] = set()
MAX_ONCE = 100
_raise_again = False


def raise_again(on: bool) -> None:  # noqa: FBT001
    """Raise exceptions of the SDK instead of counting them; only for `llmeval_sdk.testing`."""
    global _raise_again  # noqa: PLW0603
    _raise_again = on


def swallow(site: str, error: BaseException, what: str = "") -> bool:
    """Count an exception of ours; False means that it is not ours and must be raised again.

    Write ``except Exception as error: if not swallow("site", error): raise`` on the app's thread,
    where it costs 0.05 µs and ``with shield("site")`` 0.7 µs, and wherever the failure has to be
    handled. Everywhere else `shield` reads better. The line for the log has the exception's type,
    or ``what``.
    """
    if _raise_again or not is_ours(error):
        return False
    caught.add(site)
    tell(site, what or type(error).__name__, caught.of(site))
    return True


MAX_REASON = 300
"""Characters of a line about a set-up that failed."""


def describe(error: BaseException) -> str:
    """Say what failed in a set-up, why and in which file.

    The reason may quote what a person has set: take secrets out before anybody reads it.
    """
    from llmeval_sdk.process.shadowed import shadowed

    at, trace = "", error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        at = at if file.startswith("<") else f" ({file}, line {trace.tb_lineno})"  # <frozen …>
        trace = trace.tb_next
    instead = "".join(
        f"; {file} stands in the place of Python's {name}" for name, file in shadowed()
    )
    return f"{type(error).__name__}: {error}"[: MAX_REASON // 2] + at + instead


def tell(site: str, what: str, times: int = 1) -> None:
    """Leave a line for the log, at most one per site and minute; the worker writes it."""
    now = time.monotonic()
    if now - _last_told.get(site, -INTERVAL_SECONDS) >= INTERVAL_SECONDS:
        _last_told[site] = now
        notices.append(Notice(site, what, times))


def tell_once(site: str, what: str) -> None:
    """Leave a line for the log, once per site and process, for at most `MAX_ONCE` sites."""
    if site not in _told_once and len(_told_once) < MAX_ONCE:
        _told_once.add(site)
        tell(site, what)


def write_notices() -> None:
    """Write the waiting lines to the log ``llmeval_sdk``: types, ids, counts, never payloads.

    What another system wrote, such as the text of its error, can neither steer the terminal that
    shows the log nor begin a line of it.
    """
    while notices:
        try:
            notice = notices.popleft()
        except IndexError:  # another thread was faster
            return
        import logging

        from llmeval_sdk.process.escaping import one_line

        so_far = f" ({notice.times} so far)" if notice.times > 1 else ""
        logging.getLogger("llmeval_sdk").warning(
            "%s: %s%s", one_line(notice.site), one_line(notice.what), so_far
        )


class shield:  # noqa: N801 - reads as a verb
    """``with shield("site"):`` catches our exceptions in code that is not on the hot path.

    ``calls_out`` says that the block runs other people's code on purpose, such as an evaluator: its
    ``sys.exit()`` is caught too. ``on_own_thread`` says that the block runs on a thread of ours.
    There even a ``KeyboardInterrupt`` can only be one that somebody raised, so it is caught too.
    """

    __slots__ = ("kinds", "site")

    def __init__(self, site: str, *, calls_out: bool = False, on_own_thread: bool = False) -> None:
        self.site = site
        self.kinds: tuple[type[BaseException], ...] = (Exception,)
        if on_own_thread:
            self.kinds = (BaseException,)
        elif calls_out:
            self.kinds = (Exception, SystemExit)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        return isinstance(error, self.kinds) and swallow(self.site, error)


def is_ours(error: BaseException) -> bool:
    """Return whether an exception was raised by our code or by what it called.

    The traceback begins in our code, so each frame below was called by us, but for a signal
    handler: the interpreter calls that one wherever it likes.
    """
    if threading.get_ident() != threading.main_thread().ident:
        return True  # signal handlers run in the main thread only
    handlers = _handler_codes()
    above: FrameType | None = None
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code in handlers or (above is not None and _was_interrupted(above, frame)):
            return False
        above, trace = frame, trace.tb_next
    return True


def _was_interrupted(above: FrameType, frame: FrameType) -> bool:
    """Return whether a frame was called with the frame above it, as only a signal handler is.

    This shows a handler that is no longer the signal's, or one that was wrapped.
    """
    from inspect import CO_VARARGS

    code = frame.f_code
    names = code.co_varnames[: code.co_argcount]
    values = [frame.f_locals.get(name) for name in names]
    if code.co_flags & CO_VARARGS:
        rest = frame.f_locals.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount])
        values += rest if type(rest) is tuple else ()
    return len(values) > 1 and values[-1] is above and isinstance(values[-2], int)


def _handler_codes() -> set[CodeType]:
    """Return the code of the functions that handle signals now."""
    import signal

    codes = set()
    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        for function in (handler, getattr(handler, "__func__", None), getattr(type(handler), "__call__", None)):  # fmt: skip  # noqa: B004, E501
            code = getattr(function, "__code__", None)
            if isinstance(code, CodeType):
                codes.add(code)
    return codes


def _begin_anew() -> None:
    """Start without counts and lines in a forked child: they are the parent's to report."""
    caught.clear()
    notices.clear()
    _last_told.clear()


after_in_child(_begin_anew)
