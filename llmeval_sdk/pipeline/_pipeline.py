"""One pipeline: intake, worker, judges and deliveries, and how they start and end together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from threading import get_ident
from time import monotonic

from llmeval_sdk import _shield
from llmeval_sdk.model import Evaluation, EvaluationEvent
from llmeval_sdk.pipeline._delivery import Delivery
from llmeval_sdk.pipeline._intake import Intake
from llmeval_sdk.pipeline._plan import Plan
from llmeval_sdk.pipeline._privacy import Privacy
from llmeval_sdk.pipeline._spooling import Spooling
from llmeval_sdk.pipeline._stats import Stats
from llmeval_sdk.pipeline._worker import Worker
from llmeval_sdk.tracing import Span


JUDGES_SHARE = 0.6
"""Share of the time to end that judges may use; the rest is for delivering what they said."""


class Pipeline:
    """Records spans for a Plan until it is shut down. Threads start with the first record.

    Args:
        plan: what to run and where to send it.
        begun: called once, when the threads have started.
        often: called by the worker after each piece of work, and every second without.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        begun: Callable[[], None] | None = None,
        often: Callable[[], None] = _shield.write_notices,
    ) -> None:
        self.plan = plan
        self._begun = begun
        self._intake = Intake(plan, self._start)
        self._deliveries = {
            exporter.name: Delivery(
                exporter, max_records=plan.queue_records, max_bytes=plan.queue_bytes
            )
            for exporter in plan.exporters
        }
        privacy = Privacy(plan.redactor, content=plan.content)
        self._spooling = self._intake.spool = self._spool(privacy)
        self._worker = Worker(
            plan, self._intake, self._deliveries.values(), privacy, self._spooling, often=often
        )
        self._starting = threading.RLock()
        self._started = False
        self._done = threading.Event()
        self._ending = count()
        self._ender: int | None = None
        self.on_start = self._intake.on_start
        self.on_end = self._intake.on_end
        self.take = self._intake.take

    def _spool(self, privacy: Privacy) -> Spooling | None:
        if self.plan.spool is None:
            return None
        return Spooling(
            self.plan.spool,
            self._deliveries.values(),
            pack=privacy.pack,
            unpack=privacy.unpack,
            left=self.plan.worker == "off",
            living=self.plan.worker == "agent",
        )

    @property
    def started(self) -> bool:
        """Say whether anything was ever taken in."""
        return self._started or (self._spooling is not None and self._spooling.is_used)

    def start(self) -> bool:
        """Start the worker before there is a record, to take over what others left."""
        return self._start()

    @property
    def is_idle(self) -> bool:
        """Say whether nothing that other processes left waits here."""
        return self._spooling is None or (self._spooling.scans and self._spooling.is_idle)

    def evaluate(self, span: Span, name: str, /) -> Evaluation | None:
        """Compute one heuristic at once on what a span holds so far."""
        return self._intake.evaluate(span, name)

    def early(self, span: Span, /) -> Evaluation | None:
        """Score the context that a span holds before it ends."""
        return self._intake.early(span)

    def submit(self, event: EvaluationEvent) -> None:
        """Take an evaluation that the app made itself."""
        self._intake.submit(event)

    def stats(self) -> Stats:
        """Return all counters as they stand."""
        intake, worker = self._intake, self._worker
        dropped = intake.dropped.snapshot()
        spans, evaluations = intake.spans.value, intake.evaluations.total
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
            pending_judgements=worker.judging.pending,
            problems=_shield.caught.snapshot(),
            spool={} if self._spooling is None else self._spooling.stats(),
        )

    def flush(self, timeout: float) -> Stats:
        """Wait until all taken in so far is scored, judged and delivered; at most ``timeout`` s."""
        deadline = monotonic() + timeout
        if self._intake.closed:  # another thread is ending this pipeline, or has ended it
            self._wait_for_end(deadline)
            return self._outcome()
        complete = self._settle(deadline, deadline) if self._started else True
        _shield.write_notices()
        return replace(self.stats(), complete=complete)

    def shutdown(self, timeout: float) -> Stats:
        """Stop taking in, deliver what is there within ``timeout`` seconds, count the rest."""
        deadline = monotonic() + timeout
        if next(self._ending) > 0:
            self._hasten(deadline, timeout)
            return self._outcome()
        self._ender = get_ident()
        if not self._intake.closed:
            self._intake.close()
        complete = delivered = True
        if self._started:
            complete = self._settle(monotonic() + timeout * JUDGES_SHARE, deadline, last=True)
            for delivery in self._deliveries.values():
                delivery.stop()
            for delivery in self._deliveries.values():
                delivered &= delivery.join(deadline)
        if self._worker.join(monotonic()):
            self._intake.sweep()
        if self._spooling is not None:
            self._spooling.close(delivered=delivered)
        with _shield.shield("the budget's books"):
            self.plan.keeper.close()
        _shield.write_notices()
        self._done.set()
        return replace(self.stats(), complete=complete and delivered)

    def retire(self, heir: Pipeline) -> None:
        """Leave all further records to another pipeline, and the exporters it uses too open."""
        with self._starting:
            self._intake.close(heir._intake)
        for name, delivery in self._deliveries.items():
            other = heir._deliveries.get(name)
            delivery.closes = other is None or other.exporter is not delivery.exporter

    def _hasten(self, deadline: float, timeout: float) -> None:
        """Wait while somebody else ends this pipeline, and give up judges when half is over."""
        self._wait_for_end(monotonic() + timeout * JUDGES_SHARE)
        if not self._done.is_set():
            self._worker.judging.shut()
            self._wait_for_end(deadline)

    def _wait_for_end(self, deadline: float) -> None:
        if self._ender != get_ident():  # a signal handler inside the end would wait for itself
            self._done.wait(max(0.0, deadline - monotonic()))

    def _outcome(self) -> Stats:
        """Return the counters of a pipeline that is ending or has ended."""
        stats = self.stats()
        settled = not stats.undelivered and not stats.pending_judgements
        return replace(stats, complete=self._done.is_set() and settled)

    def clear(self) -> None:
        """Let go of what was not delivered, when the interpreter ends.

        It would look at each object several times: half a second for full queues.
        """
        self._intake.lane.clear()
        self._intake.reserved.clear()
        for delivery in self._deliveries.values():
            delivery.clear()

    def _start(self) -> bool:
        if self.plan.worker == "off":
            return False
        with self._starting:
            if not self._started and not self._intake.closed:
                self._start_others()
                if self._worker.start() and not self._started:  # a finaliser may have begun too
                    self._started = True
                    if self._begun is not None:
                        with _shield.shield("the end of the process"):
                            self._begun()
            return self._started

    def _start_others(self) -> None:
        """Start what the worker may need at exit, when Python 3.12 and later start no thread."""
        for delivery in self._deliveries.values():
            delivery.start()
        if self.plan.has_model or any(getattr(each, "model", None) for each in self.plan.judges):
            self._worker.judging.start()

    def _settle(self, judges_until: float, deadline: float, *, last: bool = False) -> bool:
        """Pass a barrier through the worker, wait for judges, pass one through each delivery."""
        barrier = self._worker.barrier(stop=last)
        complete = barrier.done.wait(max(0.0, judges_until - monotonic()))
        complete &= self._worker.judging.join(judges_until)
        if last:
            self._worker.judging.shut()
        barriers = [delivery.barrier() for delivery in self._deliveries.values()]
        for each in barriers:  # each of them, so that all have the time there is
            complete &= each.done.wait(max(0.0, deadline - monotonic()))
        return complete
