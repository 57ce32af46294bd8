"""The work of a run: evaluators, models and limits, and the engine that runs them over its rows.

`Work` pickles where its parts do, so that another engine can carry it to where the rows are: each
part of a data set becomes rows and an `Aggregate`, and aggregates merge.

Rows that cost nothing are scored one after the other. Where judges or the app are called, a pool of
tasks works, and each task begins the next row or runs the next judge on a row that was begun.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections import deque
from collections.abc import Callable, Container, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from llmeval_sdk import config, registry
from llmeval_sdk.config import Settings, price_table
from llmeval_sdk.errors import ConfigurationError, DataError, MissingExtraError
from llmeval_sdk.evaluation.budget import Budget, limits_dollars
from llmeval_sdk.evaluation.limiter import BudgetLimiter, Unlimited
from llmeval_sdk.evaluation.models import Models, NoModel, configured_model
from llmeval_sdk.evaluation.resolve import load, resolve, resolve_all
from llmeval_sdk.evaluation.running import WorkerPool, judge_record, record_for
from llmeval_sdk.evaluation.scoring import not_applicable, run_heuristic, without_answer
from llmeval_sdk.evaluation.standing import every_heuristic
from llmeval_sdk.evaluation.verdicts import VerdictFile, Verdicts, verdict_path
from llmeval_sdk.judges.models.prices import price_of
from llmeval_sdk.model import DAY_SECONDS, Evaluation, Failure, Record
from llmeval_sdk.model.fields import lacking, missing
from llmeval_sdk.model.protocols import LLM, Evaluator, Exporter, Heuristic, Judge
from llmeval_sdk.model.records import with_evidence
from llmeval_sdk.model.schemas import described
from llmeval_sdk.offline.report.aggregate import Aggregate
from llmeval_sdk.offline.report.row import Output, Row, output_of
from llmeval_sdk.offline.run.experiment import App, Experiment, recording
from llmeval_sdk.process.shield import tell, write_notices
from llmeval_sdk.process.threads import run
from llmeval_sdk.store.state import state_path
from llmeval_sdk.tracing.internals import marked


if TYPE_CHECKING:  # loaded where a decision model is named
    from llmeval_sdk.evaluation.decisions import Decider


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


def choose(evaluators: Sequence[object] | None, settings: Settings, *, has_model: bool) -> Chosen:
    """Resolve the evaluators that were asked for, or the default ones.

    Raises:
        ConfigurationError: an unknown name, or something that is no evaluator.
    """
    if isinstance(evaluators, str):
        raise ConfigurationError(f"evaluators must be a list: [{evaluators!r}]")
    chosen: list[Evaluator] = []
    if evaluators is not None:
        _find_modules_here()
        chosen += resolve_all(evaluators, settings)
    else:
        chosen += every_heuristic(settings)
        chosen += _standing_judges(settings) if has_model else ()
    heuristics = tuple(each for each in chosen if each.kind == "heuristic")
    judges = tuple(each for each in chosen if each.kind == "judge")
    needs = tuple(tuple(heuristic.needs) for heuristic in heuristics)
    all_needs = frozenset(name for each in chosen for name in each.needs)
    return Chosen(heuristics, judges, evaluators is not None, needs, needs=all_needs)


class InputRow(NamedTuple):
    """One row that is known to be good."""

    number: int
    record: Record
    digest: str = ""


Emit = Callable[[Row], None]


class VerdictLog(Protocol):
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
    verdict_log: VerdictLog | None = None
    stopped: bool = False
    """Set it to have nothing further begun."""
    _ready: deque[Callable[[], Coroutine[Any, Any, None]]] = field(default_factory=deque)

    def run_free(self, items: Iterable[InputRow]) -> None:
        """Evaluate rows that need neither a judge nor the app."""
        score, emit = self.chosen.score, self.emit
        for number, row, digest in items:
            record = described(row)
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
        record = described(record, self.app.function if self.app is not None else None)
        evaluations = self.chosen.score(record)
        judges = self.chosen.judges_for(record, evaluations)
        if self.verdict_log is not None:
            known = self.verdict_log.known(item)
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
        return record if self.keeps_images else with_evidence(marked(record))

    async def _decide(self, begun: _Begun, judges: Sequence[Judge]) -> None:
        """Ask the decision model once what these judges ask about a row."""
        assert self.decider is not None
        decided = await self.decider.decide(begun.record, judges)
        self._done(begun, decided.evaluations)

    async def _judge(self, begun: _Begun, judge: Judge) -> None:
        """Run a judge on a row."""
        judgement = await judge_record(
            judge,
            record_for(judge, begun.record, begun.evaluations),
            self.models,
            timeout=self._timeout(judge, begun.record),
            verdicts=self.verdicts,
        )
        self._done(begun, {judge.name: judgement.verdict})

    def _done(self, begun: _Begun, evaluations: Mapping[str, Evaluation]) -> None:
        """Add what is known of a row, and emit the row when it was the last."""
        if self.verdict_log is not None:
            self.verdict_log.keep(begun.item, evaluations)
        begun.evaluations |= evaluations
        begun.left -= 1
        if not begun.left:
            self.emit(begun.row())

    def _timeout(self, judge: Judge, record: Record) -> float:
        """Return the seconds for a judgement; its calls wait for each other, each has its own."""
        if self.is_throttled:
            return DAY_SECONDS
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


PATIENCE_SECONDS = 60.0
"""How long a run waits for a model that is down before its judgements fail."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """Evaluators, models and limits of a run, as they were given; resolved where it runs."""

    model: Callable[[Any], Any] | str | None = None
    evaluators: tuple[Any, ...] | None = None
    llm: Any = None
    concurrency: int = 8
    budget: Budget | None = None
    exporters: tuple[Exporter | str, ...] = ()
    experiment: str = "offline"
    cache: bool = True
    prices: Mapping[str, tuple[float, ...]] | None = None
    decisions: Any = None
    thresholds: Mapping[str, float] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Leave behind what was resolved here."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @cached_property
    def settings(self) -> Settings:
        """The settings of this process; raises `ConfigurationError` for prices that are none."""
        settings = config.from_environment(problems=[])
        if self.prices is None:
            return settings
        try:
            own = price_table(self.prices)
        except ValueError as error:
            raise ConfigurationError(f"prices: {error}") from None
        return settings.changed(prices={**(settings.prices or {}), **own})

    @cached_property
    def chosen(self) -> Chosen:
        """The evaluators; raises `ConfigurationError` where one cannot be used."""
        has_llm = self.llm is not None or self.settings.judge_model is not None
        has_model = has_llm or self.decider is not None
        chosen = choose(self.evaluators, self.settings, has_model=has_model)
        if self.decider is not None:
            chosen = _with_decided(chosen, has_llm=has_llm)
            if _has_ceiling(self.budget):
                model = self.decider.model
                name = f"{getattr(model, 'price_host', '')}{model.model}"
                _check_price("decision", name, self.settings)
        others = [judge for judge in chosen.judges if judge.name not in chosen.decided]
        _check_judges(others, self.models, self.llm, self.settings, self.budget)
        return chosen

    @cached_property
    def models(self) -> Models:
        """The judge models."""
        return _models_of(self.llm, self.settings, limiter=self.limiter, concurrency=self.places)

    @cached_property
    def limiter(self) -> BudgetLimiter:
        """The limiter of the budget, which judge models and the decision model share."""
        return Unlimited() if self.budget is None else BudgetLimiter(self.budget)

    @cached_property
    def decider(self) -> Decider | None:
        """What asks the decision model; ``None`` where none is named.

        Raises:
            ConfigurationError: the model cannot be used, or a threshold is none.
        """
        if self.decisions is None and (self.llm is not None or not _is_decided(self.settings)):
            if self.thresholds:
                raise ConfigurationError(
                    "thresholds are those of a decision model: pass decisions= (on the command "
                    "line --decision-model), or set LLMEVAL_DECISION_MODEL"
                )
            return None
        return _decider_of(
            self.decisions,
            self.settings,
            limiter=self.limiter,
            concurrency=self.places,
            timeout=DAY_SECONDS if self.is_throttled else self.settings.judge_timeout,
            thresholds=self.thresholds,
            patience=PATIENCE_SECONDS,
        )

    @property
    def places(self) -> int:
        """How many judgements, or calls of the app, there are at a time."""
        most = self.concurrency if self.budget is None else self.budget.concurrency
        return max(1, min(self.concurrency, most))

    @property
    def is_throttled(self) -> bool:
        """Whether calls of judges may have to wait for the next minute's budget."""
        budget = self.budget
        return budget is not None and (budget.calls_per_minute, budget.tokens_per_minute) != (
            None,
            None,
        )

    @cached_property
    def function(self) -> Callable[[Any], Any] | None:
        """The app; raises `ConfigurationError` where it cannot be called."""
        return None if self.model is None else _function_of(self.model)

    @property
    def decided_by(self) -> dict[str, Any]:
        """What a saved run says of its decisions: it goes on only with the same."""
        if self.decider is None or not self.chosen.decided:
            return {}
        return {"decisions": self.decider.model.model, "thresholds": dict(self.decider.thresholds)}

    @property
    def is_paid(self) -> bool:
        """Whether rows cost something, so that all are read before the first is evaluated."""
        return self.model is not None or bool(self.chosen.judges)

    def earlier_verdicts(self) -> Verdicts:
        """Open the verdicts of earlier runs, to which those of this one are added."""
        file = VerdictFile(verdict_path(), max_days=self.settings.store_max_days)
        return Verdicts(entries=0, place=file)

    def fresh(self) -> Work:
        """Return the same work for another event loop: its models are new, its budget goes on."""
        work = copy(self)
        kept = ("settings", "chosen", "limiter")
        work.__dict__.update({name: getattr(self, name) for name in kept})
        return work

    def run(
        self, items: Iterable[InputRow], emit: Emit, verdict_log: VerdictLog | None = None
    ) -> Any:
        """Evaluate rows and emit each when it is done; return the exporters' accounts.

        With a log, no verdict is asked for that it knows.
        """
        with ExitStack() as stack:
            stack.callback(write_notices)  # no worker is here to do it
            engine = Engine(
                self.chosen,
                self.models,
                emit,
                concurrency=self.places,
                judge_timeout=self.settings.judge_timeout,
                is_throttled=self.is_throttled,
                decider=self.decider,
                keeps_images=self.settings.images == "keep",
                verdict_log=verdict_log,
            )
            experiment = None
            if self.model is not None or self.exporters:
                experiment = stack.enter_context(
                    recording(self.experiment, self.exporters, self.settings)
                )
                items = self._traced(engine, experiment, items)
            if self.cache and self.chosen.judges:
                engine.verdicts = stack.enter_context(closing(self.earlier_verdicts()))
                if self.decider is not None:
                    self.decider.verdicts = engine.verdicts
            try:
                if self.is_paid:
                    stream = iter(items)
                    run(lambda: engine.run(stream))
                else:
                    engine.run_free(items)
            except KeyboardInterrupt:
                engine.stopped = True  # in a notebook its loop runs on another thread
                raise
            return experiment.finish() if experiment is not None else {}

    def part(self, items: Iterable[InputRow]) -> tuple[list[Row], Aggregate]:
        """Evaluate a part of a data set by itself."""
        rows: list[Row] = []
        self.run(items, rows.append)
        rows.sort(key=lambda row: row.number)
        aggregate = Aggregate()
        for row in rows:
            aggregate.add(row)
        return rows, aggregate

    def _traced(
        self, engine: Engine, experiment: Experiment, items: Iterable[InputRow]
    ) -> Iterable[InputRow]:
        """Give every row a span: that of the app's call, or one that says what was given."""
        if self.exporters:
            emit = engine.emit

            def emit_and_submit(row: Row) -> None:
                emit(row)
                experiment.submit(row)

            engine.emit = emit_and_submit
        if self.function is not None:
            engine.app = App(self.function, experiment.open)
            return items
        return (item._replace(record=experiment.mark(item.record)) for item in items)


