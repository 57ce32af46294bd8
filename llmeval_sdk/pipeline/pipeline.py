"""One pipeline: intake, worker, judges and deliveries, and how they start and end together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from math import ceil, inf
from threading import get_ident
from time import monotonic, sleep

from llmeval_sdk.model import DAY_SECONDS, Evaluation, EvaluationEvent
from llmeval_sdk.pipeline._worker import LINGER_SECONDS, Worker
from llmeval_sdk.pipeline.batch_exporter import GIVE_UP_SECONDS, Delivery
from llmeval_sdk.pipeline.dispatcher import Privacy
from llmeval_sdk.pipeline.plan import Plan
from llmeval_sdk.pipeline.recovery import Spooling
from llmeval_sdk.pipeline.span_processor import SpanProcessor
from llmeval_sdk.pipeline.stats import Stats
from llmeval_sdk.process import shield
from llmeval_sdk.process.exits import is_to_be_killed, seconds_left
from llmeval_sdk.tracing import Span


JUDGES_SHARE = 0.6
"""Share of the time for shutting down that judges may use. The rest is for delivering verdicts."""
LONGEST_SECONDS = 365 * DAY_SECONDS
"""For this long a flush waits that was given no limit: the system's own waits have one."""
PATIENCE = 3
"""Such a flush gives up on the judges if none of them ends in so many times the time that one
judgement may take."""
CHILD_LINGER_SECONDS = 5.0
"""How long a child that may be killed gathers records before it delivers them. Its parent delivers
what it leaves, and would send again what the child had sent and not yet settled."""
TASK_SECONDS = 1.0
"""How long each task of such a child may wait for delivery, where no file can hold its records."""


