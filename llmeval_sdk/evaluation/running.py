"""Running judges over a record, so that whatever happens in one becomes an Evaluation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from time import perf_counter, time_ns
from typing import Any, NamedTuple

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.evaluation.models import Models
from llmeval_sdk.evaluation.scoring import failed, of_bounded_size, outcome
from llmeval_sdk.evaluation.verdicts import Verdicts, key_of
from llmeval_sdk.judges import BaseJudge
from llmeval_sdk.model import Evaluation, EvaluationEvent, ModelCall, Record, Target, values
from llmeval_sdk.model.protocols import Judge
from llmeval_sdk.model.structure import with_doubtful_fields
from llmeval_sdk.process.threads import within
from llmeval_sdk.tracing import disabled
from llmeval_sdk.tracing.internals import new_span_id


async def _run_judge(judge: Judge, record: Record, llm: Any, *, timeout: float) -> Evaluation:
    """Judge a Record within ``timeout`` seconds; every failure is an Evaluation with an error.

    ``llm`` may be any LLM. A judge that never calls it needs none.
    """
    begun = perf_counter()
    try:
        result = await within(timeout, judge.evaluate(record, llm))
        evaluation = of_bounded_size(outcome(result, judge))
    except (TimeoutError, asyncio.TimeoutError):
        evaluation = failed(judge, "timeout", f"no verdict after {timeout:g} s")
    except JudgeError as error:
        evaluation = failed(judge, error.type, str(error))
    except (Exception, SystemExit) as error:
        evaluation = failed(judge, type(error).__name__, str(error))
    cut = getattr(llm, "cut_prompts", 0)  # only a budgeted model counts the prompts that it cut
    return replace(
        evaluation,
        evaluator_kind="judge",
        duration=evaluation.duration or perf_counter() - begun,
        metadata={**evaluation.metadata, "cut_prompts": cut} if cut else evaluation.metadata,
    )


def addressed(evaluation: Evaluation, target: Target, *, serial: str = "") -> EvaluationEvent:
    """Attach an Evaluation to the span that it is about.

    The event has the same id however often it is delivered, so that a backend keeps it once.
    ``serial`` tells apart several evaluations of one name on one span.
    """
    where = target.span_id or serial or f"{new_span_id():016x}"
    suffix = f"-{serial}" if serial and target.span_id else ""
    if target.marks:
        evaluation = replace(evaluation, metadata={**evaluation.metadata, **dict(target.marks)})
        suffix += "".join(f"-{mark}" for key, mark in target.marks if key in ("scope", "period"))
    if evaluation.evaluator_kind == "decision":  # a judge model may rate under the same name
        suffix += "-decision"
    return EvaluationEvent(f"{where}-{evaluation.name}{suffix}", target, evaluation, time_ns())


def record_for(judge: Judge, record: Record, evaluations: Mapping[str, Evaluation]) -> Record:
    """Return the record to hand to a judge.

    For a judge of extractions, it names the doubtful fields of a structured answer.
    """
    reads_fields = getattr(judge, "predictor", None) == values.EXTRACTION_RISK
    return with_doubtful_fields(record, evaluations) if reads_fields else record


# Making one judgement, and the tasks that make many of them at a time.


class Judgement(NamedTuple):
    """The outcome of asking a judge about a record."""

    verdict: Evaluation
    """It holds the usage of its calls, and in its metadata the model that answered."""
    calls: Sequence[ModelCall] = ()
    is_kept: bool = False
    """Whether the verdict is that of an identical judgement made earlier."""


async def judge_record(
    judge: Judge,
    record: Record,
    models: Models,
    *,
    timeout: float,
    verdicts: Verdicts | None = None,
) -> Judgement:
    """Ask a judge about a record, unless an identical judgement is known. Never raises.

    Args:
        judge: which judge.
        record: what it judges.
        models: the models that judges may ask.
        timeout: seconds for the whole judgement.
        verdicts: where earlier verdicts are found and this one is kept.
    """
    llm = await models.of(judge, record.tags)
    key = None
    if verdicts is not None:
        key = key_of(judge, llm.inner, record)
        kept = await verdicts.find(key)
        if kept is not None:
            return Judgement(_located(judge, kept, record), is_kept=True)
    with disabled():  # a judge that calls the app's decorated helpers is no part of its trace
        verdict = await _run_judge(judge, record, llm, timeout=timeout)
    answered = next((call.model for call in llm.calls if call.model and not call.error), llm.model)
    verdict = replace(
        verdict,
        usage=llm.usage or verdict.usage,
        metadata={**verdict.metadata, "model": answered or None},
    )
    if verdicts is not None:
        verdicts.put(key, verdict)
    return Judgement(_located(judge, verdict, record), llm.calls)


def _located(judge: Judge, verdict: Evaluation, record: Record) -> Evaluation:
    return judge.located(verdict, record) if isinstance(judge, BaseJudge) else verdict


class WorkerPool:
    """A bounded number of tasks on one event loop, each of which does one job after another.

    A task that has finished a job takes the next one at once, so that the connections of the
    model's client stay in use.

    Args:
        size: how many tasks there are at most.
        next_job: returns the next job, or ``None`` where there is none, which ends the task.
    """

    def __init__(
        self, size: int, next_job: Callable[[], Coroutine[object, object, None] | None]
    ) -> None:
        self._size = size
        self._next_job = next_job
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._is_dismissed = False

    def call(self, tasks: int = 1) -> None:
        """Start this many more tasks, or as many as there is room for."""
        if self._is_dismissed:
            return
        for _ in range(min(tasks, self._size - len(self._tasks))):
            self._tasks.add(asyncio.get_running_loop().create_task(self._work()))

    def dismiss(self) -> None:
        """Start no further task."""
        self._is_dismissed = True

    async def _work(self) -> None:
        try:
            while (job := self._next_job()) is not None:
                await job
        except GeneratorExit:  # its loop was closed: there is no task any more
            raise
        except BaseException:
            self._failed = asyncio.current_task()
            self._leave()
            self.call()  # another task does the jobs that are left
            raise
        self._leave()

    def _leave(self) -> None:
        """Free this task's place at once: a done-callback would run only after the next `call`."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.discard(task)
        self._changed.set()

    async def finish(self) -> None:
        """Wait until all jobs are done; an exception of one of them cancels the others."""
        try:
            while self._tasks and self._failed is None:
                self._changed.clear()
                await self._changed.wait()
            if self._failed is not None:
                await self._failed
        finally:
            self.dismiss()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
