"""`tool_call_efficiency`: the share of an agent's tool calls that brought something new."""

from __future__ import annotations

from llmeval_sdk.model.runs import EMPTY, WENT_WRONG, Run, ToolCall
from llmeval_sdk.plugins.agents.heuristics import Scored, at, of_a_run


def wasted(run: Run) -> tuple[list[ToolCall], int]:
    """Return the calls that brought nothing new, and how many calls have ended.

    They failed, came back empty, or returned what that tool had returned.
    """
    returned: set[tuple[str, str]] = set()
    wasteful = []
    ended = [call for call in run.turn if call.outcome != "pending"]
    told = {call.number for call in run.calls}
    for call in ended:
        result = (call.result or "").strip()
        key = call.step.name or "", result
        says_nothing = result.lower() in EMPTY
        repeats = key in returned and not (says_nothing and call.writes)
        is_wasted = call.outcome in WENT_WRONG or (says_nothing and not call.writes) or repeats
        if is_wasted and call.number in told:
            wasteful.append(call)
        returned.add(key)
    return wasteful, sum(call.number in told for call in ended)


def _score(run: Run) -> Scored:
    """Return the share of tool calls that brought something new, from 0 to 1.

    A call brought nothing if it failed, came back empty, or returned the same as an earlier call of
    the same tool. One that changes something may come back empty. Of all single signals, this one
    tells best whether a run went wrong.
    """
    wasteful, count = wasted(run)
    if not count:
        return None, (), None
    if not wasteful:
        return 1.0, (), None
    first = wasteful[0]
    explanation = at(first.number, first.step.name, "brought nothing new")
    value = 1 - len(wasteful) / count
    return value, [call.number for call in wasteful], explanation


tool_call_efficiency = of_a_run(_score, "tool_call_efficiency", output="score")
