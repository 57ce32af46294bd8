"""A bounded queue between threads, and what stands for records in it that are no plain ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

from llmeval_sdk.pipeline.overload import NEAR


if TYPE_CHECKING:
    from llmeval_sdk.pipeline.spool import Place, SpoolFile
    from llmeval_sdk.tracing import Span


SMALL = 1_000
"""Bytes that a record takes at least while it waits."""


class Unread(NamedTuple):
    """Spans that another library made; the worker reads them."""

    read: Callable[[], Iterable[Span]]
    exported: bool
    """Whether our exporters send them; otherwise the library does."""
    chance: float = 1.0
    """The chance with which they stayed, as others were left out."""


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

    __slots__ = ("_bytes", "_max_bytes", "_max_records", "_near_bytes", "_near_records", "_queue",
                 "is_crowded")  # fmt: skip

    def __init__(self, *, max_records: int, max_bytes: int) -> None:
        self._queue: SimpleQueue[tuple[object, int]] = SimpleQueue()
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._near_records, self._near_bytes = NEAR * max_records, NEAR * max_bytes
        self._bytes = 0
        self.is_crowded = False
        """Whether the lane is near its end, so that whoever adds to it has to look at `level`."""

    @property
    def level(self) -> float:
        """How much of the lane is taken, from 0 to 1, by records or by bytes."""
        return max(self._queue.qsize() / self._max_records, self._bytes / self._max_bytes)

    @property
    def held(self) -> int:
        """About how many bytes it holds."""
        return self._bytes

    def put(self, item: object, size: int) -> bool:
        """Add an item of about ``size`` bytes; False when the lane is full."""
        records, held = self._queue.qsize(), self._bytes + size
        if records >= self._near_records or held > self._near_bytes:
            self.is_crowded = True
            if records >= self._max_records or held > self._max_bytes:
                return False
        self._bytes += size
        self._queue.put((item, size))
        return True

    def take(self) -> object:
        """Return the next item, or ``None`` when the lane is empty. For one reader."""
        queue = self._queue
        if not queue.qsize():
            self._bytes = 0
            self.is_crowded = False
            return None
        item, size = queue.get()
        self._bytes -= size
        if self.is_crowded:
            self.is_crowded = self.level >= NEAR
        return item

    def clear(self) -> None:
        """Forget all items."""
        self._queue = SimpleQueue()

    def __len__(self) -> int:
        return self._queue.qsize()
