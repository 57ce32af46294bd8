"""Where judges run: one daemon thread with an event loop of its own, never the app's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from time import monotonic, time_ns

from llmeval_sdk._shield import swallow
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.evaluation import NoModel, run_judge
from llmeval_sdk.model import Evaluation, EvaluationEvent, NotRun, Record, SpanData, Target
from llmeval_sdk.pipeline._metered import MeteredLLM, Turnstile
from llmeval_sdk.pipeline._plan import Plan
from llmeval_sdk.policy.cache import JudgementCache, judgement_key
from llmeval_sdk.policy.decisions import NOT_RUN_REASONS
from llmeval_sdk.protocols import LLM, Judge
from llmeval_sdk.tracing import new_span_id, new_trace_id, off


MAX_WAITING = 1_000


@dataclass(frozen=True, slots=True)
class Job:
    """One judge to run on one record."""

    judge: Judge
    record: Record
    target: Target
    probability: float
    why: str


Emit = Callable[[EvaluationEvent | NotRun | SpanData], None]


class Judging:
    """Runs admitted judges in the background and emits what they said."""

    def __init__(self, plan: Plan, emit: Emit) -> None:
        self._plan = plan
        self._emit = emit
        self._cache = JudgementCache()
        self._waiting: set[Future[None]] = set()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._llm: LLM | None = None
        self._no_model = ""
        self._shut = False

    def submit(self, job: Job) -> None:
        """Take a job; what cannot run is emitted as not run. Called by the worker only."""
        if self._shut:
            self._emit(not_run(job, "shutdown", "the process was ending"))
        elif len(self._waiting) >= MAX_WAITING:
            self._emit(not_run(job, "queue_full", f"{MAX_WAITING} judgements were waiting"))
        elif not self._start():
            self._emit(not_run(job, "no_worker", "no thread could be started"))
        else:
            assert self._loop is not None
            future = asyncio.run_coroutine_threadsafe(self._run(job), self._loop)
            self._waiting.add(future)
            future.add_done_callback(self._waiting.discard)

    @property
    def pending(self) -> int:
        """How many judgements wait or run."""
        return len(self._waiting)

    def join(self, deadline: float) -> bool:
        """Wait until what was submitted so far is done, or a monotonic deadline."""
        waiting = list(self._waiting)
        return not waiting or not wait(waiting, max(0.0, deadline - monotonic())).not_done

    def shut(self) -> None:
        """Cancel what still waits; each is emitted as not run."""
        self._shut = True
        for future in list(self._waiting):
            future.cancel()

    def _start(self) -> bool:
        if self._thread is not None:
            return True
        ready = threading.Event()

        def run() -> None:
            off()  # a judge that calls the app's decorated helpers is not traced, nor judged
            self._loop = asyncio.new_event_loop()
            self._turnstile = Turnstile(
                self._plan.keeper, concurrency=self._plan.concurrency, prices=self._plan.prices
            )
            self._places = asyncio.Semaphore(self._plan.concurrency)
            self._loop.call_soon(ready.set)
            self._loop.run_forever()

        thread = threading.Thread(target=run, name="llmeval-judges", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return False
        ready.wait(5.0)
        self._thread = thread
        return True

    # -- on the judges' thread ------------------------------------------------------------------

    async def _run(self, job: Job) -> None:
        try:
            async with self._places:
                await self._judge(job)
        except asyncio.CancelledError:
            self._emit(not_run(job, "shutdown", "the process was ending"))
            raise
        except Exception as error:
            if not swallow(f"judge {job.judge.name}", error, calls_out=True):
                raise
            self._emit(not_run(job, "error", type(error).__name__))

    async def _judge(self, job: Job) -> None:
        llm = self._model()
        model = llm.model if llm else ""
        key = judgement_key(job.judge, model, job.record)
        cached = self._cache.get(key, inclusion_probability=job.probability)
        if cached is not None:
            self._emit(event(cached, job.target))
            self._emit(not_run(job, "cached", "an identical judgement was made a moment ago"))
            return
        assert self._loop is not None
        metered = MeteredLLM(llm, self._turnstile, job.judge.name, self._loop) if llm else None
        begun = time_ns()
        evaluation = await run_judge(
            job.judge, job.record, metered or NoModel(), timeout=self._plan.judge_timeout
        )
        error = evaluation.error
        if error is not None and error.type in NOT_RUN_REASONS and error.type != "timeout":
            self._emit(not_run(job, error.type, error.message or self._no_model))
            return
        evaluation = replace(
            evaluation,
            usage=(metered and metered.usage) or evaluation.usage,
            inclusion_probability=job.probability,
            metadata={**evaluation.metadata, "why": job.why, "model": model or None},
        )
        if error is None:
            self._cache.put(key, evaluation)
        else:
            reason = "timeout" if error.type == "timeout" else "error"
            self._emit(not_run(job, reason, f"{error.type}: {error.message}"))
        self._emit(event(evaluation, job.target))
        self._emit(_judge_span(job, evaluation, begun))

    def _model(self) -> LLM | None:
        """Make the judge model once, here, where loading its client blocks nobody."""
        if self._llm is None and not self._no_model:
            try:
                self._llm = self._plan.llm()
                self._no_model = "" if self._llm else "no judge model is configured"
            except (ConfigurationError, ImportError) as error:
                self._no_model = str(error)
        return self._llm


def event(evaluation: Evaluation, target: Target, *, serial: str = "") -> EvaluationEvent:
    """Address an Evaluation; its id is the same whenever the same one is delivered again."""
    where = target.span_id or serial or f"{new_span_id():016x}"
    suffix = f"-{serial}" if serial and target.span_id else ""
    return EvaluationEvent(f"{where}-{evaluation.name}{suffix}", target, evaluation, time_ns())


def not_run(job: Job, reason: str, detail: str) -> NotRun:
    """Say why a judge did not run."""
    where = job.target.span_id or ""
    return NotRun(
        f"{where}-{job.judge.name}", job.target, job.judge.name, reason, detail, time_ns()
    )


def _judge_span(job: Job, evaluation: Evaluation, begun: int) -> SpanData:
    """Make the judge's run a trace of its own with one link to what it judged."""
    return SpanData(
        trace_id=f"{new_trace_id():032x}",
        span_id=f"{new_span_id():016x}",
        parent_id=None,
        name=job.judge.name,
        kind="llm",
        start_ns=begun,
        end_ns=time_ns(),
        response={"value": evaluation.value, "explanation": evaluation.explanation},
        error=evaluation.error,
        tags={"llmeval.judge": job.judge.name},
        usage=evaluation.usage,
        model_name=evaluation.metadata.get("model"),
        links=(job.target,),
    )
