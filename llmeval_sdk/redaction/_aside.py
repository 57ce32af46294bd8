"""Calls the app's function on a thread of its own, because it may hang."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from queue import SimpleQueue


class _Task:
    """Texts to redact; ``texts`` is filled in as the answers come."""

    __slots__ = ("done", "texts")

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = dict(texts)
        self.done = threading.Event()


class Aside:
    """Applies a function to texts, with a deadline; what it does not answer keeps its marker."""

    def __init__(self, function: Callable[[str], str], timeout: float) -> None:
        self._function = function
        self._timeout = timeout
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._overdue: _Task | None = None
        self._process = 0

    def __call__(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Return the texts with what the function made of each. One caller at a time."""
        if not texts:
            return {}
        if self._process != os.getpid() and not self._start():
            return dict(texts)
        if self._overdue is not None:
            if not self._overdue.done.is_set():
                return dict(texts)
            self._overdue = None
        task = _Task(texts)
        self._tasks.put(task)
        if task.done.wait(self._timeout):
            return task.texts
        self._overdue = task
        return dict(texts)

    def _start(self) -> bool:
        """Start the thread, anew in a forked child."""
        self._tasks, self._overdue = SimpleQueue(), None
        thread = threading.Thread(
            target=_work, args=(self._function, self._tasks), name="llmeval-redact", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:
            return False
        self._process = os.getpid()
        return True

    def __del__(self) -> None:
        self._tasks.put(None)


def _work(function: Callable[[str], str], tasks: SimpleQueue[_Task | None]) -> None:
    """Serve until the Aside, which this thread must not keep alive, is gone."""
    while (task := tasks.get()) is not None:
        for text in list(task.texts):
            try:
                answer = function(text)
            except BaseException:  # even a SystemExit: nothing may leave unredacted
                continue
            if type(answer) is str:
                task.texts[text] = answer
        task.done.set()
