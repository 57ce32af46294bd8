"""A bounded queue between threads, and what stands for records in it that are no plain ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple


if TYPE_CHECKING:
    from llmeval_sdk.pipeline.spool import Place, SpoolFile
    from llmeval_sdk.tracing import Span


class Unread(NamedTuple):
    """Spans that another library made; the worker reads them."""

    read: Callable[[], Iterable[Span]]
    exported: bool
    """Whether our exporters send them; otherwise the library does."""


class Spooled(NamedTuple):
    """A record on its way through the pipeline that is in the spool as well.

    One for which no slot was free is only counted there, in the head of the file.
    """

    item: Any
    file: SpoolFile
    place: Place
    """Its slots; empty where none was free."""
    adopted: bool = False
    """Whether another process wrote it."""


class BoundedQueue:
    """First in, first out, bounded by records and bytes.

    ``SimpleQueue`` is one C call each way and safe under signal handlers and finalisers, which
    ``queue.Queue`` with its lock is not. The byte sum is kept without a lock, so it may drift by a
    lost update; the reader corrects it whenever it finds the lane empty.
    """

    __slots__ = ("_bytes", "_max_bytes", "_max_records", "_queue")

    def __init__(self, *, max_records: int, max_bytes: int) -> None:
        self._queue: SimpleQueue[tuple[object, int]] = SimpleQueue()
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._bytes = 0

    def put(self, item: object, size: int) -> bool:
        """Add an item of about ``size`` bytes; False when the lane is full."""
        if self._queue.qsize() >= self._max_records or self._bytes + size > self._max_bytes:
            return False
        self._bytes += size
        self._queue.put((item, size))
        return True

    def take(self) -> object:
        """Return the next item, or ``None`` when the lane is empty. For one reader."""
        queue = self._queue
        if not queue.qsize():
            self._bytes = 0
            return None
        item, size = queue.get()
        self._bytes -= size
        return item

    def clear(self) -> None:
        """Forget all items."""
        self._queue = SimpleQueue()

    def __len__(self) -> int:
        return self._queue.qsize()
