"""Lets all hosts share what a plan would otherwise keep for one host: budget, verdicts, scores."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from llmeval_sdk.config import Settings
from llmeval_sdk.config.shared import SharedSettings
from llmeval_sdk.evaluation.shared_verdicts import SharedVerdicts
from llmeval_sdk.policy.keeper import BudgetKeeper
from llmeval_sdk.policy.shared.client import connect
from llmeval_sdk.policy.shared.host import Host
from llmeval_sdk.policy.shared.keeper import SharedKeeper
from llmeval_sdk.policy.shared.link import Link
from llmeval_sdk.policy.shared.scores import SharedGate
from llmeval_sdk.store.files import path_of
from llmeval_sdk.store.ledger import HostLedger


if TYPE_CHECKING:
    from llmeval_sdk.pipeline._plan import Plan


def share(plan: Plan, settings: Settings) -> Plan:
    """Return the plan with what all hosts share; the same plan where ``LLMEVAL_SHARED`` is not set.

    Raises:
        ConfigurationError: the address cannot be used, or the library is not installed.
    """
    own = settings.of(SharedSettings)
    if own.shared is None:
        return plan
    connect(own.shared).close()  # a wrong address is told here, where a person is watching
    link = Link(own.shared)
    host = Host(HostLedger(path_of(settings.store).with_suffix(".shared")))

    def shared(keeper: BudgetKeeper, name: str) -> SharedKeeper:
        return SharedKeeper.instead_of(
            keeper,
            host=host,
            link=link,
            name=name,
            concurrency=own.shared_concurrency if name == "judges" else None,
            longest=plan.judge_timeout + 5.0,
        )

    tier = plan.tier
    return replace(
        plan,
        keeper=shared(plan.keeper, "judges"),
        tier=None if tier is None else replace(tier, keeper=shared(tier.keeper, "decisions")),
        gate=SharedGate(plan.gate, link) if plan.gate.shares else plan.gate,
        verdicts=partial(SharedVerdicts, link),
    )
