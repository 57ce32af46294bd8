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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from time import monotonic, sleep
from types import ModuleType

from llmeval_sdk.process.forks import after_in_child


WAIT_SECONDS = 3.0
"""A fork waits for no step longer than this. The longest import of ours, that of a judge's client,
takes less than a second of processor time."""
APP_SECONDS = 1.0
"""The same for the first call of code of the app, which may do other things than import."""


class Loading:
    """``with loading:`` surrounds each step in which modules may be imported."""

    def __init__(self) -> None:
        self._gate = threading.RLock()
        """Held by a fork, from the moment when nobody loads: whoever begins to load waits."""
        self._until: dict[int, float] = {}
        """The threads that load, and until when a fork waits for them; each changes its own."""
        self._depth = threading.local()
        self._shut_by: int | None = None
        """The thread that forks."""
        self._others: list[tuple[Callable[[], None], Callable[[], None]]] = []
        """What else is done before a fork, and after it in the parent."""

    def at_fork(self, *, before: Callable[[], None], after: Callable[[], None]) -> None:
        """Have something done before each fork, and after it in the parent.

        Use it in the place of `os.register_at_fork` in what is loaded late: a fork that waits while
        a module is loaded would call what the module registers after the fork, and not before it.
        """
        self._others.append((before, after))

    def __enter__(self) -> None:
        self._enter(WAIT_SECONDS)

    def __exit__(self, *_: object) -> None:
        self._depth.now -= 1
        if not self._depth.now:
            self._until.pop(threading.get_ident(), None)

    def _enter(self, seconds: float) -> None:
        depth = getattr(self._depth, "now", 0)
        self._depth.now = depth + 1
        if not depth:
            self._begin(seconds)

    def _begin(self, seconds: float) -> None:
        with self._gate:
            self._until[threading.get_ident()] = monotonic() + seconds

    @contextmanager
    def of_app(self) -> Iterator[None]:
        """Surround the first call of code of the app, which imports what it needs."""
        self._enter(APP_SECONDS)
        try:
            yield
        finally:
            self.__exit__()

    @property
    def is_here(self) -> bool:
        """Whether this thread is inside a block."""
        return threading.get_ident() in self._until

    def rest(self, seconds: float) -> None:
        """Leave the blocks that this thread is inside of, sleep, and enter them again.

        Call it between two imports, so that a fork need not wait for all of them.
        """
        is_inside = self._until.pop(threading.get_ident(), None) is not None
        sleep(seconds)
        if is_inside:
            self._begin(WAIT_SECONDS)

    def before_fork(self) -> None:
        """Wait until no other thread loads, and keep the gate shut."""
        if self._shut_by == threading.get_ident():  # by what was registered later
            return
        self._gate.acquire()
        while self._is_under_way():
            self._gate.release()
            sleep(0.001)
            self._gate.acquire()
        self._shut_by = threading.get_ident()
        for before, _ in self._others:
            before()

    def _is_under_way(self) -> bool:
        own, now = threading.get_ident(), monotonic()
        return any(until > now for thread, until in list(self._until.items()) if thread != own)

    def after_in_parent(self) -> None:
        """Let those go on that wait at the gate."""
        if self._shut_by == threading.get_ident():  # else this is done, or a signal ended the wait
            for _, after in self._others:
                after()
            self._shut_by = None
            self._gate.release()

    def after_in_child(self) -> None:
        """Forget the threads of the parent. One that forked while it loads goes on loading."""
        own = threading.get_ident()
        until = self._until.get(own)
        self._gate, self._shut_by = threading.RLock(), None
        self._until = {} if until is None else {own: until}


loading = Loading()


def load_module(name: str) -> ModuleType:
    """Import a module by its name; a fork waits until it is there."""
    with loading:
        return import_module(name)


def watch_forks() -> None:
    """Have forks wait, before they do what was registered so far.

    `logging` and thread pools take locks before a fork that a thread may need to finish an import.
    So this is called once more when they are loaded: what was registered last is done first.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=loading.before_fork,
            after_in_parent=loading.after_in_parent,
        )


after_in_child(loading.after_in_child)
watch_forks()
