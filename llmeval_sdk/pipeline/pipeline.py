"""One pipeline: the intake on the app's threads, what works behind it, and how both begin and end.

Everything behind the intake is loaded and made by the worker's thread, so that the first call of a
process does not wait for it; see `intake` and `work`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count
from math import inf
from threading import get_ident
from time import monotonic, perf_counter
from typing import TYPE_CHECKING

from llmeval_sdk import registry
from llmeval_sdk.model import DAY_SECONDS, Evaluation, EvaluationEvent
from llmeval_sdk.pipeline.intake import IntakePlan
from llmeval_sdk.pipeline.span_processor import SpanProcessor
from llmeval_sdk.process import shield
from llmeval_sdk.process.exits import (
    QUIET_SECONDS,
    Ending,
    is_to_be_killed,
    is_work_horse,
    may_have_children,
)
from llmeval_sdk.process.loading import loading
from llmeval_sdk.process.one_thread import OneThread
from llmeval_sdk.tracing import Span
from llmeval_sdk.tracing.internals import off


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llmeval_sdk.model.protocols import BaseExporter, Evaluator, Heuristic, Judge
    from llmeval_sdk.pipeline.given import Given
    from llmeval_sdk.pipeline.plan import Plan
    from llmeval_sdk.pipeline.stats import Stats
    from llmeval_sdk.pipeline.work import Work


LONGEST_SECONDS = 365 * DAY_SECONDS
"""For this long a flush waits that was given no limit: the system's own waits have one."""
PATIENCE = 3
"""Such a flush gives up on the judges if none of them ends in so many times the time that one
judgement may take."""
CHILD_LINGER_SECONDS = 5.0
"""How long a child that may be killed gathers records before it delivers them. Its parent delivers
what it leaves, and would send again what the child had sent and not yet settled."""
SHORTEST_SECONDS = 0.1
"""A work-horse with less time than this for delivering leaves it to the next one, which would send
again what was begun and not finished."""
PASSING_SECONDS = 1.0
"""How many seconds a work-horse waits at least between two such deliveries."""
TASK_SECONDS = 1.0
"""How long each task of such a child may wait for delivery, where no file can hold its records."""
LOADING_SECONDS = 10.0
"""How long the end of a process waits until what works in the background is loaded."""

FIRST_PAUSE_SECONDS = 0.02
"""How long the worker lets the request go on with whose first record it was started."""
MAX_PAUSE_SECONDS = 0.02
"""How long it pauses at most between two steps of loading."""

MakePlan = Callable[[Callable[[], None]], "Plan"]
"""Makes the plan; it calls its argument after each small step, so that the worker can pause."""


def nothing_recorded(error: BaseException) -> str:
    """Say why nothing is recorded, without what the reason may quote of a secret."""
    return f"nothing is recorded: {registry.why_of(error)}"


