"""What decisions may use, in a budget apart from that of judge models."""

from __future__ import annotations

from dataclasses import replace

from llmeval_sdk.config import Settings
from llmeval_sdk.config.settings import DecisionSettings
from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.evaluation.limiter import BudgetLimiter
from llmeval_sdk.store.files import path_of
from llmeval_sdk.store.ledger import HostLedger


BUDGET = Budget(calls_per_minute=None, tokens_per_minute=1_000_000, usd_per_day=1.0, concurrency=16)
"""What decisions may use by default, apart from what judge models may: as many requests as USD 1 a
day and a million tokens a minute pay for."""


def host_limiter(settings: Settings, budget: Budget | None = None) -> BudgetLimiter:
    """Return the limiter of the decisions' budget, which all processes of this host share.

    Its limits are those of the settings, where none are given.
    """
    if budget is None:
        own = settings.of(DecisionSettings)
        budget = replace(
            BUDGET,
            usd_per_day=own.decision_usd_per_day,
            tokens_per_minute=own.decision_tokens_per_minute,
        )
    return BudgetLimiter(budget, HostLedger(path_of(settings.store).with_suffix(".decisions")))
