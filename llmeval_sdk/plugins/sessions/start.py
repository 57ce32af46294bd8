"""Makes what evaluates the sessions of a plan, where somebody asked for that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from llmeval_sdk import registry
from llmeval_sdk.config import Settings
from llmeval_sdk.evaluation import is_built_in
from llmeval_sdk.evaluation.resolve import standing_heuristics
from llmeval_sdk.model.protocols import Evaluator
from llmeval_sdk.pipeline.plan import Plan
from llmeval_sdk.plugins.sessions._closing import Sessions
from llmeval_sdk.plugins.sessions._turn_store import TurnStore
from llmeval_sdk.plugins.sessions.settings import SessionSettings
from llmeval_sdk.store.files import SESSIONS_SUFFIX, path_of


def make(plan: Plan, settings: Settings, requested: Sequence[Evaluator]) -> Plan:
    """Take the evaluators of sessions out of a plan, and put in what runs them.

    Nothing is kept of any session where no evaluator of sessions was asked for, or registered by
    the app.
    """
    wanted = (*plan.judges, *requested, *registry.own_evaluators())
    if not any(_is_of_session(evaluator) for evaluator in wanted):
        return plan
    judges = [judge for judge in plan.judges if judge.per == "session"]
    standing = [each for each in standing_heuristics(settings) if _is_of_session(each)]
    asked = [each for each in requested if each.kind == "heuristic" and _is_of_session(each)]
    own = [each for each in standing if not is_built_in(each)]
    if not (judges or asked or own):
        return plan
    heuristics: dict[str, Any] = {each.name: each for each in (*standing, *asked)}
    idle = settings.of(SessionSettings).session_idle
    sessions = Sessions(
        _turn_store(plan, path_of(settings.store).with_suffix(SESSIONS_SUFFIX), int(idle * 1e9)),
        [] if settings.heuristics == "off" and not asked else list(heuristics.values()),
        judges,
        idle=idle,
        content=plan.content,
    )
    others = tuple(judge for judge in plan.judges if judge.per != "session")
    return replace(plan, judges=others, hooks=(*plan.hooks, sessions))


def _turn_store(plan: Plan, path: Path, idle_ns: int) -> TurnStore:
    """Make the shelf of this host, or the one that it shares with others, as it does the budget.

    Where names that the app chose may not leave, neither may a session's id: then its turns stay
    on their host.
    """
    link = getattr(plan.limiter, "link", None)
    if link is None or not plan.names:
        return TurnStore(path, idle_ns)
    from llmeval_sdk.plugins.sessions.hosts.turn_store import SharedTurnStore

    return SharedTurnStore(path, idle_ns, link)


def _is_of_session(evaluator: Any) -> bool:
    return getattr(evaluator, "per", "answer") == "session"
