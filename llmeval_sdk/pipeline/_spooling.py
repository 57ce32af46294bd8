"""Between the pipeline and the spool: who keeps a record, and when it is dealt with.

A record is dealt with when the worker has handed on all that comes of it, its judges are done, and
a barrier behind that has passed through every delivery without one of them missing anything that
another attempt could still deliver. What is not dealt with stays for the next process.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from time import monotonic
from typing import Any, NamedTuple

from llmeval_sdk._counters import Count, Counts
from llmeval_sdk._shield import swallow, tell
from llmeval_sdk.pipeline._delivery import Barrier, Delivery
from llmeval_sdk.spool import Folder, Place, SpoolError, SpoolFile, Torn


ACKNOWLEDGE_SECONDS = 0.2
MAX_READY = 1_000
"""More are acknowledged at once, so that a burst finds slots again."""
SCAN_SECONDS = 10.0
LIVING_SCAN_SECONDS = 0.2
RETRY_SECONDS = 30.0
MAX_ADOPTED = 500
"""Records of other processes under way at a time: they wait in their files, not in our queues."""


class Kept(NamedTuple):
    """A record that also stands in the spool."""

    item: Any
    file: SpoolFile
    place: Place
    adopted: bool = False


class _Open(NamedTuple):
    """A record that is handed on, and what has to happen before it is dealt with."""

    kept: Kept
    judgements: tuple[Future[None], ...]
    missed: int


class _Batch(NamedTuple):
    records: list[_Open]
    barriers: list[Barrier]


class Spooling:
    """One pipeline's part in the spool."""

    def __init__(
        self,
        folder: Folder,
        deliveries: Iterable[Delivery],
        *,
        pack: Callable[[Any], bytes],
        unpack: Callable[[bytes], Any],
        left: bool,
        living: bool,
    ) -> None:
        self._folder = folder
        self._deliveries = tuple(deliveries)
        self._pack, self._unpack = pack, unpack
        self._left, self._living = left, living
        self._file: SpoolFile | None = None
        self._opening = threading.RLock()
        self._entered = False
        self._unusable = ""
        self._counts = Counts()
        self._kept = Count()
        self._judging: list[_Open] = []
        self._ready: list[_Open] = []
        self._batch: _Batch | None = None
        self._acknowledged = 0.0
        self._scanned = float("-inf")
        self._adopted: dict[SpoolFile, _Adopted] = {}
        self._avoid: dict[str, float] = {}
        self._tending = threading.Lock()
        self._closed = False

    # -- the app's thread -----------------------------------------------------------------------

    def keep(self, item: Any) -> Any:
        """Copy a record into the file, and return it with its place; else just the record."""
        file = self._file
        if file is None and (file := self._open()) is None:
            self._counts.add(self._unusable or "opening")
            return item
        place = file.ring.append(self._pack(item))
        if place is None:
            self._counts.add("full")
            return item
        self._kept.add()
        return Kept(item, file, place)

    def _open(self) -> SpoolFile | None:
        """Make this process's file, once: it costs some milliseconds."""
        if self._unusable:
            return None
        with self._opening:
            if self._file is None and not self._entered:  # else: a signal handler, in here
                self._entered = True
                try:
                    self._file = self._folder.create(left=self._left)
                except SpoolError as error:
                    self._unusable = error.reason
                    tell("spool", f"not used: {error}")
            return self._file

    def stats(self) -> dict[str, int]:
        """Return what became of records, by word."""
        kept = {"kept": self._kept.value} if self._kept.value else {}
        return {**kept, **self._counts.snapshot()}

    # -- the worker's thread --------------------------------------------------------------------

    @property
    def is_used(self) -> bool:
        """Say whether this process has written to the spool."""
        return self._file is not None

    @property
    def is_idle(self) -> bool:
        """Say whether nothing that was taken over or handed on still waits."""
        return not (self._judging or self._ready or self._batch or self._adopted)

    @property
    def scans(self) -> bool:
        """Say whether the folder was looked through since the start."""
        return self._scanned > 0

    @property
    def patience(self) -> float:
        """Return how many seconds the worker may sleep."""
        return 0.05 if not self.is_idle else LIVING_SCAN_SECONDS if self._living else 1.0

    @property
    def missed(self) -> int:
        """Return how much the deliveries have lost that another attempt could deliver."""
        return sum(delivery.missed for delivery in self._deliveries)

    def handed_on(self, kept: Kept, judgements: Iterable[Future[None]], missed: int) -> None:
        """Note that the worker is through with a record; ``missed`` is from before it began."""
        record = _Open(kept, tuple(judgements), missed)
        (self._judging if record.judgements else self._ready).append(record)

    def tend(self) -> Iterator[Kept]:
        """Acknowledge what is dealt with, and return records of other processes to take in."""
        with self._tending:
            if self._closed:
                return
            self._acknowledge()
            try:
                self._scan()
            except (OSError, SpoolError) as error:
                tell("spool", f"cannot be read: {error}")
            found = list(self._take())
        yield from found

    def _acknowledge(self) -> None:
        batch = self._batch
        if batch is not None and all(barrier.done.is_set() for barrier in batch.barriers):
            self._settle(batch.records, self.missed)
            self._batch = None
        waiting: list[_Open] = []
        for record in self._judging:
            done = all(judgement.done() for judgement in record.judgements)
            (self._ready if done else waiting).append(record)
        self._judging = waiting
        now = monotonic()
        due = now - self._acknowledged > ACKNOWLEDGE_SECONDS or len(self._ready) > MAX_READY
        if self._batch is None and self._ready and due:
            self._acknowledged = now
            barriers = [delivery.barrier() for delivery in self._deliveries]
            self._batch, self._ready = _Batch(self._ready, barriers), []

    def _settle(self, records: list[_Open], missed: int) -> None:
        """Clear the records that are dealt with; the others stay where they are."""
        for record in records:
            kept = record.kept
            cut = any(judgement.cancelled() for judgement in record.judgements)
            stays = cut or record.missed != missed
            if kept.adopted:
                if not stays:
                    kept.file.ring.clear(kept.place[0])
                self._adopted[kept.file].ended(kept.place[0], stays=stays)
            elif not stays:
                kept.file.ring.free(kept.place)

    # -- what other processes left --------------------------------------------------------------

    def _scan(self) -> None:
        now = monotonic()
        for file, adopted in list(self._adopted.items()):
            adopted.look()
            if adopted.is_done:
                del self._adopted[file]
                if adopted.failed:
                    self._avoid[file.name] = now + RETRY_SECONDS
                self._leave(file)
        if now - self._scanned < (LIVING_SCAN_SECONDS if self._living else SCAN_SECONDS):
            return
        self._avoid = {name: until for name, until in self._avoid.items() if until > now}
        try:
            for file in self._folder.adopt(living=self._living, but=self._avoid):
                self._adopted[file] = _Adopted(file)
        finally:
            self._scanned = now  # not before: who waits until nothing waits would go too early

    def _take(self) -> Iterator[Kept]:
        under_way = sum(len(adopted.under_way) for adopted in self._adopted.values())
        for file, adopted in self._adopted.items():
            while adopted.waiting and under_way < MAX_ADOPTED:
                first = adopted.waiting.popleft()
                try:
                    place, record = file.ring.take(first)
                    item = self._unpack(record)
                except Exception as error:
                    if not isinstance(error, Torn) and not swallow("spool", error):
                        raise
                    if file.is_abandoned:
                        self._counts.add("torn")
                        file.ring.clear(first)
                    continue
                adopted.under_way.add(first)
                under_way += 1
                self._counts.add("adopted")
                yield Kept(item, file, place, adopted=True)

    # -- the end --------------------------------------------------------------------------------

    def close(self, *, delivered: bool) -> None:
        """Acknowledge what is dealt with and give the files up; ``delivered``: nothing waits."""
        if not self._tending.acquire(timeout=0.2):
            return  # the kernel drops the locks with the process
        try:
            self._closed = True
            self._acknowledge()
            rest = [*self._ready, *(self._batch.records if self._batch else ())]
            if delivered:
                rest += [each for each in self._judging if all(j.done() for j in each.judgements)]
                self._settle(rest, self.missed)
            for file in (self._file, *self._adopted):
                if file is not None:
                    self._leave(file)
        finally:
            self._tending.release()

    def _leave(self, file: SpoolFile) -> None:
        """Give a file up, with what is still in it."""
        records = len(file.ring.records())
        if records:
            self._counts.add("left", records)
        file.release()


class _Adopted:
    """Where we are with the records of one file of another process."""

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
