"""From an iterable of rows to evaluated rows, in this process: the part that engines share.

Free rows are scored one after the other. Where judges or the app are asked, a fixed number of
workers do one thing at a time, each: begin the next row, or run the next judge on one that began.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from llmeval_sdk.evaluation import run_judge
from llmeval_sdk.model import Evaluation, Failure, Record, Usage
from llmeval_sdk.offline.results.row import Row
from llmeval_sdk.offline.run.app import App
from llmeval_sdk.offline.run.chosen import Chosen
from llmeval_sdk.offline.run.models import Models
from llmeval_sdk.offline.run.verdicts import Kept, Verdicts, key_of
from llmeval_sdk.protocols import Judge
from llmeval_sdk.tracing import disabled


DAY = 86_400.0


class Item(NamedTuple):
    """One row that is known to be good."""

    number: int
    record: Record
    digest: str = ""


Emit = Callable[[Row], None]


@dataclass(slots=True)
class _Begun:
    """A row whose heuristics ran and some of whose judges still do."""

    item: Item
    record: Record
    found: dict[str, Evaluation]
    left: int
    order: tuple[str, ...]

    def row(self) -> Row:
        """Return the row, its evaluations in the order in which they were asked for."""
        found = {name: self.found[name] for name in self.order if name in self.found}
        return Row(self.record, found, self.item.number, None, self.item.digest)


@dataclass(slots=True)
class Engine:
    """Evaluates rows; each is emitted as soon as it is done, whatever its place."""

    chosen: Chosen
    models: Models
    emit: Emit
    concurrency: int = 8
    judge_timeout: float = 60.0
    verdicts: Verdicts | None = None
    app: App | None = None
    stopped: bool = False
    """Set it to have nothing further begun."""
    _ready: deque[tuple[_Begun, Judge]] = field(default_factory=deque)
    _running: set[asyncio.Task[None]] = field(default_factory=set)
    _items: Iterator[Item] = field(default_factory=lambda: iter(()))

    def run_free(self, items: Iterable[Item]) -> None:
        """Evaluate rows that need neither a judge nor the app."""
        score, emit = self.chosen.score, self.emit
        for number, record, digest in items:
            emit(Row(record, score(record), number, None, digest))

    async def run(self, items: Iterator[Item]) -> None:
        """Evaluate rows; what is done when it is cancelled has been emitted."""
        self._items = items
        try:
            self._staff(self.concurrency)
            while self._running:
                done, _ = await asyncio.wait(self._running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)

    def _staff(self, wanted: int) -> None:
        for _ in range(min(wanted, self.concurrency - len(self._running))):
            task = asyncio.get_running_loop().create_task(self._work())
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _work(self) -> None:
        """Go on while there is something to do: that keeps the client's connections busy."""
        while not self.stopped:
            if self._ready:
                begun, judge = self._ready.popleft()
                begun.found[judge.name] = await self._judge(judge, begun.record)
                begun.left -= 1
                if not begun.left:
                    self.emit(begun.row())
                continue
            item = next(self._items, None)
            if item is None:
                return
            await self._begin(item)

    async def _begin(self, item: Item) -> None:
        """Let the app answer, run the heuristics and queue the judges of one row."""
        record = item.record
        if self.app is not None:
            answer = await self.app.answer(record)
            if isinstance(answer, Failure):
                self.emit(Row(record, {}, item.number, answer, item.digest))
                return
            record = answer
        found = self.chosen.score(record)
        judges = self.chosen.judges_for(record, found)
        begun = _Begun(item, record, found, len(judges), self.chosen.names)
        if not judges:
            self.emit(begun.row())
            return
        self._ready.extend((begun, judge) for judge in judges)
        self._staff(len(judges) - 1)

    async def _judge(self, judge: Judge, record: Record) -> Evaluation:
        key, model, kept = None, self.models.name_of(judge), Kept()
        if self.verdicts is not None and model is not None:
            key = key_of(judge, model, record)
            kept = self.verdicts.get(key)
            if kept.verdict is not None:
                return kept.verdict
        llm = self.models.of(judge)
        timeout = self._timeout(judge, record)
        with disabled():  # a judge that calls the app's decorated helpers is no part of its trace
            verdict = await run_judge(judge, record, llm, timeout=timeout)
        usage: Usage | None = llm.usage or verdict.usage
        answered = next((call.model for call in llm.calls if call.model), llm.model)
        metadata = {**verdict.metadata, "model": answered or None}
        verdict = replace(verdict, usage=usage, metadata=metadata)
        if self.verdicts is not None and verdict.error is None:
            self.verdicts.put(key, verdict)
        if kept.is_distrusted:
            verdict = replace(verdict, metadata={**verdict.metadata, "distrusted_cache": True})
        return verdict

    def _timeout(self, judge: Judge, record: Record) -> float:
        """Return the seconds for a judgement; its calls wait for each other, each has its own."""
        if self.models.throttled:
            return DAY
        calls = len(record.retrieved_context or ()) if judge.per == "chunk" else 1
        return self.judge_timeout * max(calls, 1)
