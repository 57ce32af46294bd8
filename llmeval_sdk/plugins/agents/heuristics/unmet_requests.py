"""`unmet_requests`: the share of what the user asked to be done that no tool call did."""

from __future__ import annotations

from llmeval_sdk.model.runs import Run
from llmeval_sdk.plugins.agents.heuristics import Scored, of_a_run
from llmeval_sdk.plugins.agents.phrases import is_kin, wanted


def unmet(run: Run) -> tuple[list[str], int]:
    """Return the actions that were asked for and not done, and how many were asked for."""
    if run.is_under_way:
        return [], 0
    actions = wanted(run.request)
    tools = {(call.step.name or "").lower() for call in run.changes}
    missed = [verb for verb, kin in actions.items() if not any(is_kin(tool, kin) for tool in tools)]
    return missed, len(actions)


def _score(run: Run) -> Scored:
    """Return the share of the actions in the user's words that no successful call did, 0 to 1.

    Actions are verbs such as cancel, book or send. A request that was rightly refused counts as
    well, so this is a sign and no fault by itself.
    """
    missed, count = unmet(run)
    if not missed:
        return 0.0, (), None
    explanation = f"asked for and not done: {', '.join(missed[:5])}"
    return len(missed) / count, (), explanation


unmet_requests = of_a_run(_score, "unmet_requests", output="score")
