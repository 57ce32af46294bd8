"""From an iterable of rows to evaluated rows, in this process: the part that engines share.

Free rows are scored one after the other. Where judges or the app are asked, a crew of tasks works:
each begins the next row, or runs the next judge on a row that was begun.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from llmeval_sdk.evaluation import Crew, Models, judge_record
from llmeval_sdk.evaluation.verdicts import Verdicts
from llmeval_sdk.model import Evaluation, Failure, Record
from llmeval_sdk.offline.results.row import Row
from llmeval_sdk.offline.run.app import App
from llmeval_sdk.offline.run.chosen import Chosen
from llmeval_sdk.protocols import Judge


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
    evaluations: dict[str, Evaluation]
    left: int
    """How many of its judges have not answered yet."""
    order: tuple[str, ...]

    def row(self) -> Row:
        """Return the row, its evaluations in the order in which they were asked for."""
        done = self.evaluations
        ordered = {name: done[name] for name in self.order if name in done}
        return Row(self.record, ordered, self.item.number, None, self.item.digest)


@dataclass(slots=True)
class Engine:
    """Evaluates rows; each is emitted as soon as it is done, whatever its place."""

    chosen: Chosen
    models: Models
    emit: Emit
    concurrency: int = 8
    judge_timeout: float = 60.0
    is_throttled: bool = False
    """Whether calls may have to wait for the next minute's budget."""
    verdicts: Verdicts | None = None
    app: App | None = None
    stopped: bool = False
    """Set it to have nothing further begun."""
    _ready: deque[tuple[_Begun, Judge]] = field(default_factory=deque)

    def run_free(self, items: Iterable[Item]) -> None:
        """Evaluate rows that need neither a judge nor the app."""
        score, emit = self.chosen.score, self.emit
        for number, record, digest in items:
            emit(Row(record, score(record), number, None, digest))

    async def run(self, items: Iterator[Item]) -> None:
        """Evaluate rows; what is done when it is cancelled has been emitted."""
        crew = Crew(self.concurrency, lambda: self._next_job(crew, items))
        crew.call(self.concurrency)
        await crew.finish()

    def _next_job(self, crew: Crew, items: Iterator[Item]) -> Coroutine[Any, Any, None] | None:
        """Run the next judge on a row that was begun, or begin the next row."""
        if self.stopped:
            return None
        if self._ready:
            return self._judge(*self._ready.popleft())
        item = next(items, None)
        return None if item is None else self._begin(item, crew)

    async def _begin(self, item: Item, crew: Crew) -> None:
        """Let the app answer, run the heuristics and queue the judges of one row."""
        record = item.record
        if self.app is not None:
            answer = await self.app.answer(record)
            if isinstance(answer, Failure):
                self.emit(Row(record, {}, item.number, answer, item.digest))
                return
            record = answer
        evaluations = self.chosen.score(record)
        judges = self.chosen.judges_for(record, evaluations)
        begun = _Begun(item, record, evaluations, len(judges), self.chosen.names)
        if not judges:
            self.emit(begun.row())
            return
        self._ready.extend((begun, judge) for judge in judges)
        crew.call(len(judges) - 1)

    async def _judge(self, begun: _Begun, judge: Judge) -> None:
        """Run a judge on a row, and emit the row when it was the last."""
        judgement = await judge_record(
            judge,
            begun.record,
            self.models,
            timeout=self._timeout(judge, begun.record),
            verdicts=self.verdicts,
        )
        begun.evaluations[judge.name] = judgement.verdict
        begun.left -= 1
        if not begun.left:
            self.emit(begun.row())

    def _timeout(self, judge: Judge, record: Record) -> float:
        """Return the seconds for a judgement; its calls wait for each other, each has its own."""
        if self.is_throttled:
            return DAY
        calls = len(record.retrieved_context or ()) if judge.per == "chunk" else 1
        return self.judge_timeout * max(calls, 1)
