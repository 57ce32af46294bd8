"""Work of a command that is spread over processes of its own; an app's process never does this."""

from __future__ import annotations

import gc
import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from multiprocessing import connection, get_context, parent_process
from threading import Thread
from typing import TypeVar

from llmeval_sdk.errors import ConfigurationError


_T = TypeVar("_T")
_R = TypeVar("_R")

MOST = 4
"""Processes that work at once."""
AHEAD = 7
"""How many items may be queued or finished, beyond those in work, so that no process is idle while
the caller is busy: an import writes the lines of five items at a time."""


def mapped(work: Callable[[_T], _R], items: Iterable[_T]) -> Generator[_R, None, None]:
    """Yield what ``work`` makes of each item, in their order, made by other processes.

    A single item, and every one on a machine with one processor, is worked on here: a process takes
    half a second to begin. No more items are taken than are worked on, and `AHEAD`.

    Args:
        work: A function of a module; what it takes, returns and raises can be pickled.
        items: What it is to be called with.

    Raises:
        ConfigurationError: a process was killed.
    """
    rest = iter(items)
    first = list(islice(rest, 2))
    workers = min(MOST, (os.cpu_count() or 1) - 1)
    if len(first) < 2 or not workers:
        yield from map(work, chain(first, rest))
        return
    # No fork: this process may have threads, such as that of a progress bar.
    pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=_begin)
    waiting: deque[Future[_R]] = deque()
    try:
        for item in chain(first, rest):
            waiting.append(pool.submit(work, item))
            if len(waiting) >= workers + AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        raise ConfigurationError(
            "a process of this command was ended from outside, maybe because memory ran out: run it"
            " again"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """Prepare a process: it ends with the one that began it, also if that is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the command, and that ends this
    # Rows of data make no circles, and looking for them takes a third of the time of reading.
    gc.set_threshold(200_000, 50, 1_000)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
