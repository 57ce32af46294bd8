"""Makes a fork wait until no other thread is inside an import that our code began.

Only the thread that forks lives on in the child. A module that another thread was importing at that
moment stays half imported there, and its import lock is never released: the next import of it in
the child hangs, even one by the app. We import modules late and on background threads, so it is up
to us to prevent that.
"""

from __future__ import annotations

import os
import sys
import threading
from time import monotonic, sleep
from typing import Any
from weakref import WeakSet

from llmeval_sdk.process import PACKAGE_FOLDER


WAIT_SECONDS = 3.0
"""A fork is never held up for longer. The longest import of ours, that of a judge's client, takes
less than a second of processor time."""
_IMPORT = "<frozen importlib._bootstrap>"


def wait_for_imports() -> None:
    """Wait until no other thread is inside an import that our code began."""
    deadline = monotonic() + WAIT_SECONDS
    while _is_importing() and monotonic() < deadline:
        sleep(0.001)


def _is_importing() -> bool:
    own = threading.get_ident()
    for thread, frame in sys._current_frames().items():
        importing = False
        at = frame if thread != own else None
        while at is not None:
            name = at.f_code.co_filename
            if importing and name.startswith(PACKAGE_FOLDER):
                return True
            importing = importing or name == _IMPORT
            at = at.f_back
    return False


# Locks that are replaced in a forked child, where the thread that held one does not exist.


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