class Pipeline:
    """Records, evaluates and delivers spans until it is shut down.

    Its threads start with the first record.

    Args:
        intake: what the app's thread works by.
        make_plan: makes the plan of all the rest.
        begun: called once, when the threads have started.
        often: called by the worker after each piece of work, and every second when there is none.
    """

    def __init__(
        self,
        intake: IntakePlan,
        make_plan: MakePlan,
        *,
        begun: Callable[[], None] | None = None,
        often: Callable[[], None] = shield.write_notices,
    ) -> None:
        self.intake = intake
        self.make_plan = make_plan
        self.given: Given | None = None
        """What ``configure()`` made it of; ``None`` where something else did."""
        self._begun = begun
        self._often = often
        self._span_processor = SpanProcessor(intake, self.start, self._find)
        self._work: Work | None = None
        self._late: deque[Callable[[Plan], object]] = deque()
        """What the app declared while the plan was made, to be added to it."""
        self._making = threading.RLock()
        """Held while the work is made; who waits for it waits here."""
        self._maker: int | None = None
        self._has_failed = False
        self._hurry = threading.Event()
        """Set when somebody waits for the work, so that it is made without pauses."""
        self._thread = OneThread(self._run, name="llmeval-worker")
        self._judges_thread = OneThread(self._judge, name="llmeval-judges")
        self._made = threading.Event()
        """Set when the work is made, or cannot be."""
        self._worker_thread: int | None = None
        self._begun_step = 0.0
        self._starting = threading.RLock()
        self._started = False
        self._passed = 0.0
        """The monotonic time at which a work-horse last delivered at the end of a span."""
        self._is_abandoned = False
        """Whether the pipeline was shut down before it had anything to work with."""
        self._done = threading.Event()
        self._ending = count()
        self._ender: int | None = None
        self.on_start = self._span_processor.on_start
        self.on_end = self._span_processor.on_end
        self.take = self._span_processor.take

    # -- what works behind the intake -----------------------------------------------------------

    def work(self, timeout: float = LOADING_SECONDS) -> Work | None:
        """Return what works in the background; make it on this thread if nobody has begun to.

        Returns ``None`` where it cannot be made, is not ready in time, or is being made by this
        very thread, which a signal handler has interrupted.
        """
        if self._work is None and self._maker != get_ident():
            self._hurry.set()
            if self._making.acquire(timeout=timeout):
                try:
                    self._make()
                finally:
                    self._making.release()
        return self._work

    @property
    def plan(self) -> Plan:
        """What it works by.

        Raises:
            RuntimeError: the plan cannot be made; the log has the reason.
        """
        if (work := self.work()) is None:
            raise RuntimeError("the plan cannot be made; the log has the reason")
        return work.plan

    def in_child(self) -> Pipeline:
        """Return a pipeline without records and threads, for a forked child, by the same plan."""
        make_plan, work = self.make_plan, self._work
        if work is not None:
            plan = work.plan
            make_plan = lambda _: plan  # noqa: E731
        child = Pipeline(self.intake, make_plan, begun=self._begun, often=self._often)
        if work is not None:
            child.work()
        return child

    @property
    def exporters(self) -> Sequence[BaseExporter]:
        """The exporters that are made so far."""
        return self.intake.exporters if self._work is None else self._work.plan.exporters

    def add(self, heuristic: Heuristic, *, inline: bool) -> None:
        """Add a heuristic that the app declared after the pipeline was put in force."""
        if inline:
            self._span_processor.inline.add(heuristic)
        self._change(lambda plan: (plan.inline if inline else plan.background).add(heuristic))

    def add_judge(self, judge: Judge) -> None:
        """Add a judge that a rule or an escalation was waiting for; see `add`."""
        self._change(lambda plan: plan.add_awaited(judge))

    def _change(self, change: Callable[[Plan], object]) -> None:
        """Change the plan now, or as soon as it is made."""
        self._late.append(change)
        if self._work is not None:
            self._catch_up(self._work.plan)

    def _catch_up(self, plan: Plan) -> None:
        while self._late:
            try:
                change = self._late.popleft()
            except IndexError:  # another thread makes the last change
                return
            change(plan)

    def say_if_nothing_was_judged(self, stats: Stats) -> None:
        """Leave a line for the log if judges were asked for and none of them gave a verdict."""
        if self._work is not None:
            from llmeval_sdk.pipeline.dispatcher import say_if_nothing_was_judged

            say_if_nothing_was_judged(self._work.plan, stats)

    def _make(self) -> None:
        """Make the work, once. Where it fails, nothing is recorded any more, and all is counted."""
        if self._work is not None or self._has_failed:
            return
        self._maker = get_ident()
        try:
            with loading:
                plan = self.make_plan(self._pause)
                self._pause()
                from llmeval_sdk.pipeline.work import Work

                work = Work(plan, self._span_processor, often=self._often)
            self._span_processor.follow(plan.exporters)
            self._span_processor.put_in_force(plan.inline)
            work.worker.judging.thread.rely_on(self._judges_thread)
            self._work = work
            self._catch_up(plan)
        except (Exception, SystemExit) as error:
            if not shield.swallow("configure", error, nothing_recorded(error)):
                raise
            self._has_failed = True
            self._span_processor.closed = True  # a successor goes on taking what comes
            self._span_processor.sweep("no_worker")
        finally:
            self._maker = None
            self._made.set()

    def _pause(self) -> None:
        """Let the app's threads, and a fork, go between two steps of loading."""
        worked = perf_counter() - self._begun_step
        if not self._hurry.is_set() and self._maker == self._worker_thread:
            loading.rest(min(worked, MAX_PAUSE_SECONDS))
        self._begun_step = perf_counter()

    def _run(self) -> None:
        off()
        self._worker_thread = get_ident()
        self._hurry.wait(FIRST_PAUSE_SECONDS)
        self._begun_step = perf_counter()
        with self._making:
            self._make()
        if self._work is None:
            return
        if self._is_abandoned:
            self._span_processor.sweep()
            self._work.close(delivered=self._work.stop(Ending.within(0)))
            return
        self._work.start()
        self._work.worker.run()

    def _judge(self) -> None:
        """Be the judges' thread: from 3.12 on, Python starts none once the script has ended."""
        self._made.wait()
        if self._work is not None:
            self._work.worker.judging.thread.take()

    def _find(self, name: object) -> Evaluator | None:
        return None if (work := self.work()) is None else work.plan.find(name)

    # -- what tracing calls ---------------------------------------------------------------------

    @property
    def reads_at_once(self) -> bool:
        """Whether something reads a span, with all that was left to it, the moment it ends."""
        return self._span_processor.reads_at_once

    def evaluate(self, span: Span, name: str, /) -> Evaluation | None:
        """Compute one heuristic at once on what a span holds so far."""
        return self._span_processor.evaluate(span, name)

    def scores(self, span: Span, /) -> Iterable[Evaluation]:
        """Return the scores of a span so far, which are made now where they were not yet."""
        return self._span_processor.scores(span)

    def submit(self, event: EvaluationEvent, size: int = 0) -> None:
        """Take an evaluation of about ``size`` bytes that was not made here; 0: it is measured."""
        if not size:
            from llmeval_sdk.pipeline.dispatcher import size_of  # which no thread of an app needs

            size = size_of(event)
        self._span_processor.submit(event, size)

    # -- counters -------------------------------------------------------------------------------

    @property
    def started(self) -> bool:
        """Whether anything was ever taken in."""
        work = self._work
        used = work is not None and work.spooling is not None and work.spooling.is_used
        return self._started or used

    def is_made_of(self, given: Given) -> bool:
        """Return whether it runs, and another one made of this would do the same."""
        runs = not self._span_processor.closed and not self._has_failed
        runs = runs and not any(exporter.in_memory for exporter in self.exporters)  # tried again
        return runs and self.given is not None and self.given.is_same(given)

    @property
    def is_idle(self) -> bool:
        """Whether all that other processes left in the spool is dealt with."""
        return self._work is None or self._work.is_idle

    def stats(self) -> Stats:
        """Return all counters as they stand; it waits for nothing."""
        taken = self._span_processor
        spans, evaluations = taken.spans.value, taken.evaluations.total
        dropped = taken.dropped.snapshot()
        if self._work is not None:
            return self._work.stats(spans, evaluations, dropped)
        from llmeval_sdk.pipeline.stats import ExporterStats, Stats

        created = spans + evaluations
        waiting = created - sum(dropped.values())
        account = ExporterStats(created=created, dropped=dropped, undelivered=waiting)
        return Stats(
            spans=spans,
            evaluations=evaluations,
            dropped=dropped,
            exporters=dict.fromkeys(self.intake.names, account),
            problems=shield.caught.snapshot(),
        )

    # -- the end --------------------------------------------------------------------------------

    def flush(self, ending: Ending | None) -> Stats:
        """Wait until all records so far are scored, judged and delivered.

        ``None`` waits for as long as judgements come to an end, and deliveries.
        """
        is_patient, ending = ending is None, ending or Ending.within(LONGEST_SECONDS)
        if self._span_processor.closed:  # another thread is ending this pipeline, or has ended it
            self._wait_for_end(ending)
            return self._outcome()
        complete = self._finish(ending, is_patient=is_patient)
        shield.write_notices()
        return replace(self.stats(), complete=complete)

    def left(self, stats: Stats) -> str:
        """Say what a flush left undone, and for how long that may take; empty: nothing."""
        if self._work is None:
            return f"{stats.undelivered} records to deliver" if stats.undelivered else ""
        return self._work.left(stats)

    def shutdown(self, ending: Ending) -> Stats:
        """Take in nothing more; deliver what is there in time, and count the rest."""
        if next(self._ending) > 0:
            self._hasten(ending)
            return self._outcome()
        self._ender = get_ident()
        has_left = self._has_left_records(ending.seconds_left)
        if not self._span_processor.closed:
            self._span_processor.close()
        complete = delivered = True
        if has_left:
            complete = self._finish(ending.part(0.9))
        if self._started:
            work = self.work(ending.seconds_left)
            if work is None:
                self._is_abandoned = True  # the worker looks here once it has made the work
                complete = False
            else:
                complete &= work.settle(ending, last=True)
                delivered = work.stop(ending)
                work.worker.stop()
        if self._thread.join(monotonic() + 0.25):  # the record in hand is scored and counted first
            self._span_processor.sweep()
        if self._work is not None:
            self._work.close(delivered=delivered)
        shield.write_notices()
        self._done.set()
        return replace(self.stats(), complete=complete and delivered)

    def _has_left_records(self, timeout: float) -> bool:
        """Return whether children of this process have left records to deliver here."""
        if self._work is None and not may_have_children():
            return False
        work = self.work(timeout)
        if work is None or not work.look_for_left_records():
            return False
        self.start()
        return True

    def _finish(self, ending: Ending, *, is_patient: bool = False) -> bool:
        """Deal with all records, also with those that children of this process have left."""
        has_left = self._has_left_records(ending.seconds_left)
        if not self._started and not has_left:
            return True
        work = self.work(ending.seconds_left)
        if work is None:
            return False
        if not self._started:
            return work.work_here(ending)
        patience = PATIENCE * work.plan.judge_timeout if is_patient else inf
        return work.finish(ending, has_left=has_left, patience=patience)

    def retire(self, successor: Pipeline) -> None:
        """Leave all further records to another pipeline; exporters that it uses too stay open."""
        with self._starting:
            self._span_processor.close(successor._span_processor)
        if self._work is not None and (work := successor.work()) is not None:
            self._work.retire(work)

    def _hasten(self, ending: Ending) -> None:
        """Wait while another thread ends this pipeline; give up judges after their share."""
        self._wait_for_end(ending, until=ending.judges_until)
        if not self._done.is_set():
            if self._work is not None:
                self._work.worker.judging.shut()
            self._wait_for_end(ending)

    def _wait_for_end(self, ending: Ending, *, until: float = inf) -> None:
        if self._ender != get_ident():  # a signal handler inside `shutdown` would wait for itself
            ending.wait(self._done.wait, self._progressed, until=until)

    def _progressed(self) -> float:
        return 0.0 if self._work is None else self._work.progressed()

    @property
    def is_ending(self) -> bool:
        """Whether a thread is ending this pipeline, or has ended it."""
        return self._span_processor.closed

    def _outcome(self) -> Stats:
        """Return the counters of a pipeline that is ending or has ended."""
        stats = self.stats()
        settled = not stats.undelivered and not stats.pending_judgements
        return replace(stats, complete=self._done.is_set() and settled)

    def note(self, lost: Mapping[str, Mapping[str, int]]) -> None:
        """Have exporters note what was lost, but none that hangs at the end of its pipeline."""
        for delivery in self._work.deliveries.values() if self._work is not None else ():
            if not self._span_processor.closed or delivery.join(0):
                with shield.shield(f"exporter {delivery.name}", calls_out=True):
                    delivery.exporter.note(lost)

    def clear(self) -> None:
        """Forget what was not delivered, before the interpreter ends.

        The interpreter would look at each object several times: half a second for full queues.
        """
        self._span_processor.lane.clear()
        self._span_processor.reserved.clear()
        for delivery in self._work.deliveries.values() if self._work is not None else ():
            delivery.clear()

    # -- the beginning --------------------------------------------------------------------------

    def start(self) -> bool:
        """Start the worker; False where none can start, or where this process is to have none.

        The first record does it; calling it earlier takes over what other processes left.
        """
        work = self._work
        if work is None and (self.intake.is_whole or is_to_be_killed()):
            work = self.work()
        if work is not None and work.plan.role == "off":
            return False
        with self._starting:
            if not self._started and not self._span_processor.closed:
                if work is not None:
                    self._prepare_for_the_kill(work)
                    work.start()
                elif self.intake.may_judge:
                    self._judges_thread.start()
                if self._thread.start() and not self._started:  # a finaliser may have got here too
                    self._started = True
                    if self._begun is not None:
                        with shield.shield("the end of the process"):
                            self._begun()
            return self._started

    def _prepare_for_the_kill(self, work: Work) -> None:
        """Spool the records where the parent finds them, if it is going to kill this process."""
        spooling = work.spooling
        if spooling is None or work.plan.spool is not None or not is_to_be_killed():
            return
        if spooling.open(crowded=work.worker.hasten):
            self._span_processor.spool = spooling
            work.worker.linger = CHILD_LINGER_SECONDS
            if is_work_horse():  # no parent delivers what it leaves, but a later one does
                spooling.look()
                self._span_processor.at_task_end = self._deliver_in_passing
        else:
            self._span_processor.at_task_end = self._deliver_at_once

    def _deliver_in_passing(self, root: Span) -> None:
        """Deliver what the spool holds, now and then, for a tenth of the time that a job took."""
        seconds = (root.end_ns - root.start_ns) / 10 / 1e9
        if seconds > SHORTEST_SECONDS and monotonic() - self._passed > PASSING_SECONDS:
            self._passed = monotonic()
            self.flush(Ending(monotonic() + seconds, QUIET_SECONDS))

    def _deliver_at_once(self, _: Span) -> None:
        """Deliver before the task ends, for as long as that works in time."""
        if not self.flush(Ending.within(TASK_SECONDS)).complete:
            self._span_processor.at_task_end = None
            shield.tell("spool", "records are lost when the parent terminates this process")
