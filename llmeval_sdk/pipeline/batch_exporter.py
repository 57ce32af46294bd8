"""Delivers records to one exporter: in batches, with retries and an exact account.

Each exporter has a thread of its own, because one that hangs must hold up neither the scoring nor
the other exporters. The thread is a daemon, so it never keeps the process alive.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from time import monotonic, thread_time

from llmeval_sdk.errors import ExportError
from llmeval_sdk.model import JUDGE_TAG, Batch, EvaluationEvent, NotRun, SpanData
from llmeval_sdk.model.protocols import BaseExporter
from llmeval_sdk.pipeline.overload import Decided, chance_of_traces, drawn
from llmeval_sdk.pipeline.queue import BoundedQueue
from llmeval_sdk.pipeline.stats import ExporterStats
from llmeval_sdk.process.exits import Ending, ending_by, seconds_left
from llmeval_sdk.process.one_thread import OneThread
from llmeval_sdk.process.retries import pauses
from llmeval_sdk.process.shield import Count, Counts, shield, swallow, tell
from llmeval_sdk.statistics.reasons import explain_loss
from llmeval_sdk.tracing.internals import off


MAX_BATCH = 500
BATCH_BYTES = 1 << 20
"""With so much waiting, nobody waits for more: a batch of large records is worth its transaction,
and of 400 records of 40 KB a second, no more are on their way than come in a tenth of one."""
LINGER_SECONDS = 0.2
BACKOFF_SECONDS = 0.2
MAX_BACKOFF_SECONDS = 10.0
MAX_PAUSE_SECONDS = 60.0
"""How long a far end that names a time is waited for at most."""
GIVE_UP_SECONDS = 600.0
LOCAL_PATIENCE = 6.0
"""How many times as long a file may take nothing at exit: the workers of a server that end together
wait for one another's writes."""
Emitted = SpanData | EvaluationEvent | NotRun
"""What the pipeline hands to exporters."""


class Barrier:
    """Is set when all that was there before it was made is dealt with."""

    __slots__ = ("done", "failed")

    def __init__(self) -> None:
        self.done = threading.Event()
        self.failed = False
        """Whether some of it could not be dealt with; it is known once `done` is set."""


class Barriers(deque[Barrier]):
    """The barriers that a thread has yet to set.

    A flush may run beside the end of its pipeline. A barrier that it adds after the thread looked
    for the last time is set all the same; otherwise the flush would wait until its timeout.
    """

    _ended = False

    def add(self) -> Barrier:
        """Return a new barrier, which the thread will set."""
        barrier = Barrier()
        self.append(barrier)
        if self._ended:
            barrier.done.set()
        return barrier

    def take(self) -> list[Barrier]:
        """Return the barriers that were added so far; the thread sets them when it is done."""
        return [self.popleft() for _ in range(len(self))]

    def end(self) -> None:
        """Set the barriers that are left, and from now on all that are added."""
        self._ended = True
        for barrier in self.take():
            barrier.done.set()


