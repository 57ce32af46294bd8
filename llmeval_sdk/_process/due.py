"""By when what a thread is doing has to be over, where its own limits would let it take longer.

At exit Python 3.12 and later start no thread, so that the main thread may have to send by itself.
Nobody can then leave it behind at the deadline of the exit: the request must end there.
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
    """Have all requests that this thread makes in the block end by a monotonic deadline."""
    before, _due.at = _due.at, min(_due.at, deadline)
    try:
        yield
    finally:
        _due.at = before


def left(deadline: float) -> float:
    """Return how many seconds are left until a monotonic deadline; 0 once it has passed."""
    return max(0.0, deadline - monotonic())


def due() -> float:
    """Return the monotonic time by which this thread has to be done; infinite as a rule."""
    return _due.at