class Pipeline:
    """Records, evaluates and delivers spans by a Plan until it is shut down.

    Its threads start with the first record.

    Args:
        plan: what to run and where to send it.
        begun: called once, when the threads have started.
        often: called by the worker after each piece of work, and every second when there is none.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        begun: Callable[[], None] | None = None,
        often: Callable[[], None] = shield.write_notices,
    ) -> None:
        self.plan = plan
        self._begun = begun
        self._span_processor = SpanProcessor(plan, self.start)
        self._deliveries = {
            exporter.name: Delivery(
                exporter, max_records=plan.queue_records, max_bytes=plan.queue_bytes
            )
            for exporter in plan.exporters
        }
        privacy = Privacy(plan.redactor, content=plan.content)
        self._spooling = self._spool(privacy)
        if plan.spool is not None:
            self._span_processor.spool = self._spooling
        self._worker = Worker(
            plan,
            self._span_processor,
            self._deliveries.values(),
            privacy,
            self._spooling,
            often=often,
        )
        if plan.freezes:
            self._expect_freezing()
        self._starting = threading.RLock()
        self._started = False
        self._done = threading.Event()
        self._ending = count()
        self._ender: int | None = None
        self.on_start = self._span_processor.on_start
        self.on_end = self._span_processor.on_end
        self.take = self._span_processor.take

    def _spool(self, privacy: Privacy) -> Spooling | None:
        folder = self.plan.spool or self.plan.children
        if folder is None:
            return None
        return Spooling(
            folder,
            self._deliveries.values(),
            pack=privacy.pack,
            unpack=privacy.unpack,
            left=self.plan.role == "off",
            living=self.plan.role == "agent",
            made=self.plan.spool is not None,
        )

    def _expect_freezing(self) -> None:
        """Have records sent within a moment, and wake no thread while there are none."""
        if not any(hooks.needs_clock for hooks in self.plan.hooks):
            self._worker.idle_seconds = DAY_SECONDS
        for delivery in self._deliveries.values():
            delivery.linger = LINGER_SECONDS

    @property
    def started(self) -> bool:
        """Whether anything was ever taken in."""
        return self._started or (self._spooling is not None and self._spooling.is_used)

    @property
    def is_idle(self) -> bool:
        """Whether all that other processes left in the spool is dealt with."""
        return self._spooling is None or (self._spooling.scans and self._spooling.is_idle)

    @property
    def reads_at_once(self) -> bool:
        """Whether something reads a span, with all that was left to it, the moment it ends."""
        return self._span_processor.reads_at_once

    def evaluate(self, span: Span, name: str, /) -> Evaluation | None:
        """Compute one heuristic at once on what a span holds so far."""
        return self._span_processor.evaluate(span, name)

    def early(self, span: Span, /) -> Evaluation | None:
        """Score the context that a span holds before it ends."""
        return self._span_processor.early(span)

    def submit(self, event: EvaluationEvent) -> None:
        """Take an evaluation that the app made itself."""
        self._span_processor.submit(event)

    def stats(self) -> Stats:
        """Return all counters as they stand."""
        counted = {hooks.counted_as: hooks.stats() for hooks in self.plan.hooks}
        span_processor, worker, spooling = self._span_processor, self._worker, self._spooling
        dropped = span_processor.dropped.snapshot()
        spans, evaluations = span_processor.spans.value, span_processor.evaluations.total
        if spooling is not None and (killed := spooling.killed.value):
            dropped["killed"], spans = killed, spans + killed
        return Stats(
            spans=spans,
            evaluations=evaluations,
            dropped=dropped,
            exporters={
                name: delivery.stats(spans + evaluations, dropped)
                for name, delivery in self._deliveries.items()
            },
            judged=worker.judged.snapshot(),
            not_run={name: counts.snapshot() for name, counts in list(worker.not_run.items())},
            judge_usage=worker.judging.usage,
            cut_prompts=worker.judging.cut_prompts,
            pending_judgements=worker.judging.pending,
            problems=shield.caught.snapshot(),
            spool={} if spooling is None else spooling.stats(),
            left_out=worker.judging.left_out,
            fleet=worker.judging.fleet.snapshot(),
            shared=self.plan.limiter.stats(),
            sessions=counted.get("sessions", {}),
        )

    def flush(self, timeout: float | None) -> Stats:
        """Wait, at most ``timeout`` s, until all records so far are scored, judged, delivered.

        ``None`` waits for as long as judgements come to an end, and deliveries.
        """
        deadline = monotonic() + (LONGEST_SECONDS if timeout is None else timeout)
        if self._span_processor.closed:  # another thread is ending this pipeline, or has ended it
            self._wait_for_end(deadline)
            return self._outcome()
        patience = inf if timeout is not None else PATIENCE * self.plan.judge_timeout
        complete = self._finish(
            deadline, deadline, self._look_for_left_records(), patience=patience
        )
        shield.write_notices()
        return replace(self.stats(), complete=complete)

    def left(self, stats: Stats) -> str:
        """Say what a flush left undone, and for how long that may take; empty: nothing."""
        from llmeval_sdk.text.terminal import plural  # only where something is left

        left = []
        if (judgements := stats.pending_judgements) > 0:
            seconds = ceil(judgements / self.plan.concurrency) * self.plan.judge_timeout
            left.append(f"{plural(judgements, 'judgement')} (up to {seconds:g} s)")
        if (records := stats.undelivered) > 0:
            minutes = GIVE_UP_SECONDS / 60
            left.append(f"{plural(records, 'record')} to deliver (up to {minutes:g} minutes)")
        return " and ".join(left)

    def shutdown(self, timeout: float) -> Stats:
        """Take in nothing more; deliver what is there within ``timeout`` s and count the rest."""
        deadline = monotonic() + timeout
        if next(self._ending) > 0:
            self._hasten(deadline, timeout)
            return self._outcome()
        self._ender = get_ident()
        left_by_children = self._look_for_left_records()
        if not self._span_processor.closed:
            self._span_processor.close()
        judges_until = monotonic() + timeout * JUDGES_SHARE
        complete = delivered = True
        if left_by_children is not None:
            complete = self._finish(deadline - 0.1 * timeout, deadline, left_by_children)
        if self._started:
            complete &= self._settle(judges_until, deadline, last=True)
            for delivery in self._deliveries.values():
                delivery.stop()
            for delivery in self._deliveries.values():
                delivered &= delivery.join(deadline)
        if self._worker.join(monotonic() + 0.25):  # the record in hand is scored and counted first
            self._span_processor.sweep()
        if self._spooling is not None:
            self._spooling.close(delivered=delivered)
        self.plan.close()
        shield.write_notices()
        self._done.set()
        return replace(self.stats(), complete=complete and delivered)

    def _look_for_left_records(self) -> Spooling | None:
        """Return the spooling if children of this process have left records to deliver here."""
        spooling = self._spooling if self.plan.spool is None else None
        if spooling is None or self._span_processor.spool is not None or not spooling.has_left:
            return None
        spooling.look()
        self.start()
        return spooling

    def _finish(
        self,
        judges_until: float,
        deadline: float,
        left_by_children: Spooling | None,
        *,
        patience: float = inf,
    ) -> bool:
        """Deal with all records, also with those that children of this process have left."""
        if not self._started:
            return left_by_children is None or self._work_here(left_by_children, deadline)
        complete = self._settle(judges_until, deadline, patience=patience)
        while left_by_children is not None and complete and not left_by_children.is_idle:
            complete = self._settle(judges_until, deadline, patience=patience)
        return complete

    def _work_here(self, spooling: Spooling, deadline: float) -> bool:
        """Do the work of the threads on this one: at exit Python 3.12 and later start none."""
        while True:
            self._worker.work()
            for delivery in self._deliveries.values():
                delivery.work(deadline)
            if spooling.is_idle:
                return True
            if monotonic() > deadline:
                return False
            sleep(0.01)

    def retire(self, successor: Pipeline) -> None:
        """Leave all further records to another pipeline; exporters that it uses too stay open."""
        with self._starting:
            self._span_processor.close(successor._span_processor)
        for name, delivery in self._deliveries.items():
            other = successor._deliveries.get(name)
            delivery.closes = other is None or other.exporter != delivery.exporter

    def _hasten(self, deadline: float, timeout: float) -> None:
        """Wait while another thread ends this pipeline; give up judges after their share."""
        self._wait_for_end(monotonic() + timeout * JUDGES_SHARE)
        if not self._done.is_set():
            self._worker.judging.shut()
            self._wait_for_end(deadline)

    def _wait_for_end(self, deadline: float) -> None:
        if self._ender != get_ident():  # a signal handler inside `shutdown` would wait for itself
            self._done.wait(seconds_left(deadline))

    def _outcome(self) -> Stats:
        """Return the counters of a pipeline that is ending or has ended."""
        stats = self.stats()
        settled = not stats.undelivered and not stats.pending_judgements
        return replace(stats, complete=self._done.is_set() and settled)

    def clear(self) -> None:
        """Forget what was not delivered, before the interpreter ends.

        The interpreter would look at each object several times: half a second for full queues.
        """
        self._span_processor.lane.clear()
        self._span_processor.reserved.clear()
        for delivery in self._deliveries.values():
            delivery.clear()

    def start(self) -> bool:
        """Start the threads; False where none can start, or where this process is to have none.

        The first record does it; calling it earlier takes over what other processes left.
        """
        if self.plan.role == "off":
            return False
        with self._starting:
            if not self._started and not self._span_processor.closed:
                self._prepare_for_the_kill()
                self._start_others()
                if self._worker.start() and not self._started:  # a finaliser may have got here too
                    self._started = True
                    if self._begun is not None:
                        with shield.shield("the end of the process"):
                            self._begun()
            return self._started

    def _prepare_for_the_kill(self) -> None:
        """Spool the records where the parent finds them, if it is going to kill this process."""
        if self._spooling is None or self.plan.spool is not None or not is_to_be_killed():
            return
        if self._spooling.open(crowded=self._worker.hasten):
            self._span_processor.spool = self._spooling
            self._worker.linger = CHILD_LINGER_SECONDS
        else:
            self._span_processor.at_task_end = self._deliver_at_once

    def _deliver_at_once(self) -> None:
        """Deliver before the task ends, for as long as that works in time."""
        if not self.flush(TASK_SECONDS).complete:
            self._span_processor.at_task_end = None
            shield.tell("spool", "records are lost when the parent terminates this process")

    def _start_others(self) -> None:
        """Start the threads that the worker may need at exit, when Python 3.12 starts none."""
        for delivery in self._deliveries.values():
            delivery.start()
        plan = self.plan
        if plan.has_model or plan.decisions or any(judge.model for judge in plan.judges):
            self._worker.judging.start()

    def _settle(
        self,
        judges_until: float,
        deadline: float,
        *,
        last: bool = False,
        patience: float = inf,
    ) -> bool:
        """Wait until the worker, the judges and then the deliveries are done with all so far."""
        barrier = self._worker.barrier(stop=last)
        scored = barrier.done.wait(seconds_left(judges_until))
        complete = self._worker.judging.join(judges_until, patience=patience)
        if last:
            self._worker.judging.shut()
        if not scored:  # only half of the time left, so that what is scored can still be delivered
            scored = barrier.done.wait(seconds_left(deadline) / 2)
        complete &= scored and not barrier.failed
        barriers = [delivery.barrier() for delivery in self._deliveries.values()]
        for delivered in barriers:  # no `all(…)`: each of them may use the time that is left
            complete &= delivered.done.wait(seconds_left(deadline))
        return complete
