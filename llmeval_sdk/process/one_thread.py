"""A daemon thread that does one piece of work, however often it is started."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import count

from llmeval_sdk.process.exits import seconds_left


class OneThread:
    """A daemon thread that does its work once, however often and from wherever it is started.

    It has no lock, because a signal handler or a finaliser may call `start` in the middle of
    another `start`. Several threads may then begin; the first one works and the others end at once.
    """

    def __init__(self, work: Callable[[], None], *, name: str) -> None:
        self._work = work
        self._name = name
        self._turns = count()
        self._threads: list[threading.Thread] = []

    def start(self) -> bool:
        """Start the thread unless it was started; False where Python can start none."""
        if not self._threads:
            thread = threading.Thread(target=self.take, name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return bool(self._threads)
            self._threads.append(thread)
        return True

    def join(self, deadline: float) -> bool:
        """Wait for the thread until a monotonic deadline; True if it has ended or never began."""
        for thread in self._threads:
            thread.join(seconds_left(deadline))
        return not any(thread.is_alive() for thread in self._threads)

    def rely_on(self, other: OneThread) -> None:
        """Start no thread where another one has been started that is going to call `take`."""
        self._threads.extend(other._threads)

    def take(self) -> None:
        """Do the work on the calling thread, unless another thread does it."""
        if next(self._turns) == 0:
            self._threads.append(threading.current_thread())  # `start` may have been interrupted
            self._work()
