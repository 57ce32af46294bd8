"""Locks that are replaced in a forked child, where the thread that held one does not exist."""

from __future__ import annotations

import os
import threading
from typing import Any
from weakref import WeakSet


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


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
