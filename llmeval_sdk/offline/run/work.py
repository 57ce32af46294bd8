"""What is to be done to every row, apart from where the rows come from and go.

`Work` pickles where its parts do, so that another engine can carry it to where the rows are: each
part of a data set becomes rows and an `Aggregate`, and aggregates merge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from llmeval_sdk import config
from llmeval_sdk.config import Settings, price_table
from llmeval_sdk.errors import ConfigurationError, MissingExtraError
from llmeval_sdk.evaluation import Models, NoModel, configured_model
from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.evaluation.limiter import BudgetLimiter
from llmeval_sdk.evaluation.unlimited import Unlimited
from llmeval_sdk.evaluation.verdicts import VerdictFile, signer_of
from llmeval_sdk.judges.models.prices import price_of
from llmeval_sdk.model.protocols import LLM, Exporter, Judge
from llmeval_sdk.offline.report.aggregate import Aggregate
from llmeval_sdk.offline.report.row import Row
from llmeval_sdk.offline.run._app import App, function_of
from llmeval_sdk.offline.run.engine import (
    DAY,
    Chosen,
    Emit,
    Engine,
    InputRow,
    VerdictJournal,
    choose,
)
from llmeval_sdk.offline.run.experiment import Experiment, recording
from llmeval_sdk.process.shield import write_notices
from llmeval_sdk.process.threads import run
from llmeval_sdk.store.files import path_of


if TYPE_CHECKING:  # loaded where a decision model is named
    from llmeval_sdk.evaluation.deciding import Decider

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
        return replace(settings, prices={**(settings.prices or {}), **own})

    @cached_property
    def chosen(self) -> Chosen:
        """The evaluators; raises `ConfigurationError` where one cannot be used."""
        has_llm = self.llm is not None or self.settings.judge_model is not None
        has_model = has_llm or self.decider is not None
        chosen = choose(self.evaluators, self.settings, has_model=has_model)
        if self.decider is not None:
            from llmeval_sdk.offline.run._decided import with_decided

            chosen = with_decided(chosen, has_llm=has_llm)
            if _has_ceiling(self.budget):
                _check_price("decision", self.decider.model.model, self.settings)
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
        from llmeval_sdk.offline.run._decided import decider_of

        return decider_of(
            self.decisions,
            self.settings,
            limiter=self.limiter,
            concurrency=self.places,
            timeout=DAY if self.is_throttled else self.settings.judge_timeout,
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
        return None if self.model is None else function_of(self.model)

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

    def verdict_file(self) -> VerdictFile:
        """Open the verdicts of earlier runs, which lie beside the store."""
        path = path_of(self.settings.store).with_name("verdicts.db")
        signer = signer_of(self.settings)
        return VerdictFile(path, signer, max_days=self.settings.store_max_days)

    def fresh(self) -> Work:
        """Return the same work for another event loop: its models are new, its budget goes on."""
        work = copy(self)
        kept = ("settings", "chosen", "limiter")
        work.__dict__.update({name: getattr(self, name) for name in kept})
        return work

    def run(
        self, items: Iterable[InputRow], emit: Emit, journal: VerdictJournal | None = None
    ) -> Any:
        """Evaluate rows and emit each when it is done; return the exporters' accounts.

        With a journal, no verdict is asked for that it knows.
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
                journal=journal,
            )
            experiment = None
            if self.model is not None or self.exporters:
                experiment = stack.enter_context(
                    recording(self.experiment, self.exporters, self.settings)
                )
                items = self._traced(engine, experiment, items)
            if self.cache and self.chosen.judges:
                engine.verdicts = stack.enter_context(closing(self.verdict_file()))
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


def _models_of(llm: Any, settings: Settings, *, limiter: BudgetLimiter, concurrency: int) -> Models:
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
    judges: Sequence[Judge], models: Models, llm: Any, settings: Settings, budget: Budget | None
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


def _is_named(llm: Any, settings: Settings) -> bool:
    return llm is not None or bool(settings.judge_model) or settings.judge_api_key is not None


def _has_ceiling(budget: Budget | None) -> bool:
    return budget is not None and any(
        part.usd_per_day is not None for part in (budget, *budget.judges.values())
    )


def _check_price(kind: str, model: str, settings: Settings) -> None:
    if price_of(model, own=settings.prices) is None:
        raise ConfigurationError(
            f"the price of the {kind} model {model!r} is not known, so that no limit in USD can "
            f"hold: give it with prices={{{model!r}: (INPUT, OUTPUT)}} (on the command line "
            f"--price '{model}=INPUT,OUTPUT'), in USD per million tokens, or set no such limit "
            "(Budget(usd_per_day=None))"
        )
