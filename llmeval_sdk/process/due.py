"""A deadline for everything that one thread does, which cuts its usual timeouts short.

From Python 3.12 on no thread can be started at exit, so the main thread may have to send records
itself. No other thread could abandon it there: its requests must end by the exit's deadline.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic


class _Due(threading.local):
    at = float("inf")


_due = _Due()


@contextmanager
def due_by(deadline: float) -> Iterator[None]:
    """Make all requests of this thread inside the block end by a monotonic deadline."""
    before, _due.at = _due.at, min(_due.at, deadline)
    try:
        yield
    finally:
        _due.at = before


def left(deadline: float) -> float:
    """Return how many seconds are left until a monotonic deadline; 0 once it has passed."""
    return max(0.0, deadline - monotonic())


def due() -> float:
    """Return the monotonic time by which this thread must be done; infinite outside `due_by`."""
    return _due.at
