"""Judges and the decision model at work: one queue, and a daemon thread with an event loop.

The judges never run on the app's event loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from math import inf
from time import monotonic, time_ns
from typing import TYPE_CHECKING, Generic, TypeVar

from llmeval_sdk.evaluation.admission import Admitted
from llmeval_sdk.evaluation.running import WorkerPool, addressed, judge_record
from llmeval_sdk.evaluation.scoring import own_copy
from llmeval_sdk.model import (
    JUDGE_TAG,
    Evaluation,
    Failure,
    ModelCall,
    NotRun,
    Record,
    SpanData,
    Target,
    Usage,
    tier_name,
)
from llmeval_sdk.model.protocols import Judge
from llmeval_sdk.pipeline.batch_exporter import Emitted
from llmeval_sdk.pipeline.dispatcher import Dispatcher
from llmeval_sdk.pipeline.plan import Plan
from llmeval_sdk.process.exits import seconds_left
from llmeval_sdk.process.one_thread import OneThread
from llmeval_sdk.process.retries import pauses
from llmeval_sdk.process.shield import Counts, shield, swallow, tell
from llmeval_sdk.process.stopwatch import Stopwatch
from llmeval_sdk.process.threads import DaemonLoop
from llmeval_sdk.statistics.reasons import NOT_RUN_REASONS
from llmeval_sdk.tracing.internals import new_span_id, new_trace_id, off


if TYPE_CHECKING:
    from llmeval_sdk.evaluation.decisions import Decider


# The jobs of judges and of the decision model, and the queue in which they wait.

JobT = TypeVar("JobT", bound="Job | DecisionJob")


@dataclass(frozen=True, slots=True)
class Job:
    """One judge to run on one record."""

    judge: Judge
    record: Record
    target: Target
    admitted: Admitted
    in_spool: bool = False
    """Whether the spool holds the record until it is judged."""

    @property
    def name(self) -> str:
        """Whose errors are told when it fails."""
        return f"judge {self.judge.name}"

    def not_run(self, reason: str, detail: str) -> NotRun:
        """Return the record of why it did not run."""
        return not_run(self.judge, self.target, reason, detail)

    def refused(self, reason: str, detail: str) -> list[NotRun]:
        """Return the records of why it did not run: one."""
        return [self.not_run(reason, detail)]

    def follow_up(self, evaluations: Mapping[str, Evaluation]) -> list[Future[None]]:
        """Have nothing done: nobody waits for this judgement."""
        return []


FollowUp = Callable[[Mapping[str, Evaluation]], list[Future[None]]]


@dataclass(frozen=True, slots=True)
class DecisionJob:
    """One record that a decision model is asked about, in one request for several judges."""

    record: Record
    target: Target
    asked: Mapping[str, tuple[Judge, Admitted]]
    """The judges whose questions it answers, by name."""
    follow_up: FollowUp
    """Has the judges considered that go by these decisions; returns what judgements were begun."""

    name = "decisions"

    @property
    def judges(self) -> list[Judge]:
        """The judges whose questions it answers."""
        return [judge for judge, _ in self.asked.values()]

    def refused(self, reason: str, detail: str) -> list[NotRun]:
        """Return for each judge the record of why the decision model was not asked."""
        return [not_decided(judge, self.target, reason, detail) for judge in self.judges]

    def outcome(
        self, decided: Mapping[str, Evaluation], *, is_asked: bool
    ) -> tuple[list[Emitted], dict[str, Evaluation]]:
        """Return what to emit of the decisions, and their evaluations by the name of the judge.

        Args:
            decided: What came of each judge's questions.
            is_asked: Whether the model was asked at all.
        """
        items: list[Emitted] = []
        evaluations: dict[str, Evaluation] = {}
        for name, (judge, admitted) in self.asked.items():
            evaluation = decided[name]
            error = evaluation.error
            if error is not None:
                is_known = error.type in NOT_RUN_REASONS
                detail = error.message if is_known else f"{error.type}: {error.message}"
                reason = error.type if is_known else "error"
                items.append(not_decided(judge, self.target, reason, detail))
                if is_known and error.type != "timeout" and not is_asked:
                    continue
                tell(f"decision {name}", f"gave no answer: {error.type}")
            elif evaluation.metadata.get("cached"):
                why = "an identical question was answered a moment ago"
                items.append(not_decided(judge, self.target, "cached", why))
            evaluations[name] = replace(
                evaluation,
                inclusion_probability=admitted.probability,
                metadata={**evaluation.metadata, "why": admitted.why},
            )
            items.append(addressed(evaluations[name], self.target))
        return items, evaluations


class QueuedJob(Generic[JobT]):
    """A job that waits or runs; whoever takes it first emits its outcome, and nobody else does."""

    __slots__ = ("_taken", "done", "job")

    def __init__(self, job: JobT) -> None:
        self.job: JobT = job
        self.done: Future[None] = Future()
        self._taken = count()

    def take(self) -> bool:
        """Return True to the first caller only."""
        return next(self._taken) == 0


AnyQueued = QueuedJob[Job] | QueuedJob[DecisionJob]


class JobQueue:
    """The waiting jobs: those for the decision model, then what was escalated, then the others.

    The worker adds and gives up, the judges' thread takes the next one.
    """

    def __init__(self) -> None:
        self._decisions: deque[QueuedJob[DecisionJob]] = deque()
        self._escalated: deque[QueuedJob[Job]] = deque()
        self._others: deque[QueuedJob[Job]] = deque()

    def add_decision(self, queued: QueuedJob[DecisionJob]) -> None:
        """Add a job for the decision model."""
        self._decisions.append(queued)

    def add(self, queued: QueuedJob[Job]) -> None:
        """Add a judgement behind those of its kind, escalated or not."""
        (self._escalated if queued.job.admitted.escalated else self._others).append(queued)

    def next_decision(self) -> QueuedJob[DecisionJob] | None:
        """Take the job for the decision model that waited longest; ``None`` where none waits."""
        return _first(self._decisions)

    def next(self) -> QueuedJob[Job] | None:
        """Take the escalated judgement that waited longest, else another, if one waits."""
        return _first(self._escalated) or _first(self._others)

    def give_up(self) -> QueuedJob[Job] | None:
        """Take the newest judgement that was not escalated, to make room for one that was."""
        try:
            return self._others.pop()
        except IndexError:
            return None

    def count(self, kind: str) -> int:
        """Return how many jobs of a kind wait: ``decision`` or ``judgement``."""
        if kind == "decision":
            return len(self._decisions)
        return len(self._escalated) + len(self._others)


def _first(jobs: deque[QueuedJob[JobT]]) -> QueuedJob[JobT] | None:
    try:
        return jobs.popleft()
    except IndexError:
        return None


def not_run(judge: Judge, target: Target, reason: str, detail: str) -> NotRun:
    """Return the record of why a judge did not run."""
    return NotRun(
        f"{target.span_id or ''}-{judge.name}", target, judge.name, reason, detail, time_ns()
    )


def not_decided(judge: Judge, target: Target, reason: str, detail: str) -> NotRun:
    """Return the record of why a decision model did not answer a judge's questions."""
    item = not_run(judge, target, reason, detail)
    name = tier_name(judge.name, "decision")
    return replace(item, id=f"{target.span_id or ''}-{name}", evaluator=name)


