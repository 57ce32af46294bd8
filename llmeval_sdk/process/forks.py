"""What is made anew in a forked child, and locks that are.

Python calls hooks in the child of ``os.fork``. Code in C that forks by itself, as uWSGI does, calls
none: there the first traced request notices that the process has another id.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any
from weakref import WeakSet


process = os.getpid()
"""The id of the process for which everything was made."""
_renewals: list[Callable[[], object]] = []
_renewing = threading.RLock()


def after_in_child(renew: Callable[[], object]) -> None:
    """Have something called in each forked child, after what was registered before it."""
    _renewals.append(renew)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=renew)


def begin_anew() -> None:
    """Call what was registered, in a child that was forked without Python's hooks.

    It is called before records are looked for, and by whoever records where `process` is not the id
    of this process.
    """
    global process  # noqa: PLW0603
    if process == os.getpid():
        return
    with _renewing:
        if process != os.getpid():  # else another thread has done it
            for renew in _renewals:
                renew()
            process = os.getpid()


def _note() -> None:
    """Note that the hooks are called, in the child of a fork that calls them."""
    global process, _renewing
    process, _renewing = os.getpid(), threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note)


_owners: WeakSet[Any] = WeakSet()


class Locked:
    """Base of small objects that several threads use; their methods write ``with self._lock:``.

    The lock is re-entrant, because a signal handler may run while its thread holds the lock.
    """

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _owners.add(self)


def _renew() -> None:
    for owner in list(_owners):
        owner._lock = threading.RLock()


after_in_child(_renew)