def _is_decided(settings: Settings) -> bool:
    """Return whether the settings name a decision model."""
    return any(getattr(table, "decision_model", None) for table in settings.extensions.values())


def _decider_of(
    decisions: Any,
    settings: Settings,
    *,
    limiter: BudgetLimiter,
    thresholds: Mapping[str, float] | None,
    **options: Any,
) -> Decider:
    """Return what asks the decision model that was given, else that of the settings.

    Raises:
        ConfigurationError: it cannot be used, or a threshold is no number from 0 to 1.
    """
    from llmeval_sdk.evaluation.calibrations import Calibrations
    from llmeval_sdk.evaluation.decisions import Decider
    from llmeval_sdk.judges.models.decisions import resolve as resolve_decisions

    model = resolve_decisions(decisions, settings=settings)
    if model is None:
        raise ConfigurationError("no decision model is named: set LLMEVAL_DECISION_MODEL")
    if thresholds is None:
        thresholds = getattr(model, "thresholds", None)
    calibrations = Calibrations(
        state_path(settings.store), lambda problem: tell("calibration", problem)
    )
    return Decider(
        model,
        limiter,
        thresholds=thresholds,
        prices=settings.prices,
        calibrations=calibrations,
        **options,
    )


def _with_decided(chosen: Chosen, *, has_llm: bool) -> Chosen:
    """Return the evaluators with those judges marked that the decision model is asked for.

    Judges that cannot be asked as typed questions stay with the judge model. Where there is none,
    only those remain that were asked for by name, so that the run says what they need.

    Raises:
        ConfigurationError: a judge has more options or levels than any decision model takes.
    """
    from llmeval_sdk.evaluation.decisions import divided

    typed, others = divided(chosen.judges)
    decided = frozenset(judge.name for judge in typed)
    if others and not (has_llm or chosen.are_requested):
        return replace(chosen, judges=tuple(typed), decided=decided)
    if others:
        names = ", ".join(judge.name for judge in others)
        tell("decisions", f"{names} cannot be asked as typed questions: judge models are asked")
    return replace(chosen, decided=decided)


