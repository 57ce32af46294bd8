"""The worker: takes records from the intake, has them evaluated, and tends the spool."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from time import monotonic, perf_counter, sleep, thread_time
from typing import Any

from llmeval_sdk.heuristics import limit_processor_time
from llmeval_sdk.pipeline.batch_exporter import Barrier, Barriers, Delivery
from llmeval_sdk.pipeline.dispatcher import Dispatcher, Privacy, size_of
from llmeval_sdk.pipeline.evaluating import AppHeuristics, Evaluating, Subject
from llmeval_sdk.pipeline.judging import Judging
from llmeval_sdk.pipeline.overload import BUSY
from llmeval_sdk.pipeline.plan import Hooks, Plan, Running
from llmeval_sdk.pipeline.queue import Spooled, Unread
from llmeval_sdk.pipeline.recovery import Spooling
from llmeval_sdk.pipeline.span_processor import SpanProcessor
from llmeval_sdk.process.cores import usable_cores
from llmeval_sdk.process.pieces import pause_with
from llmeval_sdk.process.shield import shield, swallow, write_notices
from llmeval_sdk.process.terminated import server_that_ends
from llmeval_sdk.tracing import Span, disabled


# Divides background work into small slices, because a busy thread slows the app down.
#
# A thread that computes holds the interpreter for 5 ms at a time, so every I/O wait of a request
# next to it ends up to 5 ms late: ten waits took 41 ms instead of 0.4. Slices of 0.3 ms with
# real pauses give the interpreter back before anybody has waited long.

SLICE_SECONDS = 0.0003
SHORTEST_PAUSE = 0.00005
"""A thread that only yields keeps the interpreter; of this pause the system makes twice as much."""
LONGEST_PAUSE = 0.05
QUIET_SHARE = 0.5
"""The share of a core that the background takes while hardly any record waits."""


class Pace:
    """Sleeps whenever a slice is used up; call `rest` after each small piece of work.

    Args:
        most: the share of a core that the background may take, with all its threads.
        level: says how full the queue is; with it the share rises from `QUIET_SHARE` to the most.
        others: returns the processor time of the background's other threads so far.
    """

    __slots__ = ("_began", "_level", "_most", "_others", "_others_before", "_owed", "_used_before")

    def __init__(
        self,
        most: float,
        *,
        level: Callable[[], float] = lambda: 0.0,
        others: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._most = min(max(most, 0.01), 1.0)
        self._level, self._others = level, others
        self._owed = 0.0
        """Seconds by which the background has worked ahead of its share."""
        self.begin()

    @property
    def share(self) -> float:
        """The share of a core that the background may take now."""
        quiet = min(QUIET_SHARE, self._most)
        return quiet + (self._most - quiet) * min(self._level() / BUSY, 1.0)

    def bound(self, most: float) -> None:
        """Take no more than this share of a core."""
        self._most = min(self._most, max(most, 0.01))

    def begin(self) -> None:
        """Begin a new slice, after a wait, which has paid for what was worked before."""
        self._owed = 0.0
        self._others_before, self._used_before = self._others(), thread_time()
        self._began = perf_counter()

    def rest(self, *, hurry: bool = False) -> None:
        """Pause until the work since the last pause is within the share; in a hurry, only yield."""
        if (passed := perf_counter() - self._began) < SLICE_SECONDS:
            return
        sleep(0 if hurry else self._pause_after(passed))
        paused_since = self._began + passed
        self._began = perf_counter()
        self._owed = max(self._owed - (self._began - paused_since), -LONGEST_PAUSE)

    def _pause_after(self, passed: float) -> float:
        """Return how long to pause after work that took so many seconds, with its interruptions."""
        used, others = thread_time(), self._others()
        worked = used - self._used_before + others - self._others_before
        self._used_before, self._others_before = used, others
        self._owed += worked / self.share - passed
        return min(max(self._owed, SHORTEST_PAUSE), LONGEST_PAUSE)


LINGER_SECONDS = 0.02
"""How long the first record of a burst waits for others, so that the worker wakes up less often."""
IDLE_SECONDS = 1.0
LEARN_SECONDS = 0.05
"""How long records wait at most while risk scores learn."""
HEURISTIC_SECONDS = 0.5
"""Processor time that a built-in heuristic may take for one record, however slow the machine is."""


class Worker:
    """Works between the intake and the deliveries, on a thread of its own."""

    def __init__(
        self,
        plan: Plan,
        span_processor: SpanProcessor,
        deliveries: Iterable[Delivery],
        privacy: Privacy,
        spooling: Spooling | None = None,
        *,
        often: Callable[[], None] = write_notices,
    ) -> None:
        self._plan = plan
        self._span_processor = span_processor
        self._privacy = privacy
        self._spooling = spooling
        self._often = often
        self._deliveries = tuple(deliveries)
        counts = span_processor.evaluations
        self._dispatcher = Dispatcher(
            plan, self._deliveries, privacy, spans=span_processor.spans, evaluations=counts
        )
        self.judged, self.not_run = self._dispatcher.judged, self._dispatcher.not_run
        self.judging: Judging = (plan.judging or Judging)(plan, self._dispatcher)
        self._app_heuristics = AppHeuristics(lambda: self._stop)
        self._evaluating = Evaluating(
            plan,
            self._dispatcher,
            self.judging,
            self._app_heuristics,
            counts=counts,
            rest=self._rest,
            level=lambda: span_processor.lane.level,
        )
        running = Running(self._evaluating.evaluate_case, self._dispatcher.barriers)
        for hooks in plan.hooks:
            with shield("plugins", calls_out=True):
                hooks.begin(running)
        self._urgent = threading.Event()
        self.linger, self.idle_seconds = LINGER_SECONDS, IDLE_SECONDS
        self.hasten = self._urgent.set
        self._barriers = Barriers()
        self._pace = Pace(
            plan.background_share,
            level=lambda: span_processor.lane.level,
            others=lambda: sum(delivery.used for delivery in self._deliveries),
        )
        self._due = 0.0
        self._hurry = self._stop = self._over = False
        self._is_alone = plan.role == "agent"
        """Whether no app is in this process that would have to wait."""
        self._server_ends = server_that_ends() or (lambda: False)

    def stop(self) -> None:
        """Take no further record."""
        self._over = True

    def barrier(self, *, stop: bool = False) -> Barrier:
        """Return a barrier that is set once everything taken in so far is scored and handed on."""
        self._stop = self._stop or stop
        barrier = self._barriers.add()
        self._hurry = True
        self._urgent.set()
        self._span_processor.wake()
        return barrier

    def work(self) -> None:
        """Do the thread's work in this one, where no thread can start."""
        self._hurry = True  # the app has ended, so pauses would help nobody
        with disabled(), shield("worker"):
            self._drain()
            self._tend()

    # -- its own thread -------------------------------------------------------------------------

    def run(self) -> None:
        """Work until the last barrier; the thread ends then."""
        limit_processor_time(HEURISTIC_SECONDS)
        self._pace.bound(usable_cores() / 2)
        pause_with(self._rest)
        _warm(self._plan)
        stop = False
        while not stop:
            patience = self.idle_seconds
            if self._spooling is not None:
                patience = min(patience, self._spooling.patience)
            patience = min(patience, LINGER_SECONDS) if self._learn() else patience
            if not self._span_processor.sleep(patience, unless=self._barriers):
                self._pace.begin()
                with shield("worker"):
                    self._tend()
                    self._often()
                continue
            self._urgent.wait(self.linger)
            self._urgent.clear()
            stop = self._stop
            barriers = self._barriers.take()
            self._pace.begin()
            kept = False
            try:
                self._drain()
                self._tend()
                kept = not barriers or self._flush_hooks()
                self._often()
            except BaseException as error:
                if not swallow("worker", error):
                    raise
            self._hurry = bool(self._barriers)
            for barrier in barriers:
                barrier.failed = not kept
                barrier.done.set()
        self._barriers.end()

    def _learn(self) -> bool:
        """Spend a moment on the work of plugins; return whether there is more to do."""
        until, is_busy = monotonic() + LEARN_SECONDS, False
        self._pace.begin()
        for hooks in self._plan.hooks:
            while not self._barriers and _study(hooks):
                self._rest()
                if is_busy := monotonic() > until:
                    break
        return is_busy

    def _flush_hooks(self) -> bool:
        """Have each plugin write what waits; return whether all of them could."""
        kept = True
        for hooks in self._plan.hooks:
            try:
                kept &= hooks.flush()
            except Exception as error:
                kept = False
                if not swallow("plugins", error):
                    raise
        return kept

    def _rest(self) -> None:
        if not self._hurry and self._server_ends():
            self._hurry = True
            for delivery in self._deliveries:
                delivery.hasten()
        self._pace.rest(hurry=self._hurry or self._is_alone)

    def _drain(self) -> None:
        """Deal with the records that wait now, and not with those that come meanwhile.

        Under steady load there would be no end, and barriers wait for one. One record more is asked
        for than there were: only a `BoundedQueue` that is found empty corrects its sum of bytes.
        """
        for lane in (self._span_processor.reserved, self._span_processor.lane):
            for _ in range(len(lane) + 1):
                if self._over or (item := lane.take()) is None:
                    break
                if not self._has_gone(item):
                    self._take(item)
                self._rest()
                if monotonic() > self._due:
                    self._due = monotonic() + IDLE_SECONDS
                    self._often()

    def _has_gone(self, item: object) -> bool:
        """Drop a span whose trace has gone while it waited; return whether it was one."""
        kept = item if type(item) is Spooled else None
        span = item if kept is None else kept.item
        if type(span) is not Span or not self._span_processor.has_gone(span):
            return False
        self._span_processor.drop("queue_full", span)
        if kept is not None and self._spooling is not None:
            self._spooling.handed_on(kept, (), self._spooling.missed)
        return True

    def _tend(self) -> None:
        """Settle records in the spool, and deal with those that other processes left."""
        if self._spooling is not None:
            for kept in self._spooling.tend():
                if type(kept.item) is Span:
                    self._span_processor.spans.add()
                else:
                    self._span_processor.evaluations.add("submitted")
                self._take(kept)
                self._rest()

    def _take(self, item: Any, *, is_foreign: bool = False, is_exported: bool = True) -> None:
        """Score and redact a record, deal with it, and tell the spool what judgements it awaits.

        It is scored before, because values that redaction makes alike may differ.
        """
        if type(item) is Unread:
            self._read(item)
            return
        kept = item if type(item) is Spooled else None
        missed = self._spooling.missed if kept is not None and self._spooling is not None else 0
        judgements: list[Future[None]] = []
        try:
            item = item if kept is None else kept.item
            if type(item) is Span:
                with shield("inline heuristics"):
                    aside = self._app_heuristics.run_with_deadline
                    self._span_processor.complete(item, aside, is_foreign=is_foreign)
            item, is_whole = self._privacy.redact(item)
            if type(item) is Span:
                in_spool = kept is not None and bool(kept.place)
                subject = Subject(item, is_foreign, is_whole, judgements, in_spool, is_exported)
                self._evaluating.evaluate(subject)
            else:
                self._dispatcher.emit(item, size_of(item))
        except Exception as error:
            if not swallow("worker", error):
                raise
        if kept is not None and self._spooling is not None:
            self._spooling.handed_on(kept, judgements, missed)

    def _read(self, item: Unread) -> None:
        """Score spans that another library made; the store keeps those that it exports itself."""
        try:
            for span in item.read():
                if item.exported:
                    self._span_processor.spans.add()
                if item.chance < 1:
                    span.inclusion_probability = item.chance
                self._take(span, is_foreign=True, is_exported=item.exported)
                self._rest()
        except Exception as error:
            if not swallow("sources", error):
                raise


def _study(hooks: Hooks) -> bool:
    """Have a plugin work for a moment; one that raises has no more to do."""
    with shield("plugins", calls_out=True):
        return hooks.study()
    return False


def _warm(plan: Plan) -> None:
    """Start escalation by share with the scores that earlier processes stored.

    Without them it knows only after some records which of them are the riskiest.
    """
    gate, recent = plan.gate, plan.recent
    if recent is None or not gate.shares:
        return
    try:
        for judge, by in gate.shares:
            past: dict[str | None, list[float]] = {}
            for span_name, score in recent(by):
                past.setdefault(span_name, []).append(score)
            for span_name, scores in past.items():
                gate.warm(judge, span_name, by, scores)
    except Exception as error:
        if not swallow("warm start", error):
            raise