class Delivery:
    """Takes records for one exporter; each is delivered or counted."""

    def __init__(self, exporter: BaseExporter, *, max_records: int, max_bytes: int) -> None:
        self.exporter = exporter
        self.name = exporter.name
        self._spans = BoundedQueue(max_records=max_records, max_bytes=max_bytes)
        self._evaluations = BoundedQueue(max_records=4 * max_records, max_bytes=max_bytes)
        self._wake = threading.Event()
        self._urgent = threading.Event()
        self._closing = threading.Event()
        self._hurry = threading.Event()
        """Set by whoever waits for the records: the next attempt is made at once."""
        self.linger = LINGER_SECONDS
        self._thread = OneThread(self._run, name=f"llmeval-{self.name}")
        self._barriers = Barriers()
        self._delivered = 0
        self.patience = LOCAL_PATIENCE if exporter.is_local else 1.0
        self.progressed = 0.0
        """The monotonic time at which the far end last took something."""
        self.used = 0.0
        """Seconds of processor time that the thread has taken."""
        self._foreign = 0
        """How many spans of other libraries it took, which only some exporters do."""
        self._unknown = 0
        self.closes = True
        """False where another pipeline goes on using the exporter."""
        self.missed = 0
        """How many records were lost here that another attempt, from the spool, might deliver."""
        self._dropped = Counts()
        self._decided = Decided()
        """The chances of the latest traces to be delivered here."""
        self._lost_traces = Count()

    # -- the worker's side ----------------------------------------------------------------------

    def start(self) -> bool:
        """Start the thread if it does not run; False where none can start."""
        return self._thread.start()

    def offer(self, item: Emitted, size: int) -> None:
        """Take a record; near the end of its lane whole traces are dropped, see `overload`.

        Evaluations have a larger lane than spans, and go with the trace that they are about.
        """
        counted = type(item) is not NotRun
        lane = self._spans if type(item) is SpanData else self._evaluations
        chance = self._chance_of(item)
        if chance < 1:
            item = _weighted(item, chance)
        if not chance or not self._put(lane, item, size):
            if counted:
                self._dropped.add("exporter_full")
                self.missed += 1
                self._lose_traces([item])
            live = self.exporter.live
            if live is not None and type(item) is SpanData:
                with shield(f"exporter {self.name}", calls_out=True):
                    live.on_drop(item)
            return
        self._thread.start()
        if not self._wake.is_set():
            self._wake.set()
        elif len(lane) == MAX_BATCH or (lane.held > BATCH_BYTES and not self._urgent.is_set()):
            self._urgent.set()

    def _chance_of(self, item: Emitted) -> float:
        """Return the chance with which this exporter gets the trace of a record; 0: it does not.

        It is decided for the first record of the trace. One that has come this far has been drawn
        already, by the same draw, where its process had too much.
        """
        trace_id = _trace_of(item)
        if trace_id is None:
            return 1.0
        chance = self._decided.get(trace_id)
        if chance is None:
            level = max(self._spans.level, self._evaluations.level)
            before = item.inclusion_probability if type(item) is SpanData else None
            drawn_here = drawn(trace_id, chance_of_traces(level))
            chance = self._decided.note(trace_id, min(drawn_here / (before or 1.0), 1.0))
        return chance

    def _put(self, lane: BoundedQueue, item: Emitted, size: int) -> bool:
        if lane.put(item, size):
            return True
        self._decided[_trace_of(item)] = 0.0  # the rest of its trace goes as well
        return False

    def keep(self, span: Emitted, size: int) -> None:
        """Take a span of another library, where the exporter keeps those."""
        if self.exporter.keeps_foreign:
            self._foreign += 1
            self.offer(span, size)

    @property
    def is_crowded(self) -> bool:
        """Whether so much waits here that some of what comes next may be dropped."""
        return self._spans.is_crowded or self._evaluations.is_crowded

    def barrier(self) -> Barrier:
        """Return a barrier that is set once everything offered so far is dealt with."""
        barrier = self._barriers.add()
        if not self._thread.start():
            barrier.done.set()
        self._hurry.set()
        self._urgent.set()
        self._wake.set()
        return barrier

    def hasten(self) -> None:
        """Send what comes from now on without waiting for more."""
        self.linger = 0.0
        self._urgent.set()

    def stop(self) -> None:
        """Have the thread send what waits once, without further retries, and close the exporter."""
        self._closing.set()
        self._hurry.set()
        self._urgent.set()
        self._wake.set()

    def join(self, seconds: float) -> bool:
        """Wait for the thread for so many seconds; return whether it has ended."""
        return self._thread.join(monotonic() + seconds)

    def clear(self) -> None:
        """Forget what still waits; it stays undelivered in the account."""
        self._spans.clear()
        self._evaluations.clear()

    def _lose_traces(self, items: Iterable[object]) -> None:
        """Count the traces of the app whose first span in this process is lost."""
        for item in items:
            if type(item) is SpanData and item.is_local_root and JUDGE_TAG not in item.tags:
                self._lost_traces.add()

    def stats(
        self, created: int, dropped_before: Mapping[str, int], traces_before: int = 0
    ) -> ExporterStats:
        """Return the account; what neither arrived nor was dropped is still under way."""
        dropped, created = dict(dropped_before), created + self._foreign
        for reason, times in self._dropped.snapshot().items():
            dropped[reason] = dropped.get(reason, 0) + times
        gone = self._delivered + self._unknown + sum(dropped.values())
        in_memory = self.exporter.in_memory
        waiting = created - gone
        traces = traces_before + self._lost_traces.value
        return ExporterStats(
            created, self._delivered, dropped, waiting, self._unknown, in_memory, traces
        )

    def work(self, ending: Ending, begun: float) -> None:
        """Do the thread's work on this one, where no thread can be started: once, without retries.

        No request is begun after the deadline, or where the far end took nothing for too long since
        the work of all deliveries was begun, and those that were begun end by then.
        """
        self._closing.set()
        self.progressed = max(begun, self.progressed)
        with shield(f"exporter {self.name}", calls_out=True):
            quiet = self.patience * ending.quiet
            while (until := min(ending.deadline, self.progressed + quiet)) > monotonic():
                with ending_by(until):
                    if not self._send_some():
                        self.exporter.flush(min(1.0, seconds_left(until)))
                        break

    # -- its own thread -------------------------------------------------------------------------

    def _run(self) -> None:
        off()  # spans of an exporter's own library calls are not the app's
        closing = False
        while not closing:
            self._wake.wait()
            self._urgent.wait(self.linger)  # let a batch gather
            self._wake.clear()
            self._urgent.clear()
            closing = self._closing.is_set()
            self._hurry.clear()
            barriers = self._barriers.take()
            with shield(f"exporter {self.name}", on_own_thread=True):
                self._drain()
                if barriers:
                    self.exporter.flush(1.0)
            for barrier in barriers:
                barrier.done.set()
        self._barriers.end()
        if self.closes:
            with shield(f"exporter {self.name}", on_own_thread=True):
                self.exporter.close(1.0)

    def _drain(self) -> None:
        """Send what waits now; what comes meanwhile waits for the next time."""
        while self._send_some() == MAX_BATCH:
            self.used = thread_time()
        self.used = thread_time()

    def _send_some(self) -> int:
        """Send a batch of what waits, and return of how many records."""
        if items := self._next_items():
            batch = Batch(
                tuple(item for item in items if type(item) is SpanData),
                tuple(item for item in items if type(item) is EvaluationEvent),
                tuple(item for item in items if type(item) is NotRun),
            )
            self._send(batch)
        return len(items)

    def _next_items(self) -> list[object]:
        items: list[object] = []
        for lane in (self._spans, self._evaluations):
            while len(items) < MAX_BATCH and (item := lane.take()) is not None:
                items.append(item)
        return items

    def _send(self, batch: Batch) -> None:
        """Export one batch and count what became of it."""
        try:
            try:
                refused = self.exporter.export(batch) or {}
            except ExportError as error:
                if not error.retryable:
                    raise
                tell(f"exporter {self.name}", f"{error.reason}; trying again")
                refused = self._send_again(batch, error)
        except ExportError as error:
            lost = len(batch) - error.delivered - sum(error.refused.values())
            advice = explain_loss(error.reason).advice
            tell(f"exporter {self.name}", f"{error.reason}; {lost} records given up. {advice}")
            for reason, times in error.refused.items():
                self._dropped.add(reason, times)
            self._count(error.delivered)
            self.missed += lost if error.retryable else 0
            self._lose_traces(batch.spans * (lost == len(batch)))  # else nobody knows which ones
            if error.answered:
                self._dropped.add(error.reason, lost)
            else:
                self._unknown += lost
        except BaseException as error:
            if not swallow(f"exporter {self.name}", error):
                raise
            self._dropped.add(type(error).__name__, len(batch))
            self._lose_traces(batch.spans)
        else:
            for reason, times in refused.items():
                self._dropped.add(reason, times)
            self._count(len(batch) - sum(refused.values()))

    def _count(self, delivered: int) -> None:
        self._delivered += delivered
        if delivered:
            self.progressed = monotonic()

    def _send_again(self, batch: Batch, error: ExportError) -> Mapping[str, int]:
        """Retry until the far end takes the batch, ten minutes were waited, or `stop` is called.

        Minutes in which the process was frozen are not waited, and a flush does not wait at all,
        unless the far end itself has named the time.
        """
        begun, waited = monotonic(), 0.0
        waits = pauses(BACKOFF_SECONDS, MAX_BACKOFF_SECONDS, spread=(1.0, 1.5))
        while True:
            backoff = next(waits)
            pause = min(error.retry_after or backoff, MAX_PAUSE_SECONDS)
            (self._closing if error.retry_after else self._hurry).wait(pause)
            self._hurry.clear()
            waited += pause
            try:
                return self.exporter.export(batch) or {}
            except ExportError as again:
                is_late = min(waited, monotonic() - begun) > GIVE_UP_SECONDS
                if not again.retryable or self._closing.is_set() or is_late:
                    raise
                error = again


def _trace_of(item: Emitted) -> str | None:
    """Return the id of the trace that a record is about."""
    return item.trace_id if isinstance(item, SpanData) else item.target.trace_id


def _weighted(item: Emitted, chance: float) -> Emitted:
    """Return a record that was kept with a chance, beside those with which it was made."""
    if type(item) is SpanData:
        return replace(item, inclusion_probability=(item.inclusion_probability or 1.0) * chance)
    if type(item) is EvaluationEvent:
        made = item.evaluation
        kept = replace(made, inclusion_probability=made.inclusion_probability * chance)
        return replace(item, evaluation=kept)
    return item
