"""Chooses the evaluators of a run and runs them over its rows, in this process.

Rows that cost nothing are scored one after the other. Where judges or the app are called, a pool of
tasks works, and each task begins the next row or runs the next judge on a row that was begun.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from llmeval_sdk import registry
from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError, DataError
from llmeval_sdk.evaluation import Models, WorkerPool, judge_record, not_applicable, run_heuristic
from llmeval_sdk.evaluation.resolve import resolve, resolve_all, standing_heuristics
from llmeval_sdk.evaluation.unanswered import without_answer
from llmeval_sdk.evaluation.verdicts import Verdicts
from llmeval_sdk.model import Evaluation, Failure, Record
from llmeval_sdk.model.needs import lacking, missing
from llmeval_sdk.model.protocols import Evaluator, Heuristic, Judge
from llmeval_sdk.offline.report.outputs import Output, output_of
from llmeval_sdk.offline.report.row import Row
from llmeval_sdk.offline.run._app import App, find_modules_here
from llmeval_sdk.tracing.internals import marked


if TYPE_CHECKING:  # loaded where a decision model is named
    from llmeval_sdk.evaluation.deciding import Decider

_ANSWERS = ("response", "value", "extractions", "abstained")


@dataclass(frozen=True, slots=True)
class Chosen:
    """Evaluators, and whether they were asked for: then a row says which inputs it lacks."""

    heuristics: tuple[Heuristic, ...]
    judges: tuple[Judge, ...]
    are_requested: bool
    _needs: tuple[tuple[str, ...], ...] = ()
    """Of each heuristic: many need the same fields, which are looked for once in a row."""
    decided: frozenset[str] = frozenset()
    """The judges in whose place a decision model is asked."""
    needs: frozenset[str] = frozenset()
    """All fields that one of them needs."""

    @property
    def names(self) -> tuple[str, ...]:
        """Their names, heuristics first."""
        return tuple(each.name for each in self._all)

    @property
    def outputs(self) -> dict[str, Output]:
        """What each gives, by name."""
        return {each.name: output_of(each) for each in self._all}

    @property
    def _all(self) -> tuple[Heuristic | Judge, ...]:
        return (*self.heuristics, *self.judges)

    def check(
        self, record: Record, place: str, *, answered: bool, columns: Container[str] = ()
    ) -> None:
        """Refuse a row that cannot be meant: without a request, or with nothing to evaluate.

        ``answered=False`` says that the response is still to be made. ``columns`` are those of the
        row: where one for the answer is there and empty, the answer got lost.

        Raises:
            DataError: naming the place and the column.
        """
        needed = not self.are_requested or "request" in self.needs
        if record.request is None and (needed or not answered):
            raise DataError(f"{place}: the column 'request' is missing")
        has_answer = any(getattr(record, n) is not None or n in columns for n in _ANSWERS)
        if answered and not self.are_requested and not has_answer:
            raise DataError(
                f"{place}: the column 'response' is missing (or 'trace', or 'extractions'): pass "
                "model= (--model) to have it answered, or ask for the retrieval evaluators by name"
            )

    def score(self, record: Record) -> dict[str, Evaluation]:
        """Run the heuristics; those that were asked for and lack inputs say so."""
        evaluations = {}
        lacking = {needs: missing(record, needs) for needs in set(self._needs)}
        for heuristic, needs in zip(self.heuristics, self._needs, strict=True):
            absent = lacking[needs]
            if absent is not None or record.abstained is not None:
                unanswered = self._without_answer(heuristic, record)
                if unanswered is not None:
                    evaluations[heuristic.name] = unanswered
                    continue
            if absent is not None:
                if self.are_requested:
                    evaluations[heuristic.name] = not_applicable(heuristic, absent)
                continue
            if not self.are_requested:
                applies = getattr(heuristic, "applies", None)
                if applies is not None and not applies(record):
                    continue
            evaluation = run_heuristic(heuristic, record)
            if self.are_requested or evaluation.value is not None or evaluation.error is not None:
                evaluations[heuristic.name] = evaluation
        return evaluations

    def judges_for(self, record: Record, evaluations: dict[str, Evaluation]) -> list[Judge]:
        """Return the judges that have their inputs.

        The others say in ``evaluations`` what they lack, where they were asked for.
        """
        ready = []
        for judge in self.judges:
            absent = lacking(judge, record)
            unanswered = self._without_answer(judge, record)
            if unanswered is not None:
                evaluations[judge.name] = unanswered
            elif absent is None:
                ready.append(judge)
            elif self.are_requested:
                evaluations[judge.name] = not_applicable(judge, absent)
        return ready

    def _without_answer(self, evaluator: Heuristic | Judge, record: Record) -> Evaluation | None:
        """Return what an evaluator says for want of an answer; see `without_answer`.

        Extractions are all that some data sets have, so those evaluators only look for an answer
        beside them that were asked for.
        """
        if record.extractions is not None and record.abstained is None and not self.are_requested:
            return None
        return without_answer(evaluator, record)


def choose(evaluators: Sequence[Any] | None, settings: Settings, *, has_model: bool) -> Chosen:
    """Resolve the evaluators that were asked for, or the default ones.

    Raises:
        ConfigurationError: an unknown name, or something that is no evaluator.
    """
    if isinstance(evaluators, str):
        raise ConfigurationError(f"evaluators must be a list: [{evaluators!r}]")
    chosen: list[Evaluator] = []
    if evaluators is not None:
        find_modules_here()
        chosen += resolve_all(evaluators, settings)
    else:
        chosen += standing_heuristics(settings, every_built_in=True)
        chosen += _standing_judges(settings) if has_model else ()
    heuristics = tuple(each for each in chosen if each.kind == "heuristic")
    judges = tuple(each for each in chosen if each.kind == "judge")
    needs = tuple(tuple(heuristic.needs) for heuristic in heuristics)
    all_needs = frozenset(name for each in chosen for name in each.needs)
    return Chosen(heuristics, judges, evaluators is not None, needs, needs=all_needs)


DAY = 86_400.0


class InputRow(NamedTuple):
    """One row that is known to be good."""

    number: int
    record: Record
    digest: str = ""


Emit = Callable[[Row], None]


class VerdictJournal(Protocol):
    """Keeps each verdict of a run as soon as it is made, for a process that takes over."""

    def known(self, item: InputRow, /) -> Mapping[str, Evaluation]:
        """Return the verdicts on a row that need not be asked for again, by judge."""

    def keep(self, item: InputRow, verdicts: Mapping[str, Evaluation], /) -> None:
        """Keep verdicts on a row."""


@dataclass(slots=True)
class _Begun:
    """A row whose heuristics ran and some of whose judges are still asked."""

    item: InputRow
    record: Record
    evaluations: dict[str, Evaluation]
    left: int
    """How many answers are still awaited; a decision model's is one for all its judges."""
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
    decider: Decider | None = None
    """Asks the decision model in place of the judges that are ``decided``."""
    app: App | None = None
    keeps_images: bool = False
    """Whether images and files stay in a row when the app has answered it."""
    journal: VerdictJournal | None = None
    stopped: bool = False
    """Set it to have nothing further begun."""
    _ready: deque[Callable[[], Coroutine[Any, Any, None]]] = field(default_factory=deque)

    def run_free(self, items: Iterable[InputRow]) -> None:
        """Evaluate rows that need neither a judge nor the app."""
        score, emit = self.chosen.score, self.emit
        for number, record, digest in items:
            emit(Row(record, score(record), number, None, digest))

    async def run(self, items: Iterator[InputRow]) -> None:
        """Evaluate rows; what is done when it is cancelled has been emitted."""
        pool = WorkerPool(self.concurrency, lambda: self._next_job(pool, items))
        pool.call(self.concurrency)
        await pool.finish()

    def _next_job(
        self, pool: WorkerPool, items: Iterator[InputRow]
    ) -> Coroutine[Any, Any, None] | None:
        """Run the next judge on a row that was begun, or begin the next row."""
        if self.stopped:
            return None
        if self._ready:
            return self._ready.popleft()()
        item = next(items, None)
        return None if item is None else self._begin(item, pool)

    async def _begin(self, item: InputRow, pool: WorkerPool) -> None:
        """Let the app answer, run the heuristics and queue the judges of one row."""
        record = item.record
        if self.app is not None:
            answer = await self.app.answer(record)
            if isinstance(answer, Failure):
                self.emit(Row(self._kept(record), {}, item.number, answer, item.digest))
                return
            record = self._kept(answer)
        evaluations = self.chosen.score(record)
        judges = self.chosen.judges_for(record, evaluations)
        if self.journal is not None:
            known = self.journal.known(item)
            evaluations |= known
            judges = [judge for judge in judges if judge.name not in known]
        decided = [judge for judge in judges if judge.name in self.chosen.decided]
        others = [judge for judge in judges if judge.name not in self.chosen.decided]
        parts = len(others) + bool(decided)
        begun = _Begun(item, record, evaluations, parts, self.chosen.names)
        if not parts:
            self.emit(begun.row())
            return
        if decided:
            self._ready.append(partial(self._decide, begun, decided))
        self._ready.extend(partial(self._judge, begun, judge) for judge in others)
        pool.call(parts - 1)

    def _kept(self, record: Record) -> Record:
        """Return what is kept of a row that the app has answered."""
        return record if self.keeps_images else marked(record)

    async def _decide(self, begun: _Begun, judges: Sequence[Judge]) -> None:
        """Ask the decision model once what these judges ask about a row."""
        assert self.decider is not None
        decided = await self.decider.decide(begun.record, judges)
        self._done(begun, decided.evaluations)

    async def _judge(self, begun: _Begun, judge: Judge) -> None:
        """Run a judge on a row."""
        judgement = await judge_record(
            judge,
            begun.record,
            self.models,
            timeout=self._timeout(judge, begun.record),
            verdicts=self.verdicts,
        )
        self._done(begun, {judge.name: judgement.verdict})

    def _done(self, begun: _Begun, evaluations: Mapping[str, Evaluation]) -> None:
        """Add what is known of a row, and emit the row when it was the last."""
        if self.journal is not None:
            self.journal.keep(begun.item, evaluations)
        begun.evaluations |= evaluations
        begun.left -= 1
        if not begun.left:
            self.emit(begun.row())

    def _timeout(self, judge: Judge, record: Record) -> float:
        """Return the seconds for a judgement; its calls wait for each other, each has its own."""
        if self.is_throttled:
            return DAY
        calls = 1
        if judge.per == "chunk":
            calls = len(record.retrieved_context or ())
        elif judge.per == "step":
            calls = sum(step.role == "tool" for step in record.steps or ())
        return self.judge_timeout * max(calls, 1)


def _standing_judges(settings: Settings) -> list[Judge]:
    """Return the judges that run offline without being asked for, where there is a judge model.

    Online none does: a judge must be named, by an escalation or as an evaluator.
    """
    judges = (resolve(name, settings) for name in registry.installed(registry.judges()))
    return [judge for judge in judges if judge.kind == "judge" and _runs_unasked(judge)]


def _runs_unasked(judge: Judge) -> bool:
    """Say whether a judge declares itself ``automatic``."""
    return bool(getattr(judge, "automatic", False))
