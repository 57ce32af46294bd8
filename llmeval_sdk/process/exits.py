"""The end of a process: what is done before it, and the deadline by which a thread must be done.

Multiprocessing's children and Celery's workers never reach ``atexit``: they end with ``os._exit``.
Just before, multiprocessing runs the finalizers of its own registry (its queues flush there), and
Celery sends a signal. We register with whichever of the two the app has loaded, and patch nothing.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from time import monotonic
from typing import Any, NamedTuple


LAST = -100
"""The finalizer's priority: after those of queues and pools, which may still run the app's code."""
TURN_SECONDS = 0.0005
"""How long a thread may keep the interpreter at exit while another one waits for it."""
_registered_in = 0
"""The id of the process in which `before_hard_exit` has registered."""


def before_hard_exit(end: Callable[[], None]) -> None:
    """Have ``end`` called before ``os._exit``, in a process of multiprocessing or Celery.

    Call it in that process and after its work has begun: when a child starts, multiprocessing
    empties the registry that it inherited.
    """
    global _registered_in  # noqa: PLW0603
    if _registered_in == os.getpid():
        return
    _registered_in = os.getpid()
    process, util = _multiprocessing()
    if process is not None and util is not None and process.parent_process():
        util.Finalize(None, end, exitpriority=LAST)
    signals = sys.modules.get("celery.signals")
    if signals is not None:

        def at_shutdown(**_: object) -> None:
            end()

        signals.worker_process_shutdown.connect(at_shutdown, weak=False, dispatch_uid=__name__)


def is_child() -> bool:
    """Return whether multiprocessing has started this process, or RQ for one job."""
    process, _ = _multiprocessing()
    return is_work_horse() or (process is not None and process.parent_process() is not None)


def is_work_horse() -> bool:
    """Return whether this process was forked by RQ for one job, after which it ends at once.

    RQ's own functions could tell, but may ask Redis.
    """
    if "rq" not in sys.modules:
        return False
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and frame.f_code.co_name != "main_work_horse":
        frame = frame.f_back
    return frame is not None


def is_to_be_killed() -> bool:
    """Return whether this is a daemonic child of multiprocessing, such as a pool's worker.

    Its parent terminates it: a pool when its ``with`` block ends, any other parent at its own exit.
    No code of the child runs at that moment, nor at the end of RQ's work-horse.
    """
    return is_work_horse() or (is_child() and _multiprocessing()[0].current_process().daemon)


def after_children(end: Callable[[], None]) -> bool:
    """At exit, have ``end`` called after multiprocessing has ended the children of this process.

    Returns False where there are no children, or where they have been ended already.
    """
    process, util = _multiprocessing()
    if process is None or util is None or util.is_exiting() or not process.active_children():
        return False
    util.Finalize(None, end, exitpriority=LAST)
    return True


def may_have_children() -> bool:
    """Return whether the app has loaded multiprocessing, whose children leave records."""
    return _multiprocessing()[0] is not None


def _multiprocessing() -> tuple[Any, Any]:
    """Return multiprocessing's modules ``process`` and ``util`` where the app has loaded them."""
    return sys.modules.get("multiprocessing.process"), sys.modules.get("multiprocessing.util")


@contextmanager
def prompt_turns() -> Iterator[None]:
    """Switch between threads ten times as often as usual inside the block.

    Each statement of SQLite releases the interpreter. A daemon thread that computes without a pause
    then keeps it for 5 ms, and creating a store takes hundreds of statements: that alone used up
    the time allowed at exit.
    """
    usual = sys.getswitchinterval()
    sys.setswitchinterval(min(usual, TURN_SECONDS))
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


# How long the end of a process waits.


QUIET_SECONDS = 0.5
"""Where no time is set, exit waits for no destination that takes nothing for so long."""
MOST_SECONDS = 10.0
"""Where no time is set, exit waits no longer than this."""
JUDGES_SHARE = 0.6
_LOOK_SECONDS = 0.05


class Ending(NamedTuple):
    """How long somebody waits for deliveries: until a deadline, or as long as they go on."""

    deadline: float
    """The monotonic time by which all of it ends."""
    quiet: float = inf
    """For how many seconds a destination may take nothing."""
    judges_share: float = JUDGES_SHARE
    """Share of what is left that judges may use. The rest is for delivering verdicts."""

    @classmethod
    def within(cls, seconds: float | None) -> Ending:
        """Return one that ends after so many seconds; ``None``: while something is delivered."""
        if seconds is None:
            return cls(monotonic() + MOST_SECONDS, QUIET_SECONDS)
        return cls(monotonic() + seconds)

    @property
    def seconds_left(self) -> float:
        """How many seconds are left until the deadline."""
        return seconds_left(self.deadline)

    def part(self, share: float) -> Ending:
        """Return one that may take so much of what is left."""
        return self._replace(deadline=monotonic() + share * self.seconds_left)

    @property
    def judges_until(self) -> float:
        """Return until when judges may use their share of what is left now."""
        return monotonic() + self.judges_share * min(self.seconds_left, 2 * self.quiet)

    def wait(
        self,
        wait: Callable[[float], bool],
        progressed: Callable[[], float],
        *,
        until: float = inf,
        begun: float | None = None,
        patience: float = 1.0,
    ) -> bool:
        """Wait for something in small steps, and return whether it came.

        Args:
            wait: waits for so many seconds, and returns whether it came.
            progressed: returns when something was last delivered, as a monotonic time.
            until: gives up at this monotonic time, if it is before the deadline.
            begun: the monotonic time at which the wait began; by default now.
            patience: how many times as long as usual it may take nothing.
        """
        until = min(until, self.deadline)
        begun = monotonic() if begun is None else begun
        if self.quiet == inf:
            return wait(seconds_left(until))
        while True:
            left = min(until, max(begun, progressed()) + patience * self.quiet) - monotonic()
            if wait(max(0.0, min(_LOOK_SECONDS, left))):
                return True
            if left <= 0:
                return False


# A deadline for everything that one thread does, which cuts its usual timeouts short.
#
# From Python 3.12 on no thread can be started at exit, so the main thread may have to send records
# itself. No other thread could abandon it there: its requests must end by the exit's deadline.


class _Deadline(threading.local):
    at = float("inf")


_deadline = _Deadline()


@contextmanager
def ending_by(deadline: float) -> Iterator[None]:
    """Make all requests of this thread inside the block end by a monotonic deadline."""
    before, _deadline.at = _deadline.at, min(_deadline.at, deadline)
    try:
        yield
    finally:
        _deadline.at = before


def seconds_left(deadline: float) -> float:
    """Return how many seconds are left until a monotonic deadline; 0 once it has passed."""
    return max(0.0, deadline - monotonic())


def thread_deadline() -> float:
    """Return the monotonic time by which this thread must be done; infinite outside `due_by`."""
    return _deadline.at
