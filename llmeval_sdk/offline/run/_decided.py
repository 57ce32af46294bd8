"""The decision model of an offline run, and the judges in whose place it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from llmeval_sdk.config import Settings
from llmeval_sdk.config.settings import DecisionSettings
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.evaluation.calibrations import Calibrations
from llmeval_sdk.evaluation.decisions import Decider, divided
from llmeval_sdk.evaluation.limiter import BudgetLimiter
from llmeval_sdk.judges.models.decisions import resolve
from llmeval_sdk.offline.run.work import Chosen
from llmeval_sdk.process.shield import tell
from llmeval_sdk.store.state import state_path


def decider_of(
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
    model = resolve(decisions, settings=settings)
    if model is None:
        raise ConfigurationError("no decision model is named: set LLMEVAL_DECISION_MODEL")
    if thresholds is None:
        thresholds = settings.of(DecisionSettings).decision_thresholds
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


def with_decided(chosen: Chosen, *, has_llm: bool) -> Chosen:
    """Return the evaluators with those judges marked that the decision model is asked for.

    Judges that cannot be asked as typed questions stay with the judge model. Where there is none,
    only those remain that were asked for by name, so that the run says what they need.

    Raises:
        ConfigurationError: a judge has more options or levels than any decision model takes.
    """
    typed, others = divided(chosen.judges)
    decided = frozenset(judge.name for judge in typed)
    if others and not (has_llm or chosen.are_requested):
        return replace(chosen, judges=tuple(typed), decided=decided)
    if others:
        names = ", ".join(judge.name for judge in others)
        tell("decisions", f"{names} cannot be asked as typed questions: judge models are asked")
    return replace(chosen, decided=decided)
