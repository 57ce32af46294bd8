"""Locks that survive a fork: in the child they are new, whoever held them in the parent."""

from __future__ import annotations

import os
import threading
from typing import Any
from weakref import WeakSet


_owners: WeakSet[Any] = WeakSet()


class Locked:
    """Base of small shared states: ``with self._lock:``, re-entrant for signals' sake."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _owners.add(self)


def _renew() -> None:
    for owner in list(_owners):
        owner._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
