"""Lets all hosts share what a plan would otherwise keep for one host: budget, verdicts, scores."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

from llmeval_sdk import config
from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError, missing_extra
from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.evaluation.limiter import BudgetLimiter
from llmeval_sdk.evaluation.verdicts import Verdicts
from llmeval_sdk.plugins.shared.counters import RedisCounters
from llmeval_sdk.plugins.shared.redis_client import RedisThread, connect
from llmeval_sdk.plugins.shared.scores import SharedGate
from llmeval_sdk.plugins.shared.settings import SharedSettings
from llmeval_sdk.plugins.shared.verdicts import RedisVerdicts


if TYPE_CHECKING:
    from llmeval_sdk.pipeline.plan import Plan


def share(plan: Plan, settings: Settings, problems: list[str], *, strict: bool) -> Plan:
    """Return the plan with what all hosts share; the same plan where ``LLMEVAL_SHARED`` is not set.

    A verdict may quote the app's texts, and scores go by the names of spans: where those may not
    leave, verdicts and scores stay on the host. Where the environment names a Redis that cannot be
    used, that is a line of ``problems``, and no judge pays: a budget for each host would be more
    than the one that was asked for.

    Raises:
        ConfigurationError: the address that ``configure()`` was given cannot be used, or the
            library is not installed; with ``strict`` also that of the environment.
    """
    own = settings.of(SharedSettings)
    if own.shared is None:
        return plan
    try:
        if strict:
            connect(own.shared).close()
        elif find_spec("redis") is None:  # its import takes longer than an app may be held up
            raise missing_extra("What all hosts share", "fleet", "redis")
    except ConfigurationError as error:
        if strict or config.source_of("shared") == "default":
            raise
        problems.append(f"{config.source_of('shared')}: {error}; until then no judge pays")
        return replace(plan, limiter=_closed(plan.limiter))
    link = RedisThread(own.shared)
    return replace(
        plan,
        limiter=plan.limiter.shared_by(RedisCounters(link)),
        gate=SharedGate(plan.gate, link) if plan.gate.shares and plan.names else plan.gate,
        verdicts=partial(Verdicts, place=RedisVerdicts(link)) if plan.content else plan.verdicts,
    )


def _closed(limiter: BudgetLimiter) -> BudgetLimiter:
    """Return a limiter that allows no call."""
    nothing = Budget(calls_per_minute=0)
    return BudgetLimiter(nothing, apart=dict.fromkeys(limiter.apart, nothing))
