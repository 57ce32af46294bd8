"""`tool_call_errors`: the share of an agent's tool calls that failed."""

from __future__ import annotations

from llmeval_sdk.model.runs import WENT_WRONG, Run
from llmeval_sdk.plugins.agents.heuristics import Scored, at, of_a_run


def _score(run: Run) -> Scored:
    """Return the share of tool calls that failed or were refused, from 0 to 1.

    A call failed if it raised, or if its result begins like an error or has a non-empty ``error``.
    It was refused if a short result says that it could not do what was asked. A call that has no
    result yet is not counted.
    """
    ended = [call for call in run.calls if call.outcome != "pending"]
    if not ended:
        return None, (), None
    bad = [call for call in ended if call.outcome in WENT_WRONG]
    if not bad:
        return 0.0, (), None
    first = bad[0]
    detail = " ".join((first.step.error or first.result or "").split())[:120]
    explanation = at(first.number, first.step.name, f"{first.outcome}: {detail}")
    return len(bad) / len(ended), [call.number for call in bad], explanation


tool_call_errors = of_a_run(_score, "tool_call_errors", output="score")
