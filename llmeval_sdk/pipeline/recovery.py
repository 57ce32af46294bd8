"""Connects the pipeline with the spool: copies records into it, and decides when they may go.

A record is *dealt with*, and leaves the spool, when three things have happened. The worker has
handed on everything that comes of it; its judgements have been made; and a barrier behind all that
has passed through every delivery, none of which has meanwhile lost something that another attempt
could still deliver. Any other record stays for the next process.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from time import monotonic
from typing import Any, NamedTuple

from llmeval_sdk.pipeline.batch_exporter import Barrier, Delivery
from llmeval_sdk.pipeline.queue import Spooled
from llmeval_sdk.pipeline.spool import (
    Folder,
    Place,
    SpoolError,
    SpoolFile,
    Torn,
    Unreadable,
)
from llmeval_sdk.process.shield import Count, Counts, swallow, tell


# What the pipeline knows of records that are also in the spool.


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
    def is_busy(self) -> bool:
        """Whether records of it wait or are under way."""
        return bool(self.waiting or self.under_way)

    @property
    def is_done(self) -> bool:
        """Whether the file can be given up."""
        ended = self.file.is_abandoned or self.failed
        return ended and not self.is_busy

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


ACKNOWLEDGE_SECONDS = 0.2
MAX_READY = 1_000
"""With more records than this ready, they are settled at once, so that a burst finds free slots."""
SCAN_SECONDS = 10.0
LIVING_SCAN_SECONDS = 0.2
RETRY_SECONDS = 30.0
MOST_FILES = 8
"""Files of 16 MB that one process fills: a minute of 37 requests a second of 54 KB each, while
`llmeval agent` is started anew. They are made as they are needed, for each reserves its disk."""
MAX_ADOPTED = 500
"""How many records of other processes are under way at a time; the rest waits in the files."""


class Spooling:
    """Spools the records of one pipeline, and takes over those of other processes.

    Args:
        folder: the folder with the files.
        deliveries: what a record has to pass before it is dealt with.
        pack: writes a record as bytes.
        unpack: reads a record from bytes.
        left: leave the records of this process to another one.
        living: also take over records that living processes leave to another one.
        made: make the folder where there is none; otherwise it is only looked into once it exists.
        holds_texts: whether who takes a record over finds the app's texts in it.
    """

    def __init__(
        self,
        folder: Folder,
        deliveries: Iterable[Delivery],
        *,
        pack: Callable[[Any], bytes],
        unpack: Callable[[bytes], object],
        left: bool,
        living: bool,
        made: bool = True,
        holds_texts: bool = True,
    ) -> None:
        self._folder = folder
        self._deliveries = tuple(deliveries)
        self._pack, self._unpack = pack, unpack
        self._left, self._living, self._made = left, living, made
        self.holds_texts = holds_texts
        self._files: list[SpoolFile] = []
        """The files of this process: one, and more while it writes faster than they are emptied."""
        self._most_files = MOST_FILES
        self._opening = threading.RLock()
        self._entered = False
        self._unusable = ""
        self._counts = Counts()
        self._kept = Count()
        self._unsaved, self._saved = Count(), Count()
        self.killed = Count()
        """Records that processes held without a slot when they were killed."""
        self.lost = self.lost_traces = 0
        """Records of the processes whose files were taken over that found no room there, and how
        many traces they began. The worker's thread alone adds."""
        self._judging: list[Unsettled] = []
        self._ready: list[Unsettled] = []
        self._batch: UnsettledBatch | None = None
        self._acknowledged = 0.0
        self._scanned = float("-inf")
        self._adopted: dict[SpoolFile, Adopted] = {}
        self._avoid: dict[str, float] = {}
        self._crowded: Callable[[], None] | None = None
        self._tending = threading.Lock()
        self._closed = False

    # -- the app's thread -----------------------------------------------------------------------

    def keep(self, item: object) -> object:
        """Copy a record into the file and return it as `Spooled`; as it is where there is none."""
        if not self._files and self._open() is None:
            self._counts.add(self._unusable or "opening")
            return item
        file, place = self._append(self._pack(item))
        if place is None:
            self._counts.add("full")
            if not self._left:
                self._unsaved.add()
                self._note_unsaved(file)
            return Spooled(item, file, ())
        self._kept.add()
        if self._crowded is not None and file.ring.is_crowded:
            self._crowded()
        return Spooled(item, file, place)

    @property
    def level(self) -> float | None:
        """How much of this process's file is taken, from 0 to 1; ``None`` where there is none."""
        files = self._files
        most = len(files) if self._unusable else self._most_files
        return sum(file.ring.level for file in files) / most if files else None

    def open(self, *, crowded: Callable[[], None]) -> bool:
        """Make the file of a child that may be killed; False where none can be made.

        ``crowded`` is called while more than half of its slots are taken. A child takes over no
        records of other processes.
        """
        self._crowded, self._scanned, self._most_files = crowded, float("inf"), 1
        return bool(self._files) or self._open() is not None

    def _append(self, record: bytes) -> tuple[SpoolFile, Place | None]:
        """Write a record into the first file that has room, or into another one."""
        for file in self._files:
            if (place := file.ring.append(record)) is not None:
                return file, place
        first = self._files[0]
        if len(record) > first.ring.largest or len(self._files) >= self._most_files:
            return first, None
        another = self._open()
        return (first, None) if another is None else (another, another.ring.append(record))

    def note_lost(self, records: int, traces: int) -> None:
        """Write where the other process finds it how many records found no room so far."""
        if self._files:
            self._files[0].ring.note_lost(records, traces)

    def _note_unsaved(self, file: SpoolFile) -> None:
        """Write into the file how many records would be lost if this process were killed now."""
        file.ring.unsaved = max(0, self._unsaved.value - self._saved.value)

    def _open(self) -> SpoolFile | None:
        """Make a file of this process, which costs some milliseconds; ``None`` where none can be.

        Of several threads that need one at a time, one makes it for all.
        """
        before = len(self._files)
        if self._unusable:
            return None
        with self._opening:
            if len(self._files) == before and not self._entered:  # a signal handler may be in here
                self._entered = True
                try:
                    self._files.append(self._folder.create(left=self._left))
                except SpoolError as error:
                    self._unusable = error.reason
                    tell("spool", f"{'no larger' if before else 'not used'}: {error}")
                finally:
                    self._entered = False
            return self._files[-1] if len(self._files) > before else None

    def stats(self) -> dict[str, int]:
        """Return how many records were kept, taken over, left and so on, by these words."""
        kept = {"kept": self._kept.value} if self._kept.value else {}
        return {**kept, **self._counts.snapshot()}

    # -- the worker's thread --------------------------------------------------------------------

    @property
    def is_used(self) -> bool:
        """Whether this process has made a file in the spool."""
        return bool(self._files)

    @property
    def is_idle(self) -> bool:
        """Whether all records that were handed on or taken over are dealt with."""
        if self._judging or self._ready or self._batch:
            return False
        return not any(adopted.is_busy for adopted in list(self._adopted.values()))

    @property
    def has_left(self) -> bool:
        """Whether there are files of other processes, or records of theirs under way."""
        return bool(self._adopted) or self._folder.has_files

    def look(self) -> None:
        """Make the next `tend` look through the folder, however recent its last look is."""
        self._scanned = float("-inf")

    @property
    def scans(self) -> bool:
        """Whether the folder has been looked through since the start."""
        return self._scanned > 0

    @property
    def patience(self) -> float:
        """How many seconds the worker may sleep on account of the spool."""
        if self._adopted or not self.is_idle:
            return 0.05
        return LIVING_SCAN_SECONDS if self._living else float("inf")

    @property
    def missed(self) -> int:
        """How many records the deliveries have lost that another attempt might deliver."""
        return sum(delivery.missed for delivery in self._deliveries)

    def handed_on(self, kept: Spooled, judgements: Iterable[Future[None]], missed: int) -> None:
        """Note that the worker has handed a record on; ``missed`` is from before it began."""
        record = Unsettled(kept, tuple(judgements), missed)
        (self._judging if record.judgements else self._ready).append(record)

    def tend(self) -> Iterator[Spooled]:
        """Settle the records that are dealt with, and yield records of other processes."""
        with self._tending:
            if self._closed:
                return
            self._acknowledge()
            try:
                self._scan()
            except (OSError, SpoolError) as error:
                tell("spool", f"cannot be read: {error}")
            waiting = list(self._take())
        for kept in waiting:
            first = kept.place[0]
            with suppress(ValueError):  # the file was closed meanwhile, at the end of the process
                kept.file.ring.begin(first)
            yield kept
            with suppress(ValueError):
                kept.file.ring.through(first)

    def _acknowledge(self) -> None:
        batch = self._batch
        if batch is not None and all(barrier.done.is_set() for barrier in batch.barriers):
            self._settle(batch.records, self.missed)
            self._batch = None
        waiting: list[Unsettled] = []
        for record in self._judging:
            done = all(judgement.done() for judgement in record.judgements)
            (self._ready if done else waiting).append(record)
        self._judging = waiting
        now = monotonic()
        due = now - self._acknowledged > ACKNOWLEDGE_SECONDS or len(self._ready) > MAX_READY
        if self._batch is None and self._ready and due:
            self._acknowledged = now
            barriers = [delivery.barrier() for delivery in self._deliveries]
            self._batch, self._ready = UnsettledBatch(self._ready, barriers), []

    def _settle(self, records: list[Unsettled], missed: int) -> None:
        """Clear those of these records that are dealt with; the others stay in the spool."""
        for record in records:
            kept = record.kept
            cut = any(judgement.cancelled() for judgement in record.judgements)
            stays = cut or record.missed != missed
            if not kept.place:
                self._saved.add()
                self._note_unsaved(kept.file)
            elif kept.adopted:
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
            self._take_losses(file)
            if adopted.is_done:
                del self._adopted[file]
                if adopted.failed:
                    self._avoid[file.name] = now + RETRY_SECONDS
                self._leave(file)
        if now - self._scanned < (LIVING_SCAN_SECONDS if self._living else SCAN_SECONDS):
            return
        self._avoid = {name: until for name, until in self._avoid.items() if until > now}
        try:
            if self._made or self._folder.has_files:
                for file in self._folder.adopt(living=self._living, but=self._avoid):
                    self._adopt(file)
        finally:
            self._scanned = now  # only now: whoever waits for `is_idle` trusts `scans` as well

    def _adopt(self, file: SpoolFile) -> None:
        self._adopted[file] = Adopted(file)
        self._take_losses(file)
        if file.is_abandoned and (unsaved := file.ring.unsaved):
            file.ring.unsaved = 0
            for _ in range(unsaved):
                self.killed.add()
            tell("spool", f"{unsaved} records went down with a process whose file was full")

    def _take_losses(self, file: SpoolFile) -> None:
        """Count what the process that writes a file has lost: it has no exporter to note it."""
        records, traces = file.ring.take_untold()
        self.lost += records
        self.lost_traces += traces

    def _take(self) -> Iterator[Spooled]:
        under_way = sum(len(adopted.under_way) for adopted in self._adopted.values())
        if any(delivery.is_crowded for delivery in self._deliveries):
            return  # they wait in their files, where nothing is lost
        for file, adopted in self._adopted.items():
            while adopted.waiting and under_way < MAX_ADOPTED:
                first = adopted.waiting.popleft()
                if file.ring.is_poisoned(first):
                    self._counts.add("poisoned")
                    tell("spool", "a record at which processes end again and again is skipped")
                    file.ring.clear(first)
                    continue
                try:
                    place, record = file.ring.take(first)
                    item = self._unpack(record)
                except Exception as error:
                    if not isinstance(error, (Torn, Unreadable)) and not swallow("spool", error):
                        raise
                    if file.is_abandoned:
                        self._counts.add("torn")
                        file.ring.clear(first)
                    continue
                adopted.under_way.add(first)
                under_way += 1
                self._counts.add("adopted")
                yield Spooled(item, file, place, adopted=True)

    # -- the end --------------------------------------------------------------------------------

    def close(self, *, delivered: bool) -> None:
        """Settle what is dealt with, and close the files.

        ``delivered`` says that every delivery has sent all it had.
        """
        if not self._tending.acquire(timeout=0.2):
            return  # the kernel drops the locks with the process
        try:
            self._closed = True
            self._acknowledge()
            rest = [*self._ready, *(self._batch.records if self._batch else ())]
            if delivered:
                rest += [
                    record
                    for record in self._judging
                    if all(judgement.done() for judgement in record.judgements)
                ]
                self._settle(rest, self.missed)
            for file in (*self._files, *self._adopted):
                self._leave(file)
        finally:
            self._tending.release()

    def _leave(self, file: SpoolFile) -> None:
        """Close a file, with the records that are still in it."""
        records = len(file.ring.records())
        if records:
            self._counts.add("left", records)
            if not self._made:
                tell(
                    "spool",
                    f"{self._counts.of('left')} records of ended children wait in "
                    f"{self._folder.path} for the next process that delivers there",
                )
        file.release()
