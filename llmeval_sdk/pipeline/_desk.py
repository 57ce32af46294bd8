"""Orders what is done around the requests of a loop, so that no request waits for it.

Making a request ready and reading an answer take longer than sending and receiving. If each task
did both around its own request, answers that arrive together would be read one after the other
before any of their successors is sent, and the server would have nothing to do meanwhile. So some
requests are made ready ahead, and the loop looks at the network between any two pieces of work:
the interpreter's lock is never held for longer than one of them takes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar


SENDING_SECONDS = 0.001
"""How long a request has to be sent after an answer, before other work is done."""

JobT = TypeVar("JobT")
ReadyT = TypeVar("ReadyT")


class Desk(Generic[JobT, ReadyT]):
    """Makes jobs ready and reads their answers, one piece of work at a time.

    Args:
        make_ready: Makes one job ready; returns ``None`` where it needs nothing further.
        on_ready: Called when one more job is ready.
        ahead: How many jobs are ready at most, before anybody takes them.
    """

    def __init__(
        self,
        make_ready: Callable[[JobT], ReadyT | None],
        on_ready: Callable[[], None],
        *,
        ahead: int,
    ) -> None:
        self._make_ready = make_ready
        self._on_ready = on_ready
        self._ahead = ahead
        self._jobs: deque[JobT] = deque()
        self._ready: deque[ReadyT] = deque()
        self._answers: deque[Callable[[], None]] = deque()
        self._is_busy = False
        self._is_told = False
        """Whether the loop will wake for a job that was put."""
        self._is_sending = False
        """Whether an answer has come since the last piece of work, so that a request follows it."""

    def put(self, job: JobT) -> bool:
        """Add a job, from any thread; return whether the loop has to be told to `wake`.

        A burst of jobs tells it once: each call from another thread is a write to a socket, at
        which the threads contend for the interpreter's lock.
        """
        self._jobs.append(job)
        is_new, self._is_told = not self._is_told, True
        return is_new

    def next(self) -> ReadyT | None:
        """Take the job that has been ready for longest, if there is one."""
        ready = self._ready.popleft() if self._ready else None
        self.wake()
        return ready

    def read_later(self, read: Callable[[], None]) -> None:
        """Call this when the requests that can be sent have been sent."""
        self._answers.append(read)
        self._is_sending = True
        self.wake()

    def wake(self) -> None:
        """Have the running loop do what there is to do."""
        self._is_told = False  # before the look at the jobs, so that none is missed
        if self._is_busy or not (self._answers or self._has_room()):
            return
        self._is_busy = True
        loop = asyncio.get_running_loop()
        if self._is_sending and self._ready:
            loop.call_later(SENDING_SECONDS, self._work)
        else:
            loop.call_soon(self._work)
        self._is_sending = False

    def _has_room(self) -> bool:
        return bool(self._jobs) and len(self._ready) < self._ahead

    def _work(self) -> None:
        try:
            # The more answers wait, the fewer jobs are made ready, so that neither runs away.
            if self._has_room() and len(self._ready) + len(self._answers) < self._ahead:
                ready = self._make_ready(self._jobs.popleft())
                if ready is not None:
                    self._ready.append(ready)
                    self._on_ready()
            elif self._answers:
                self._answers.popleft()()
        finally:
            self._is_busy = False
            self.wake()
