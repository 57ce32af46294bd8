"""One judgement, and a crew of tasks that make many of them at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from llmeval_sdk.evaluation._models import Models
from llmeval_sdk.evaluation._running import run_judge
from llmeval_sdk.evaluation.verdicts import Kept, Verdicts, key_of
from llmeval_sdk.model import Evaluation, ModelCall, Record
from llmeval_sdk.protocols import Judge
from llmeval_sdk.tracing import disabled


class Judgement(NamedTuple):
    """What came of asking a judge about a record."""

    verdict: Evaluation
    """With what its calls used and the model that answered."""
    calls: Sequence[ModelCall] = ()
    is_kept: bool = False
    """Whether it is the verdict of an identical judgement made earlier."""


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
    key, kept = None, Kept()
    if verdicts is not None:
        key = key_of(judge, llm.inner, record)
        kept = verdicts.get(key)
        if kept.verdict is not None:
            return Judgement(kept.verdict, is_kept=True)
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
    return Judgement(verdict, llm.calls)


class Crew:
    """Tasks of one event loop that do one job after the other, so many at a time.

    A task that goes on with the next job at once keeps the connections of a client busy.

    Args:
        size: tasks at a time, at most.
        next_job: returns the next job; ``None`` sends the task home.
    """

    def __init__(self, size: int, next_job: Callable[[], Coroutine[Any, Any, None] | None]) -> None:
        self._size = size
        self._next_job = next_job
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._is_dismissed = False

    def call(self, wanted: int = 1) -> None:
        """Start so many more tasks, where there is room for them."""
        if self._is_dismissed:
            return
        for _ in range(min(wanted, self._size - len(self._tasks))):
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
            self._go_home()
            self.call()  # another one does the rest
            raise
        self._go_home()

    def _go_home(self) -> None:
        """Leave at once and not by a callback: who comes in between has to find the place free."""
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
