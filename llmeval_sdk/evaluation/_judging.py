"""Making one judgement, and the tasks that make many of them at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from llmeval_sdk.evaluation._models import Models
from llmeval_sdk.evaluation._running import run_judge
from llmeval_sdk.evaluation.verdicts import EarlierVerdict, Verdicts, key_of
from llmeval_sdk.judges import BaseJudge
from llmeval_sdk.model import Evaluation, ModelCall, Record
from llmeval_sdk.model.protocols import Judge
from llmeval_sdk.tracing import disabled


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
    llm = await models.of(judge)
    key, kept = None, EarlierVerdict()
    if verdicts is not None:
        key = key_of(judge, llm.inner, record)
        kept = verdicts.get(key)
        if kept.verdict is not None:
            return Judgement(_located(judge, kept.verdict, record), is_kept=True)
    with disabled():  # a judge that calls the app's decorated helpers is no part of its trace
        verdict = await run_judge(judge, record, llm, timeout=timeout)
    answered = next((call.model for call in llm.calls if call.model and not call.error), llm.model)
    verdict = replace(
        verdict,
        usage=llm.usage or verdict.usage,
        metadata={**verdict.metadata, "model": answered or None},
    )
    if verdicts is not None:
        verdicts.put(key, verdict)
    if kept.is_distrusted:
        verdict = replace(verdict, metadata={**verdict.metadata, "distrusted_cache": True})
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

    def __init__(self, size: int, next_job: Callable[[], Coroutine[Any, Any, None] | None]) -> None:
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
