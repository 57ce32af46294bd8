"""Makes a fork wait until no other thread is loading a module for us.

Only the thread that forks lives on in the child. A module that another thread was importing at that
moment stays half imported there, and its import lock is never released: the next import of it in
the child hangs, even one by the app. We load modules late and on background threads, so it is up to
us to prevent that.

Whoever loads enters `loading`. Several threads may, at the same time: a lock that only one could
hold might be held by a thread that waits for the import of another one, which waits for that lock.
"""

from __future__ import annotations

import os
import threading
from importlib import import_module
from time import monotonic, sleep
from types import ModuleType


WAIT_SECONDS = 3.0
"""A fork is never held up for longer. The longest import of ours, that of a judge's client, takes
less than a second of processor time."""


class _Loading:
    """``with loading:`` surrounds each step in which modules may be imported."""

    def __init__(self) -> None:
        self._gate = threading.RLock()
        """Held by a fork, from the moment when nobody loads: whoever begins to load waits."""
        self._depth_of: dict[int, int] = {}
        """How many blocks each thread is inside of; a thread changes only its own number."""
        self._is_shut = False

    def __enter__(self) -> None:
        thread = threading.get_ident()
        depth = self._depth_of.get(thread, 0)
        if depth:
            self._depth_of[thread] = depth + 1
            return
        with self._gate:
            self._depth_of[thread] = 1

    def __exit__(self, *_: object) -> None:
        thread = threading.get_ident()
        depth = self._depth_of[thread]
        if depth > 1:
            self._depth_of[thread] = depth - 1
        else:
            del self._depth_of[thread]

    @property
    def is_here(self) -> bool:
        """Whether this thread is inside a block."""
        return threading.get_ident() in self._depth_of

    def rest(self, seconds: float) -> None:
        """Leave the blocks that this thread is inside of, sleep, and enter them again.

        Call it between two imports, so that a fork need not wait for all of them.
        """
        thread = threading.get_ident()
        depth = self._depth_of.pop(thread, 0)
        sleep(seconds)
        if depth:
            with self._gate:
                self._depth_of[thread] = depth

    def before_fork(self) -> None:
        """Wait until no other thread loads, for `WAIT_SECONDS` at most, and keep the gate shut."""
        deadline = monotonic() + WAIT_SECONDS
        while True:
            self._gate.acquire()
            others = [thread for thread in list(self._depth_of) if thread != threading.get_ident()]
            if not others or monotonic() > deadline:
                self._is_shut = True
                return
            self._gate.release()
            sleep(0.001)

    def after_in_parent(self) -> None:
        """Let those go on that wait at the gate."""
        if self._is_shut:  # else a signal's exception has ended the wait
            self._is_shut = False
            self._gate.release()

    def after_in_child(self) -> None:
        """Forget the threads of the parent. One that forked while it loads goes on loading."""
        thread = threading.get_ident()
        depth = self._depth_of.get(thread)
        self._gate, self._is_shut = threading.RLock(), False
        self._depth_of = {} if depth is None else {thread: depth}


loading = _Loading()


def load_module(name: str) -> ModuleType:
    """Import a module by its name; a fork waits until it is there."""
    with loading:
        return import_module(name)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=loading.before_fork,
        after_in_parent=loading.after_in_parent,
        after_in_child=loading.after_in_child,
    )
