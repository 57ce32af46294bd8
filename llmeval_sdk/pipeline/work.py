"""What works in the background of one pipeline, by a finished plan: worker, judges, deliveries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import ceil, inf
from time import monotonic, sleep

from llmeval_sdk.model import DAY_SECONDS
from llmeval_sdk.pipeline._worker import LINGER_SECONDS, Worker
from llmeval_sdk.pipeline.batch_exporter import GIVE_UP_SECONDS, Delivery
from llmeval_sdk.pipeline.dispatcher import Privacy
from llmeval_sdk.pipeline.plan import Plan
from llmeval_sdk.pipeline.recovery import Spooling
from llmeval_sdk.pipeline.span_processor import SpanProcessor
from llmeval_sdk.pipeline.stats import Stats
from llmeval_sdk.process import shield
from llmeval_sdk.process.exits import Ending


LEDGER_SECONDS = 1.0
"""How long the end of a process waits for the judges' thread, which closes the ledger."""


class Work:
    """Evaluates and delivers what a `SpanProcessor` takes in.

    Args:
        plan: what to run and where to send it.
        span_processor: where records wait.
        often: called by the worker after each piece of work, and every second when there is none.
    """

    def __init__(
        self, plan: Plan, span_processor: SpanProcessor, *, often: Callable[[], None]
    ) -> None:
        self.plan = plan
        self._span_processor = span_processor
        self.deliveries = {
            exporter.name: Delivery(
                exporter, max_records=plan.queue_records, max_bytes=plan.queue_bytes
            )
            for exporter in plan.exporters
        }
        privacy = Privacy(plan.redactor, content=plan.content)
        self.spooling = self._spool(privacy)
        if plan.spool is not None:
            span_processor.spool = self.spooling
        self.worker = Worker(
            plan, span_processor, self.deliveries.values(), privacy, self.spooling, often=often
        )
        if plan.freezes:
            self._expect_freezing()

    def _spool(self, privacy: Privacy) -> Spooling | None:
        folder = self.plan.spool or self.plan.children
        if folder is None:
            return None
        return Spooling(
            folder,
            self.deliveries.values(),
            pack=privacy.pack,
            unpack=privacy.unpack,
            left=self.plan.role == "off",
            living=self.plan.role == "agent",
            made=self.plan.spool is not None,
            holds_texts=self.plan.content and not self.plan.redactor.has_custom,
        )

    def _expect_freezing(self) -> None:
        """Have records sent within a moment, and wake no thread while there are none."""
        if not any(hooks.needs_clock for hooks in self.plan.hooks):
            self.worker.idle_seconds = DAY_SECONDS
        for delivery in self.deliveries.values():
            delivery.linger = LINGER_SECONDS

    def start(self) -> None:
        """Start the threads that the worker may need at exit, when Python 3.12 starts none."""
        for delivery in self.deliveries.values():
            delivery.start()
        plan = self.plan
        if plan.has_model or plan.decisions or any(judge.model for judge in plan.judges):
            self.worker.judging.start()

    @property
    def is_idle(self) -> bool:
        """Whether all that other processes left in the spool is dealt with."""
        return self.spooling is None or (self.spooling.scans and self.spooling.is_idle)

    def stats(self, spans: int, evaluations: int, dropped: Mapping[str, int]) -> Stats:
        """Return all counters as they stand, with those of the span processor."""
        counted = {hooks.counted_as: hooks.stats() for hooks in self.plan.hooks}
        worker, spooling, dropped = self.worker, self.spooling, dict(dropped)
        if spooling is not None and (killed := spooling.killed.value):
            dropped["killed"], spans = killed, spans + killed
        traces = self._span_processor.lost_traces.value
        if spooling is not None and spooling.lost:
            dropped["spool_full"] = dropped.get("spool_full", 0) + spooling.lost
            spans, traces = spans + spooling.lost, traces + spooling.lost_traces
        return Stats(
            spans=spans,
            evaluations=evaluations,
            dropped=dropped,
            exporters={
                name: delivery.stats(spans + evaluations, dropped, traces)
                for name, delivery in self.deliveries.items()
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

    def look_for_left_records(self) -> bool:
        """Return whether children of this process have left records to deliver here."""
        spooling = self.spooling if self.plan.spool is None else None
        if spooling is None or self._span_processor.spool is not None or not spooling.has_left:
            return False
        spooling.look()
        return True

    def finish(self, ending: Ending, *, has_left: bool, patience: float = inf) -> bool:
        """Deal with all records, also with those that children of this process have left."""
        complete = self.settle(ending, patience=patience)
        while has_left and complete and self.spooling is not None and not self.spooling.is_idle:
            complete = self.settle(ending, patience=patience)
        return complete

    def settle(self, ending: Ending, *, last: bool = False, patience: float = inf) -> bool:
        """Wait until the worker, the judges and then the deliveries are done with all so far.

        At the end of the process, judges get no more than their share of what is left.
        """
        judging, bounds = self.worker.judging, ending.quiet == inf
        barrier = self.worker.barrier(stop=last)
        until = ending.judges_until if last and bounds else ending.deadline
        longest = max((delivery.patience for delivery in self.deliveries.values()), default=1.0)
        scored = ending.wait(barrier.done.wait, self.progressed, until=until, patience=longest)
        until = ending.judges_until if last or not bounds else ending.deadline
        complete = judging.join(until, patience=patience)
        if last:
            judging.shut()
        if not scored and bounds:  # half of the time, so that what is scored can be delivered
            scored = barrier.done.wait(ending.seconds_left / 2)
        complete &= scored and not barrier.failed
        waits = [(delivery.barrier().done.wait, delivery) for delivery in self.deliveries.values()]
        return _wait_for_each(ending, waits) and complete

    def progressed(self) -> float:
        """Return the monotonic time at which a destination last took something."""
        return max((delivery.progressed for delivery in self.deliveries.values()), default=0.0)

    def work_here(self, ending: Ending) -> bool:
        """Do the work of the threads on this one: at exit Python 3.12 and later start none."""
        while True:
            self.worker.work()
            begun = monotonic()
            for delivery in self.deliveries.values():
                delivery.work(ending, begun)
            if self.spooling is None or self.spooling.is_idle:
                return True
            if not ending.seconds_left:
                return False
            sleep(0.01)

    def stop(self, ending: Ending) -> bool:
        """Have each delivery send what waits once; return whether all ended in time."""
        deliveries, begun = self.deliveries.values(), monotonic()
        for delivery in deliveries:
            if not delivery.start():
                delivery.work(ending, begun)
            delivery.stop()
        return _wait_for_each(ending, [(delivery.join, delivery) for delivery in deliveries])

    def close(self, *, delivered: bool) -> None:
        """Let go of files."""
        if self.spooling is not None:
            self.spooling.close(delivered=delivered)
        self.plan.close(ledger=self.worker.judging.has_ended(LEDGER_SECONDS))

    def retire(self, successor: Work) -> None:
        """Leave exporters open that another pipeline uses too."""
        for name, delivery in self.deliveries.items():
            other = successor.deliveries.get(name)
            delivery.closes = other is None or other.exporter != delivery.exporter


def _wait_for_each(
    ending: Ending, waits: Sequence[tuple[Callable[[float], bool], Delivery]]
) -> bool:
    """Wait for all deliveries, which go on side by side; return whether all of them are done.

    Each of them may use the time that is left, and none lives on what another one delivers.
    """
    begun, done = monotonic(), True
    for wait, one in waits:
        progressed = partial(getattr, one, "progressed")
        done &= ending.wait(wait, progressed, begun=begun, patience=one.patience)
    return done