# The judges' thread: one daemon thread with an event loop of its own, never the app's.

READY_SECONDS = 5.0
BACKOFF_SECONDS = 0.5
MAX_BACKOFF_SECONDS = 60.0


class JudgesLoop:
    """An event loop on a thread that starts when it is first needed.

    Where it cannot be opened, or is closed by somebody else, another one is opened after a pause.

    Args:
        new_loop: opens an event loop.
        opened: called on each new loop.
        lost: called on the thread when a loop was closed, with all that ran on it.
        ended: called on the thread when it ends.
    """

    def __init__(
        self,
        new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
        opened: Callable[[], None] = lambda: None,
        lost: Callable[[], None] = lambda: None,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        self._new_loop = new_loop or DaemonLoop
        self._opened = opened
        self._lost = lost
        self._ended = ended
        self._end = threading.Event()
        self.thread = OneThread(self._serve, name="llmeval-judges")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._shut = False

    def start(self) -> bool:
        """Start the thread if it does not run; False where none can start."""
        return self.thread.start()

    def is_ready(self) -> bool:
        """Start the thread and wait for its first loop; False where there is none for now."""
        return self.start() and self._ready.wait(READY_SECONDS) and self._loop is not None

    def call(self, function: Callable[[], object]) -> None:
        """Have a loop that is ready call a function soon."""
        if self._loop is not None:
            with suppress(RuntimeError):  # somebody else has ended the loop
                self._loop.call_soon_threadsafe(function)

    def shut(self) -> None:
        """End the loop and what still runs on it."""
        self._shut = True
        self._end.set()
        if self._loop is not None:
            self.call(self._loop.stop)

    def _serve(self) -> None:
        off()  # a judge that calls the app's decorated helpers is not traced, nor judged
        waits = pauses(BACKOFF_SECONDS, MAX_BACKOFF_SECONDS, spread=(1.0, 1.5))
        while not self._shut:
            with shield("judges' loop", on_own_thread=True):
                self._run(self._new_loop())
            self._loop = None
            self._ready.set()  # nobody waits for a loop that cannot be opened now
            self._end.wait(next(waits))
        with shield("judges' loop", on_own_thread=True):
            self._ended()

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run a loop until it is shut, or was closed by somebody else."""
        self._loop = loop
        loop.call_soon(self._ready.set)
        loop.call_soon(self._opened)
        while not self._shut and not loop.is_closed():
            with shield("judges' loop", on_own_thread=True):  # a sys.exit() in a judge ends it
                try:
                    loop.run_forever()
                except OSError:  # somebody has closed its files
                    with suppress(Exception):
                        loop.close()
                    raise
        if loop.is_closed():
            self._loop = None
            self._lost()
            return
        with shield("judges' loop"):
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))
            loop.run_until_complete(asyncio.wait_for(loop.shutdown_asyncgens(), 1.0))
            loop.close()  # the clients' connections were closed by the line above


NO_LOOP = "no thread, or no event loop for it, could be started"
MAX_WAITING = 1_000
"""Jobs that may wait or run for judge models, and as many for the decision model."""
AHEAD = 2
"""How many records are made ready for each request that the decision model gets at a time.

The other half waits for its place while answers are read, so that the model never waits for us."""


class Judging:
    """Runs admitted judges, and the decision model, in the background and emits what they say."""

    fleet = Counts()
    """What became of judgements that another process is to make."""

    def __init__(self, plan: Plan, dispatcher: Dispatcher) -> None:
        self._used = Usage()
        """What judgements and decisions that were made here used; the judges' thread alone adds."""
        self.cut_prompts = 0
        """Judgements whose prompt was cut to its limit."""
        self._plan = plan
        self._emit = dispatcher.emit_judged
        self._verdicts = plan.verdicts()
        self._jobs = JobQueue()
        self._waiting: dict[Future[None], AnyQueued] = {}
        """The jobs that are not settled: those of the queue, those that run, and decisions that
        were made and whose judgements wait or run."""
        self._judgements: set[Future[None]] = set()
        """The judgements that wait or run."""
        self._decisions: set[Future[None]] = set()
        """The jobs for the decision model that wait or run."""
        decisions = 0 if plan.decisions is None else AHEAD * plan.decisions.concurrency
        self._places = {"judgement": plan.concurrency, "decision": decisions}
        """How many jobs of each kind run at a time."""
        self._running = dict.fromkeys(self._places, 0)
        self._pool = WorkerPool(plan.concurrency + decisions, self._next)
        self._loop = JudgesLoop(
            plan.new_loop, self._run_more, self._lose, plan.limiter.close_ledger
        )
        self._models = plan.models()
        self._decider: Decider | None = None
        self._shut = False
        self._is_woken = False
        """Whether the judges' thread will look for the jobs that were added."""

    def start(self) -> bool:
        """Start the judges' thread if it does not run; False where none can start."""
        return self._loop.start()

    @property
    def thread(self) -> OneThread:
        """The thread that runs judges."""
        return self._loop.thread

    def submit(self, job: Job) -> Future[None] | None:
        """Take a judgement, or emit why it is not made.

        The worker calls it, and the judges' thread for what a decision asks for.
        """
        if self._shut:
            self._emit(job.not_run("shutdown", "the process was ending"))
        elif silence := self._plan.limiter.silence:
            self._emit(job.not_run("no_ledger", silence))
        elif len(self._judgements) >= MAX_WAITING and not self._make_room(job):
            self._emit(job.not_run("queue_full", f"{MAX_WAITING} judgements were waiting"))
        elif not self._loop.is_ready():
            self._emit(job.not_run("no_worker", NO_LOOP))
        else:
            queued = QueuedJob(job)
            self._judgements.add(queued.done)
            self._waiting[queued.done] = queued
            self._jobs.add(queued)
            self._wake_judges()
            if self._shut:  # by another thread, which may have gone through those that wait
                self._cut(queued)
            return queued.done
        return None

    def decide(self, job: DecisionJob) -> list[Future[None]]:
        """Have the decision model asked about a record, or go on without its answers.

        Returns:
            What is done when the record is decided, and judged where the decisions ask for it.
        """
        if self._shut:
            why = "shutdown", "the process was ending"
        elif silence := self._plan.limiter.silence:
            why = "no_ledger", silence
        elif len(self._decisions) >= MAX_WAITING:
            why = "queue_full", f"{MAX_WAITING} records were waiting"
        elif not self._loop.is_ready():
            why = "no_worker", NO_LOOP
        else:
            queued = QueuedJob(job)
            self._decisions.add(queued.done)
            self._waiting[queued.done] = queued
            self._jobs.add_decision(queued)
            self._wake_judges()
            if self._shut:
                self._cut(queued)
            return [queued.done]
        return self._give_up(job, *why)

    def _give_up(self, job: Job | DecisionJob, reason: str, detail: str) -> list[Future[None]]:
        """Emit that a job is not done, and let what waits for it go on without."""
        for item in job.refused(reason, detail):
            self._emit(item)
        return job.follow_up({})

    def _wake_judges(self) -> None:
        """Have the judges' thread look for jobs.

        A burst of jobs wakes it once: each call from another thread is a write to a socket, at
        which the threads contend for the interpreter's lock.
        """
        if not self._is_woken:
            self._is_woken = True
            self._loop.call(self._run_more)

    def _make_room(self, job: Job) -> bool:
        """Drop a waiting job that was not escalated, for one that was; False where none waits."""
        queued = self._jobs.give_up() if job.admitted.escalated else None
        if queued is None:
            return False
        if queued.take():
            self._emit(queued.job.not_run("queue_full", "it gave way to an escalated judgement"))
        self._settle(queued)
        return True

    @property
    def usage(self) -> Usage:
        """What all judgements and decisions used together."""
        return self._used

    @property
    def left_out(self) -> dict[str, int]:
        """The parts of requests that a decision model was not shown, because they are no text."""
        return {} if self._decider is None else dict(self._decider.left_out)

    @property
    def pending(self) -> int:
        """How many jobs wait or run."""
        return len(self._waiting)

    def join(self, deadline: float, *, patience: float = inf) -> bool:
        """Wait until all jobs so far are done, at most until a monotonic deadline.

        It gives up sooner if no job ends for ``patience`` seconds.
        """
        waiting = set(self._waiting)
        while waiting:
            done, waiting = wait(waiting, min(seconds_left(deadline), patience))
            if waiting and (not done or monotonic() >= deadline):
                return False
        return True

    def has_ended(self, seconds: float) -> bool:
        """Wait for the judges' thread; True if it has ended, and closed the ledger, or never began.

        It does not end while it writes to a network disk that is dead.
        """
        return self.thread.join(monotonic() + seconds)

    def shut(self) -> None:
        """Give up all jobs that wait or run, and emit each as not run."""
        self._shut = True
        self._pool.dismiss()
        for queued in list(self._waiting.values()):
            self._cut(queued)
        self._loop.shut()

    def _lose(self) -> None:
        """Give up the jobs of a loop that somebody has closed."""
        self._running = dict.fromkeys(self._places, 0)
        self._pool = WorkerPool(sum(self._places.values()), self._next)
        self._is_woken = False
        for queued in list(self._waiting.values()):
            if queued.take():
                self._give_up(queued.job, "no_worker", "the event loop of the judges was closed")
            self._settle(queued)

    def _cut(self, queued: AnyQueued) -> None:
        """Give up a job because the process ends; the spool keeps its record."""
        if queued.take():
            self._give_up(queued.job, "shutdown", "the process was ending")
        self._settle(queued, is_cut=True)

    # -- on the judges' thread ------------------------------------------------------------------

    def _run_more(self) -> None:
        """Call a task for each job for which a place of its kind is free.

        The others are taken by the tasks that free the places.
        """
        self._is_woken = False  # before the look at the jobs, so that none is missed
        if not self._shut:
            self._pool.call(
                sum(
                    min(self._jobs.count(kind), places - self._running[kind])
                    for kind, places in self._places.items()
                )
            )

    def _next(self) -> Coroutine[object, object, None] | None:
        """Take the next job of a kind of which another one may run."""
        if self._shut:
            return None
        queued: AnyQueued | None
        for kind, take in (("decision", self._jobs.next_decision), ("judgement", self._jobs.next)):
            if self._running[kind] < self._places[kind] and (queued := take()) is not None:
                self._running[kind] += 1
                return self._run(queued, kind)
        return None

    async def _run(self, queued: AnyQueued, kind: str) -> None:
        """Do a job, and emit the outcome unless the worker has given the job up meanwhile."""
        job, running = queued.job, self._running
        items: Sequence[Emitted]
        evaluations: Mapping[str, Evaluation] = {}
        try:
            if isinstance(job, DecisionJob):
                items, evaluations = await self._decide(job)
            else:
                items = await self._judge(job)
        except asyncio.CancelledError:
            if self._shut:
                raise
            items = job.refused("error", "CancelledError")  # the judge or model itself raised it
        except BaseException as error:
            if self._shut and isinstance(error, GeneratorExit):
                raise
            if not swallow(job.name, error):
                self._settle(queued)
                raise
            items = job.refused("error", type(error).__name__)
        finally:
            running[kind] -= 1
        self._conclude(queued, items, evaluations)

    def _conclude(
        self,
        queued: AnyQueued,
        items: Sequence[Emitted],
        evaluations: Mapping[str, Evaluation],
    ) -> None:
        """Emit what came of a job, and let what waited for it go on."""
        self._decisions.discard(queued.done)
        begun: list[Future[None]] = []
        try:
            with shield("judging", on_own_thread=True):
                if queued.take():
                    for item in items:
                        self._emit(item)
                    begun = queued.job.follow_up(evaluations)
        finally:
            if not begun:
                self._settle(queued)
        _when_done(begun, lambda is_cut: self._settle(queued, is_cut=is_cut))

    def _settle(self, queued: AnyQueued, *, is_cut: bool = False) -> None:
        """Say that a job is dealt with; where that was cut short, the spool keeps the record."""
        self._judgements.discard(queued.done)
        self._decisions.discard(queued.done)
        if self._waiting.pop(queued.done, None) is None:
            return
        if is_cut and queued.done.cancel():
            queued.done.set_running_or_notify_cancel()  # wakes whoever waits for it
        elif not is_cut:
            queued.done.set_result(None)

    async def _decide(self, job: DecisionJob) -> tuple[list[Emitted], dict[str, Evaluation]]:
        """Ask the decision model; return what to emit, and the decisions by judge."""
        if self._decider is None:
            self._decider = self._plan.decider()
        # The copy is made here, where what it raises is a reason for every judge that is asked.
        decided = await self._decider.decide(own_copy(job.record), job.judges)
        items, evaluations = job.outcome(decided.evaluations, is_asked=bool(decided.calls))
        for evaluation in evaluations.values():
            self._add_own(evaluation.usage)
        return items, evaluations

    def _add_own(self, usage: Usage | None) -> None:
        """Add what a judgement or a decision used that was made here."""
        if usage is not None:
            self._used += usage

    async def _judge(self, job: Job) -> list[Emitted]:
        """Judge, and return what to emit: the verdict or why there is none, and the trace."""
        clock = Stopwatch()
        judgement = await judge_record(
            job.judge,
            job.record,
            self._models,
            timeout=self._plan.judge_timeout,
            verdicts=self._verdicts,
        )
        verdict = replace(
            judgement.verdict,
            inclusion_probability=job.admitted.probability,
            metadata={**judgement.verdict.metadata, "why": job.admitted.why},
        )
        if judgement.is_kept:
            why = job.not_run("cached", "an identical judgement was made a moment ago")
            return [addressed(verdict, job.target), why]
        error = verdict.error
        if error is not None and not judgement.calls and _is_refusal(error):
            return [job.not_run(error.type, error.message)]
        self._add_own(verdict.usage)
        self.cut_prompts += not {"cut", "cut_prompts"}.isdisjoint(verdict.metadata)
        items: list[Emitted] = [
            addressed(verdict, job.target),
            *_judge_spans(job, verdict, clock, judgement.calls, content=self._plan.content),
        ]
        if error is not None:
            tell(f"judge {job.judge.name}", f"gave no verdict: {error.type}")
            reason = error.type if error.type in NOT_RUN_REASONS else "error"
            items.insert(0, job.not_run(reason, f"{error.type}: {error.message}"))
        return items


def _when_done(futures: Sequence[Future[None]], call: Callable[[bool], None]) -> None:
    """Call a function once all futures are done, with whether one was cancelled; never for none."""
    finished = count(1)

    def one_done(_: Future[None]) -> None:
        if next(finished) == len(futures):
            call(any(future.cancelled() for future in futures))

    for future in futures:
        future.add_done_callback(one_done)


def _is_refusal(error: Failure) -> bool:
    """Return whether a judgement was not begun: for want of a model, a budget or a library."""
    return error.type in NOT_RUN_REASONS and error.type != "timeout"


def _judge_spans(
    job: Job,
    verdict: Evaluation,
    clock: Stopwatch,
    calls: Sequence[ModelCall] = (),
    *,
    content: bool,
) -> list[SpanData]:
    """Return the trace of a judge's run: a root with a link to what it judged, a span per call.

    The root has the usage of the whole judgement, so whoever adds usages up adds those of the
    ``llm`` and ``embedding`` spans only.
    """
    judge = job.judge
    response = {"value": verdict.value, "explanation": verdict.explanation}
    root = SpanData(
        trace_id=f"{new_trace_id():032x}",
        span_id=f"{new_span_id():016x}",
        parent_id=None,
        name=judge.name,
        kind="workflow",
        start_ns=clock.start_ns,
        end_ns=clock.now_ns(),
        response=response if content else {"value": verdict.value},
        error=verdict.error,
        tags={JUDGE_TAG: judge.name, **judge.span_tags},
        usage=verdict.usage,
        model_name=verdict.metadata.get("model"),
        links=(job.target,),
    )
    return [root, *(_call_span(root, call, content=content) for call in calls)]


def _call_span(root: SpanData, call: ModelCall, *, content: bool) -> SpanData:
    return replace(
        root,
        span_id=f"{new_span_id():016x}",
        parent_id=root.span_id,
        name=call.name,
        kind="embedding" if call.name == "embeddings" else "llm",
        start_ns=call.start_ns,
        end_ns=call.end_ns,
        response=call.response if content else None,
        error=Failure(call.error) if call.error else None,
        usage=call.usage,
        model_name=call.model or None,
        links=(),
    )
