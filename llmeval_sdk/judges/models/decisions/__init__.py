"""Ways to reach a decision model, which answers typed questions with probabilities.

A wire is one file: ``openai``, ``systemone`` or ``logprobs``. All of this can be deleted; without a
decision model, nothing of it is loaded.
"""

from __future__ import annotations

from llmeval_sdk.config import JUDGES, Settings, from_environment
from llmeval_sdk.config.settings import DecisionSettings
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.judges.models.decisions.client import (
    WIRES,
    CallableDecisions,
    HttpDecisions,
    place,
    wire_of,
)
from llmeval_sdk.judges.models.decisions.wires import Limits
from llmeval_sdk.model.protocols import DecisionModel


__all__ = ["WIRES", "CallableDecisions", "HttpDecisions", "Limits", "place", "resolve"]

_PART_FOR_REQUESTS = 0.9


def resolve(decisions: object = None, *, settings: Settings | None = None) -> DecisionModel | None:
    """Return a decision model for its name, an object or a callable.

    ``None`` stands for the model of the settings. Where they name none, there is none: a key alone
    starts nothing.

    Raises:
        ConfigurationError: The argument is something else, or the name cannot be used.
        MissingExtraError: The ``openai`` package is not installed.
    """
    if settings is None:
        settings = from_environment(problems=[])
    if decisions is None:
        decisions = settings.of(DecisionSettings).decision_model
    if decisions is None:
        return None
    if isinstance(decisions, str):
        settings.check_open(JUDGES)
        base_url, key = place(wire_of(decisions)[0], settings)
        # It ends before the whole judgement does, so that the answers it has by then still count.
        timeout = _PART_FOR_REQUESTS * settings.judge_timeout
        return HttpDecisions(
            decisions,
            base_url=base_url,
            api_key=key,
            timeout=timeout,
            prices=settings.prices or {},
        )
    if hasattr(decisions, "decide"):
        return decisions  # type: ignore[return-value]
    if callable(decisions):
        return CallableDecisions(decisions)
    raise ConfigurationError(
        f"{type(decisions).__name__} is not a decision model: expected a name such as "
        "`openai/gpt-6-luna`, an object with `async def decide(data, questions)`, or a callable "
        "that takes data and questions"
    )
