"""SIGTERM with its default action, which ends a process at once: what it holds is delivered before.

No other handler is ever replaced. One that the app installs later takes our place.
"""

from __future__ import annotations

import os
import signal
import threading
from _thread import LockType, allocate_lock, start_new_thread
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from llmeval_sdk.process.forks import after_in_child


DELIVERY_SECONDS = 4.5
"""How long delivering may wait."""
WAIT_SECONDS = 5.0
"""How long the signal is held up at most: ``docker stop`` kills after ten seconds."""

SAME_SECONDS = 0.1
"""What comes so soon is the same signal: ``timeout`` sends it to a process and to its group."""

_process = 0
"""The process that has taken the signal."""
_deliver: Callable[[], object] = int


def before_sigterm(deliver: Callable[[], object]) -> None:
    """Have something called when SIGTERM comes, before it ends this process as it would have.

    Nothing is done where anybody handles or ignores the signal, and on a thread that cannot take
    it.

    Args:
        deliver: called on a thread of its own; the signal goes on after `WAIT_SECONDS`.
    """
    global _process, _deliver
    if os.name != "posix" or threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL or _is_caught_in_c():
        return
    try:
        signal.signal(signal.SIGTERM, _on_sigterm)
    except ValueError:  # an interpreter below the main one
        return
    _process, _deliver = os.getpid(), deliver


def _restore_default() -> None:
    """Let the signal end a forked child by itself, as its parent counts on.

    A handler runs between two steps of Python only: one that comes just before a child waits for a
    lock would never run, and whoever terminates the child would wait for it for ever.
    """
    with suppress(ValueError):  # not the main thread, in a child that C code has forked
        if signal.getsignal(signal.SIGTERM) is _on_sigterm:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


after_in_child(_restore_default)


def server_that_ends() -> Callable[[], bool] | None:
    """Return what says that the server of this process was told to end, where it takes the signal.

    uvicorn imports the app when its handler is already there, and raises the signal again after its
    shutdown: no code of ours runs at the end. So whoever holds records has to hurry before.
    """
    handler = signal.getsignal(signal.SIGTERM)
    function, server = getattr(handler, "__func__", None), getattr(handler, "__self__", None)
    if getattr(function, "__module__", None) != "uvicorn.server" or server is None:
        return None
    return lambda: bool(vars(server).get("should_exit"))


def _is_caught_in_c() -> bool:
    """Return whether code in C handles or ignores the signal, which Python does not know."""
    bit = 1 << (signal.SIGTERM - 1)
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as lines:  # noqa: PTH123 - pathlib takes milliseconds of the first call
            rows = [line.split() for line in lines if line.startswith(("SigCgt", "SigIgn"))]
        masks = [int(mask, 16) for _, mask in rows]
    except (OSError, ValueError, IndexError):  # another system
        return False
    return any(mask & bit for mask in masks)


def _on_sigterm(number: int, frame: FrameType | None) -> None:
    """Deliver, and have the signal do what it would have done."""
    handler = signal.getsignal(signal.SIGTERM)
    # ddtrace calls the handler before it, and counts on it to end the process.
    ends = handler is _on_sigterm or str(getattr(handler, "__module__", "")).startswith("ddtrace")
    if not ends:  # a handler of the app has called this one, and goes on
        if os.getpid() == _process:
            _begin(None)
        return
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        if os.getpid() == _process:
            done = allocate_lock()
            done.acquire()
            if _begin(done) and not done.acquire(timeout=SAME_SECONDS):
                signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second one ends it at once
                done.acquire(timeout=WAIT_SECONDS)
    finally:  # another handler may raise meanwhile, such as that of Ctrl-C
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
        # The system ignores the default action in process 1, which goes on.
        signal.signal(signal.SIGTERM, handler)


def _begin(done: LockType | None) -> bool:
    """Deliver on another thread: this one may hold a lock that delivering needs.

    It is not started as `threading.Thread`, which takes a lock that this thread may hold as well.
    """

    def run() -> None:
        try:
            _deliver()
        finally:
            if done is not None:
                done.release()

    try:
        start_new_thread(run, ())
    except RuntimeError:
        return False
    return True
