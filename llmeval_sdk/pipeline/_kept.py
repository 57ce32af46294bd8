"""What the pipeline knows of records that are also in the spool."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from typing import Any, NamedTuple

from llmeval_sdk.pipeline._delivery import Barrier
from llmeval_sdk.spool import Place, SpoolFile


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


class Unsettled(NamedTuple):
    """A record that the worker has handed on, and what must happen before it is dealt with."""

    kept: Spooled
    judgements: tuple[Future[None], ...]
    missed: int
    """What the deliveries had lost before it was handed on; see `Spooling.missed`."""


class UnsettledBatch(NamedTuple):
    """Records that are settled together, once their barriers have passed all deliveries."""

    records: list[Unsettled]
    barriers: list[Barrier]


class Adopted:
    """A file that was taken over, with those of its records that wait or are under way."""

    __slots__ = ("failed", "file", "under_way", "waiting")

    def __init__(self, file: SpoolFile) -> None:
        self.file = file
        self.under_way: set[int] = set()
        self.failed = False
        self.waiting: deque[int] = deque(file.ring.records())

    @property
    def is_done(self) -> bool:
        """Whether the file can be given up."""
        ended = self.file.is_abandoned or self.failed
        return ended and not self.waiting and not self.under_way

    def ended(self, first: int, *, stays: bool) -> None:
        """Note that a record has passed the pipeline.

        One that stays in the file is tried again when the file is taken over the next time.
        """
        self.under_way.discard(first)
        self.failed |= stays

    def look(self) -> None:
        """Check whether the process that writes the file has ended or has written more."""
        if not self.file.is_abandoned and not self.failed and not self.waiting:
            self.file.check()
            records = self.file.ring.records()
            self.waiting.extend(slot for slot in records if slot not in self.under_way)