def _models_of(
    llm: object, settings: Settings, *, limiter: BudgetLimiter, concurrency: int
) -> Models:
    """Return the judge models of a run, none of them made yet."""

    def configured() -> LLM | None:
        return configured_model(llm, settings) if _is_named(llm, settings) else None

    return Models(
        configured,
        limiter,
        concurrency=concurrency,
        prices=settings.prices,
        patience=PATIENCE_SECONDS,
    )


def _check_judges(
    judges: Sequence[Judge], models: Models, llm: object, settings: Settings, budget: Budget | None
) -> None:
    """Say before anything is done which judges nobody can answer.

    Raises:
        ConfigurationError: no model was named, its client is not installed, or there is a limit in
            USD and the price of one is not known; the message says what to do.
    """
    asking = [judge for judge in judges if judge.needs_model]
    without = [judge.name for judge in asking if judge.model is None]
    if without and not _is_named(llm, settings):
        raise ConfigurationError(
            f"{', '.join(without)} needs a judge model: pass llm= (on the command line "
            "--model-judge, or --model of agreement), or set LLMEVAL_JUDGE_MODEL, with "
            "OPENAI_API_KEY or OPENAI_BASE_URL"
        )
    for judge in asking:
        model = models.check(judge)
        why_not = getattr(model, "why_not", None)
        if why_not is not None and judge.calls_here:
            raise MissingExtraError(why_not)
        if _has_ceiling(budget) and not isinstance(model, NoModel):
            _check_price("judge", getattr(model, "model", ""), settings)


