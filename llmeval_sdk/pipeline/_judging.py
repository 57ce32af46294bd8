"""Where judges run: one daemon thread with an event loop of its own, never the app's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import replace
from time import monotonic, time_ns

from llmeval_sdk._process.shield import shield, swallow, tell
from llmeval_sdk._process.threads import DaemonLoop, OneThread
from llmeval_sdk.evaluation import NoModel, run_judge
from llmeval_sdk.model import Evaluation, EvaluationEvent, NotRun, SpanData, Target, Usage
from llmeval_sdk.pipeline._judge_spans import judge_spans
from llmeval_sdk.pipeline._models import Models
from llmeval_sdk.pipeline._plan import Plan
from llmeval_sdk.pipeline._turns import Job, Turn, Turns
from llmeval_sdk.policy.cache import JudgementCache, judgement_key
from llmeval_sdk.policy.decisions import NOT_RUN_REASONS
from llmeval_sdk.tracing._inner import new_span_id, off


READY_SECONDS = 5.0
MAX_WAITING = 1_000


Emit = Callable[[EvaluationEvent | NotRun | SpanData], None]


class Judging:
    """Runs admitted judges in the background and emits what they said."""

    def __init__(self, plan: Plan, emit: Emit) -> None:
        self.usage = Usage()
        """What the calls of all judgements used together; only the judges' thread adds to it."""
        self.cut_prompts = 0
        """Judgements whose prompt was cut to its limit."""
        self._plan = plan
        self._emit = emit
        self._cache = JudgementCache()
        self._waiting: dict[Future[None], Turn] = {}
        self._turns = Turns()
        self._running: set[asyncio.Task[None]] = set()
        self._thread = OneThread(self._serve, name="llmeval-judges")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._models = Models(plan)
        self._shut = False

    def start(self) -> bool:
        """Start the judges' thread if it does not run; False where none can start."""
        return self._thread.start()

    def _serve(self) -> None:
        off()  # a judge that calls the app's decorated helpers is not traced, nor judged
        loop = self._loop = DaemonLoop()
        loop.call_soon(self._ready.set)
        while not self._shut:
            with shield("judges' loop", on_own_thread=True):  # a sys.exit() in a judge ends it
                loop.run_forever()
        with shield("judges' loop"):
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))
            loop.run_until_complete(asyncio.wait_for(loop.shutdown_asyncgens(), 1.0))
            loop.close()  # the line before closed the clients' connections

    def submit(self, job: Job) -> Future[None] | None:
        """Take a job; what cannot run is emitted as not run. Called by the worker only."""
        if self._shut:
            self._emit(job.not_run("shutdown", "the process was ending"))
        elif len(self._waiting) >= MAX_WAITING and not self._make_room(job):
            self._emit(job.not_run("queue_full", f"{MAX_WAITING} judgements were waiting"))
        elif not (self.start() and self._ready.wait(READY_SECONDS)):
            self._emit(job.not_run("no_worker", "no thread could be started"))
        else:
            assert self._loop is not None
            turn = Turn(job)
            self._waiting[turn.done] = turn
            self._turns.add(turn)
            self._loop.call_soon_threadsafe(self._run_more)
            return turn.done
        return None

    def _make_room(self, job: Job) -> bool:
        """Turn away one that nothing escalated for one that is; False where there is none."""
        turn = self._turns.give_up() if job.admitted.escalated else None
        if turn is None:
            return False
        if turn.take():
            self._emit(turn.job.not_run("queue_full", "it gave way to an escalated judgement"))
        self._settle(turn)
        return True

    @property
    def pending(self) -> int:
        """How many judgements wait or run."""
        return len(self._waiting)

    def join(self, deadline: float) -> bool:
        """Wait until what was submitted so far is done, or a monotonic deadline."""
        waiting = list(self._waiting)
        return not waiting or not wait(waiting, max(0.0, deadline - monotonic())).not_done

    def shut(self) -> None:
        """Give up what still waits or runs; each is emitted as not run."""
        self._shut = True
        for turn in list(self._waiting.values()):
            if turn.take():
                self._emit(turn.job.not_run("shutdown", "the process was ending"))
            if self._waiting.pop(turn.done, None) is not None and turn.done.cancel():
                turn.done.set_running_or_notify_cancel()  # which wakes those who wait for it
        if self._loop is not None:
            with suppress(RuntimeError):  # closed: somebody else shut it
                self._loop.call_soon_threadsafe(self._loop.stop)

    # -- on the judges' thread ------------------------------------------------------------------

    def _run_more(self) -> None:
        """Start another task where there is work and room for it."""
        if self._turns and not self._shut and len(self._running) < self._plan.concurrency:
            task = asyncio.get_running_loop().create_task(self._run())
            self._running.add(task)

    async def _run(self) -> None:
        """Judge one job after the other: going on at once keeps the client's connections busy."""
        try:
            await self._run_queue()
        finally:  # at once, not by a callback: who comes in between has to find the place free
            self._running.discard(asyncio.current_task())
            self._run_more()

    async def _run_queue(self) -> None:
        while not self._shut and (turn := self._turns.next()) is not None:
            job = turn.job
            try:
                outcome = await self._judge(job)
            except asyncio.CancelledError:
                if self._shut:
                    raise
                outcome = [job.not_run("error", "CancelledError")]  # the judge's own
            except BaseException as error:
                if self._shut and isinstance(error, GeneratorExit):
                    raise
                if not swallow(f"judge {job.judge.name}", error, calls_out=True):
                    self._settle(turn)
                    raise
                outcome = [job.not_run("error", type(error).__name__)]
            if turn.take():
                for item in outcome:
                    self._emit(item)
            self._settle(turn)

    def _settle(self, turn: Turn) -> None:
        """Say that a job is dealt with, to whoever waits for it."""
        if self._waiting.pop(turn.done, None) is not None:
            turn.done.set_result(None)

    async def _judge(self, job: Job) -> list[EvaluationEvent | NotRun | SpanData]:
        """Judge, and return what there is to tell: the verdict, why there is none, the trace."""
        llm = await self._models.of(job.judge)
        model = "" if isinstance(llm, str) else llm.model
        key = judgement_key(job.judge, model, job.record)
        cached = self._cache.get(key, inclusion_probability=job.admitted.probability)
        if cached is not None:
            why = job.not_run("cached", "an identical judgement was made a moment ago")
            return [event(cached, job.target), why]
        begun = time_ns()
        asked = NoModel(llm) if isinstance(llm, str) else llm
        evaluation = await run_judge(job.judge, job.record, asked, timeout=self._plan.judge_timeout)
        error = evaluation.error
        calls = getattr(asked, "calls", ())
        refused = error is not None and error.type in NOT_RUN_REASONS and error.type != "timeout"
        if error is not None and refused and not calls:
            return [job.not_run(error.type, error.message)]
        usage = getattr(asked, "usage", None) or evaluation.usage
        if usage is not None:
            self.usage += usage
        self.cut_prompts += not {"cut", "cut_prompts"}.isdisjoint(evaluation.metadata)
        evaluation = replace(
            evaluation,
            usage=usage,
            inclusion_probability=job.admitted.probability,
            metadata={**evaluation.metadata, "why": job.admitted.why, "model": model or None},
        )
        told: list[EvaluationEvent | NotRun | SpanData] = [
            event(evaluation, job.target),
            *judge_spans(
                job.judge,
                job.target,
                evaluation,
                begun,
                calls,
                content=self._plan.content,
            ),
        ]
        if error is None:
            self._cache.put(key, evaluation)
            return told
        tell(f"judge {job.judge.name}", f"gave no verdict: {error.type}")
        reason = error.type if error.type in NOT_RUN_REASONS else "error"
        return [job.not_run(reason, f"{error.type}: {error.message}"), *told]


def event(evaluation: Evaluation, target: Target, *, serial: str = "") -> EvaluationEvent:
    """Address an Evaluation; its id is the same whenever the same one is delivered again."""
    where = target.span_id or serial or f"{new_span_id():016x}"
    suffix = f"-{serial}" if serial and target.span_id else ""
    return EvaluationEvent(f"{where}-{evaluation.name}{suffix}", target, evaluation, time_ns())
