"""Runs judges on a daemon thread with an event loop of its own, never on the app's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import replace
from time import time_ns
from typing import Any

from llmeval_sdk.evaluation import WorkerPool, addressed, judge_record
from llmeval_sdk.evaluation.admission import NOT_RUN_REASONS
from llmeval_sdk.model import JUDGE_TAG, Evaluation, Failure, ModelCall, SpanData, Usage
from llmeval_sdk.pipeline.batch_exporter import Emitted
from llmeval_sdk.pipeline.dispatcher import Dispatcher
from llmeval_sdk.pipeline.jobs import Job, JobQueue, QueuedJob
from llmeval_sdk.pipeline.plan import Plan
from llmeval_sdk.process.counters import Counts
from llmeval_sdk.process.due import left
from llmeval_sdk.process.shield import shield, swallow, tell
from llmeval_sdk.process.threads import DaemonLoop, OneThread
from llmeval_sdk.tracing.internals import new_span_id, new_trace_id, off


# The judges' thread: one daemon thread with an event loop of its own, never the app's.

READY_SECONDS = 5.0


class JudgesLoop:
    """An event loop on a thread that starts when it is first needed."""

    def __init__(self, new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None) -> None:
        self._new_loop = new_loop or DaemonLoop
        self._thread = OneThread(self._serve, name="llmeval-judges")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._shut = False

    def start(self) -> bool:
        """Start the thread if it does not run; False where none can start."""
        return self._thread.start()

    def is_ready(self) -> bool:
        """Start the thread and wait for its loop; False where there will be none."""
        return self.start() and self._ready.wait(READY_SECONDS)

    def call(self, function: Callable[[], Any]) -> None:
        """Have a loop that is ready call a function soon."""
        if self._loop is not None:
            with suppress(RuntimeError):  # somebody else has ended the loop
                self._loop.call_soon_threadsafe(function)

    def shut(self) -> None:
        """End the loop and what still runs on it."""
        self._shut = True
        if self._loop is not None:
            self.call(self._loop.stop)

    def _serve(self) -> None:
        off()  # a judge that calls the app's decorated helpers is not traced, nor judged
        loop = self._loop = self._new_loop()
        loop.call_soon(self._ready.set)
        while not self._shut:
            with shield("judges' loop", on_own_thread=True):  # a sys.exit() in a judge ends it
                loop.run_forever()
        with shield("judges' loop"):
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))
            loop.run_until_complete(asyncio.wait_for(loop.shutdown_asyncgens(), 1.0))
            loop.close()  # the clients' connections were closed by the line above


MAX_WAITING = 1_000


class Judging:
    """Runs admitted judges in the background and emits their verdicts."""

    fleet = Counts()
    """What became of judgements that another process is to make."""

    def __init__(self, plan: Plan, dispatcher: Dispatcher) -> None:
        self._usage = Usage()
        """What all judgements used together; only the judges' thread adds to it."""
        self.cut_prompts = 0
        """Judgements whose prompt was cut to its limit."""
        self._plan = plan
        self._emit = emit = dispatcher.emit_judged
        self._verdicts = plan.verdicts()
        self._waiting: dict[Future[None], QueuedJob[Job]] = {}
        self._turns = JobQueue()
        self._pool = WorkerPool(plan.concurrency, self._next)
        self._loop = JudgesLoop(plan.new_loop)
        self._models = plan.models()
        self._shut = False
        self.decisions = None if plan.tier is None else plan.tier.begun(plan, self._loop, emit)
        """Asks the decision model on the same thread; ``None`` where there is none."""

    def start(self) -> bool:
        """Start the judges' thread if it does not run; False where none can start."""
        return self._loop.start()

    def submit(self, job: Job) -> Future[None] | None:
        """Take a job, or emit why it does not run.

        The worker calls it, and the judges' thread for what a decision asks for.
        """
        if self._shut:
            self._emit(job.not_run("shutdown", "the process was ending"))
        elif len(self._waiting) >= MAX_WAITING and not self._make_room(job):
            self._emit(job.not_run("queue_full", f"{MAX_WAITING} judgements were waiting"))
        elif not self._loop.is_ready():
            self._emit(job.not_run("no_worker", "no thread could be started"))
        else:
            turn = QueuedJob(job)
            self._waiting[turn.done] = turn
            self._turns.add(turn)
            self._loop.call(self._run_more)
            if self._shut:  # by another thread, which may have gone through those that wait
                self._cut(turn)
            return turn.done
        return None

    def _make_room(self, job: Job) -> bool:
        """Drop a waiting job that was not escalated, for one that was; False where none waits."""
        turn = self._turns.give_up() if job.admitted.escalated else None
        if turn is None:
            return False
        if turn.take():
            self._emit(turn.job.not_run("queue_full", "it gave way to an escalated judgement"))
        self._settle(turn)
        return True

    @property
    def usage(self) -> Usage:
        """What all judgements and decisions used together."""
        return self._usage if self.decisions is None else self._usage + self.decisions.usage

    @property
    def left_out(self) -> dict[str, int]:
        """What decisions were made without, by kind."""
        return {} if self.decisions is None else self.decisions.left_out

    @property
    def pending(self) -> int:
        """How many judgements wait or run."""
        return len(self._waiting) + (0 if self.decisions is None else self.decisions.pending)

    def join(self, deadline: float) -> bool:
        """Wait until all submitted jobs are done, at most until a monotonic deadline."""
        decisions = self.decisions
        waiting = [*([] if decisions is None else decisions.waiting), *self._waiting]
        return not waiting or not wait(waiting, left(deadline)).not_done

    def shut(self) -> None:
        """Give up all jobs that wait or run, and emit each as not run."""
        self._shut = True
        self._pool.dismiss()
        if self.decisions is not None:
            self.decisions.shut()
        for turn in list(self._waiting.values()):
            self._cut(turn)
        self._loop.shut()

    def _cut(self, turn: QueuedJob[Job]) -> None:
        """Give up a job because the process ends."""
        if turn.take():
            self._emit(turn.job.not_run("shutdown", "the process was ending"))
        if self._waiting.pop(turn.done, None) is not None and turn.done.cancel():
            turn.done.set_running_or_notify_cancel()  # wakes whoever waits for it

    # -- on the judges' thread ------------------------------------------------------------------

    def _run_more(self) -> None:
        """Call another task where there is a job for it."""
        if self._turns and not self._shut:
            self._pool.call()

    def _next(self) -> Coroutine[Any, Any, None] | None:
        turn = None if self._shut else self._turns.next()
        return None if turn is None else self._take(turn)

    async def _take(self, turn: QueuedJob[Job]) -> None:
        """Judge, and emit the outcome unless the worker has given the job up meanwhile."""
        job = turn.job
        try:
            items = await self._judge(job)
        except asyncio.CancelledError:
            if self._shut:
                raise
            items = [job.not_run("error", "CancelledError")]  # the judge itself raised it
        except BaseException as error:
            if self._shut and isinstance(error, GeneratorExit):
                raise
            if not swallow(f"judge {job.judge.name}", error, calls_out=True):
                self._settle(turn)
                raise
            items = [job.not_run("error", type(error).__name__)]
        if turn.take():
            for item in items:
                self._emit(item)
        self._settle(turn)

    def _settle(self, turn: QueuedJob[Job]) -> None:
        """Wake whoever waits until a job is dealt with."""
        if self._waiting.pop(turn.done, None) is not None:
            turn.done.set_result(None)

    async def _judge(self, job: Job) -> list[Emitted]:
        """Judge, and return what to emit: the verdict or why there is none, and the trace."""
        begun = time_ns()
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
        if verdict.usage is not None:
            self._usage += verdict.usage
        self.cut_prompts += not {"cut", "cut_prompts"}.isdisjoint(verdict.metadata)
        items: list[Emitted] = [
            addressed(verdict, job.target),
            *_judge_spans(job, verdict, begun, judgement.calls, content=self._plan.content),
        ]
        if error is not None:
            tell(f"judge {job.judge.name}", f"gave no verdict: {error.type}")
            reason = error.type if error.type in NOT_RUN_REASONS else "error"
            items.insert(0, job.not_run(reason, f"{error.type}: {error.message}"))
        return items


def _is_refusal(error: Failure) -> bool:
    """Return whether a judgement was not begun: for want of a model, a budget or a library."""
    return error.type in NOT_RUN_REASONS and error.type != "timeout"


def _judge_spans(
    job: Job,
    verdict: Evaluation,
    begun_ns: int,
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
        start_ns=begun_ns,
        end_ns=time_ns(),
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
