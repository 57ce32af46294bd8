"""The judge models of a run: patient, and without a budget unless one was given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError, MissingExtraError
from llmeval_sdk.evaluation import Models, NoModel, configured_model
from llmeval_sdk.evaluation.resolve import calls_here, needs_model
from llmeval_sdk.policy.budget import Budget
from llmeval_sdk.policy.keeper import BudgetKeeper, Unlimited
from llmeval_sdk.policy.prices import price_of
from llmeval_sdk.protocols import LLM, Judge


PATIENCE_SECONDS = 60.0
"""How long a run waits for a model that is down before its judgements fail."""


def models_of(llm: Any, settings: Settings, *, budget: Budget | None, concurrency: int) -> Models:
    """Return the judge models of a run, none of them made yet."""

    def configured() -> LLM | None:
        return configured_model(llm, settings) if _is_named(llm, settings) else None

    return Models(
        configured,
        Unlimited() if budget is None else BudgetKeeper(budget),
        concurrency=concurrency,
        prices=settings.prices,
        patience=PATIENCE_SECONDS,
    )


def check_judges(
    judges: Sequence[Judge], models: Models, llm: Any, settings: Settings, budget: Budget | None
) -> None:
    """Say before anything is done which judges nobody can answer.

    Raises:
        ConfigurationError: no model was named, its client is not installed, or there is a limit in
            USD and the price of one is not known; the message says what to do.
    """
    asking = [judge for judge in judges if needs_model(judge)]
    without = [judge.name for judge in asking if getattr(judge, "model", None) is None]
    if without and not _is_named(llm, settings):
        raise ConfigurationError(
            f"{', '.join(without)} needs a judge model: pass llm= (on the command line "
            "--model-judge), or set LLMEVAL_JUDGE_MODEL, with OPENAI_API_KEY or OPENAI_BASE_URL"
        )
    for judge in asking:
        model = models.check(judge)
        why_not = getattr(model, "why_not", None)
        if why_not is not None and calls_here(judge):
            raise MissingExtraError(why_not)
        if budget is not None and _has_ceiling(budget) and not isinstance(model, NoModel):
            _check_price(getattr(model, "model", ""), settings)


def _is_named(llm: Any, settings: Settings) -> bool:
    return llm is not None or bool(settings.judge_model) or settings.judge_api_key is not None


def _has_ceiling(budget: Budget) -> bool:
    return any(part.usd_per_day is not None for part in (budget, *budget.judges.values()))


def _check_price(model: str, settings: Settings) -> None:
    if price_of(model, own=settings.prices) is None:
        raise ConfigurationError(
            f"the price of the judge model {model!r} is not known, so that no limit in USD can "
            f"hold: give it with prices={{{model!r}: (INPUT, OUTPUT)}} (on the command line "
            f"--price '{model}=INPUT,OUTPUT'), in USD per million tokens, or set no such limit "
            "(Budget(usd_per_day=None))"
        )