def _is_named(llm: object, settings: Settings) -> bool:
    return llm is not None or bool(settings.judge_model) or settings.judge_api_key is not None


def _has_ceiling(budget: Budget | None) -> bool:
    if budget is None:
        return False
    return any(map(limits_dollars, (budget, *budget.judges.values(), *budget.groups)))


def _check_price(kind: str, model: str, settings: Settings) -> None:
    if price_of(model, own=settings.prices) is None:
        raise ConfigurationError(
            f"the price of the {kind} model {model!r} is not known, so that no limit in USD can "
            f"hold: give it with prices={{{model!r}: (INPUT, OUTPUT)}} (on the command line "
            f"--price '{model}=INPUT,OUTPUT'), in USD per million tokens, or set no such limit "
            "(Budget(usd_per_day=None))"
        )


def slug(name: str) -> str:
    """Make a name that every backend takes."""
    return re.sub(r"[^a-z0-9_.-]+", "-", name.lower()).strip("-.") or "rows"


def _function_of(model: Callable[[Any], Any] | str) -> Callable[[Any], Any]:
    """Return what ``model=`` names, before the first row is read.

    Raises:
        ConfigurationError: it cannot be loaded, or cannot be called with one request.
    """
    function: Any
    if isinstance(model, str):
        _find_modules_here()
        function, name = load(model), repr(model)
    else:
        function, name = model, type(model).__name__
    if not callable(function):
        raise ConfigurationError(
            f"model: {name} is not a function: pass one that takes a request and returns the "
            "response, or its address such as 'my_app:answer'"
        )
    try:
        inspect.signature(function).bind("request")
    except TypeError as error:
        raise ConfigurationError(
            f"model: {name} is called with one argument, the request: {error}"
        ) from None
    except ValueError:  # a builtin without a signature
        pass
    checked: Callable[[Any], Any] = function
    return checked


def _find_modules_here() -> None:
    """Let addresses name modules of the current folder, as ``python -m`` does.

    For commands and offline runs only: the import path of an app in production is its own.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
