"""Records that stand in the spool, on their way through the pipeline, and whose they are."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future
from typing import Any, NamedTuple

from llmeval_sdk.pipeline._delivery import Barrier
from llmeval_sdk.spool import Place, SpoolFile


class Spooled(NamedTuple):
    """A record that also stands in the spool, or whose absence there the file counts."""

    item: Any
    file: SpoolFile
    place: Place
    """Empty when no slot was free."""
    adopted: bool = False


class Unsettled(NamedTuple):
    """A record that is handed on, and what has to happen before it is dealt with."""

    kept: Spooled
    judgements: tuple[Future[None], ...]
    missed: int


class UnsettledBatch(NamedTuple):
    records: list[Unsettled]
    barriers: list[Barrier]


class Adopted:
    """One file that was taken over: which of its records wait, and which are under way."""

    __slots__ = ("failed", "file", "under_way", "waiting")

    def __init__(self, file: SpoolFile) -> None:
        self.file = file
        self.under_way: set[int] = set()
        self.failed = False
        self.waiting: deque[int] = deque(file.ring.records())

    @property
    def is_done(self) -> bool:
        """Say whether the file can be given up."""
        ended = self.file.is_abandoned or self.failed
        return ended and not self.waiting and not self.under_way

    def ended(self, first: int, *, stays: bool) -> None:
        """Note that a record is through; one that stays is tried again when the file is."""
        self.under_way.discard(first)
        self.failed |= stays

    def look(self) -> None:
        """See whether the process that writes the file has ended, or has written more."""
        if not self.file.is_abandoned and not self.failed and not self.waiting:
            self.file.check()
            found = self.file.ring.records()
            self.waiting.extend(slot for slot in found if slot not in self.under_way)
