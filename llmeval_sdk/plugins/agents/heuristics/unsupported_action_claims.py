"""`unsupported_action_claims`: actions that an agent says it took and no tool call did."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from llmeval_sdk.model.runs import Run
from llmeval_sdk.plugins.agents.heuristics import Scored, counted, of_a_run
from llmeval_sdk.plugins.agents.phrases import claims, is_kin, kin_of


def _score(run: Run) -> Scored:
    """Return how many actions the agent says are done without a successful call that does them.

    A claim is supported if an earlier call of a tool whose name is kin to the verb succeeded, such
    as ``cancel_order`` for "I have cancelled". Plans, conditions and negations are no claims.
    """
    return counted(_unsupported(run))


def _unsupported(run: Run) -> Iterator[tuple[int, str]]:
    changes = deque(run.changes)
    tools: set[str] = set()
    for said in run.said:
        while changes and changes[0].number < said.number:
            tools.add((changes.popleft().step.name or "").lower())
        for verb, words in claims(said.text):
            kin = kin_of(verb)
            if not tools or (kin and not any(is_kin(tool, kin) for tool in tools)):
                explanation = f"step {said.number}: says {words!r}, but no tool did this before"
                yield said.number, explanation


unsupported_action_claims = of_a_run(_score, "unsupported_action_claims")
