"""`unsupported_action_claims`: actions that an agent says it took and no tool call did."""

from __future__ import annotations

from collections import deque

from llmeval_sdk.agents.actions import claims, is_kin, kin_of
from llmeval_sdk.agents.run import Run
from llmeval_sdk.heuristics.agent._outcome import Scored, of_a_run


def _score(run: Run) -> Scored:
    """Return how many actions the agent says are done without a successful call that does them.

    A claim is supported if an earlier call of a tool whose name is kin to the verb succeeded, such
    as ``cancel_order`` for "I have cancelled". Plans, conditions and negations are no claims.
    """
    done = deque(call for call in run.calls if call.writes and call.outcome == "done")
    tools: set[str] = set()
    steps = []
    explanation = None
    for said in run.said:
        while done and done[0].number < said.number:
            tools.add((done.popleft().step.name or "").lower())
        for verb, words in claims(said.text):
            kin = kin_of(verb)
            if not tools or (kin and not any(is_kin(tool, kin) for tool in tools)):
                steps.append(said.number)
                explanation = explanation or (
                    f"step {said.number}: says {words!r}, but no tool did this before"
                )
    return float(len(steps)), steps, explanation


unsupported_action_claims = of_a_run(_score, "unsupported_action_claims")
