"""`ignored_errors`: failed tool calls that an agent neither repaired nor mentioned."""

from __future__ import annotations

import re

from llmeval_sdk.agents.actions import apologises
from llmeval_sdk.agents.calls import values_of
from llmeval_sdk.agents.run import Call, Run
from llmeval_sdk.heuristics.agent._outcome import Scored, at, of_a_run


_ADMITS = re.compile(
    r"\berrors?\b|\bfail|\b(?:an|the|some|any) (?:issue|problem)|trouble|invalid|incorrect|denied"
    r"|rejected|declined|unsuccessful|went wrong"
    r"|not (?:be |been )?(?:found|available|valid|allowed|successful|complete)",
    re.IGNORECASE,
)


def _score(run: Run) -> Scored:
    """Return how many tool calls failed without the agent repairing them or saying so.

    A failure is repaired if a later call of the same tool about the same thing succeeds, which is
    one that shares an argument's value with it. It is mentioned if anything
    that the agent says after it speaks of an error, a problem or something that was not possible.
    """
    steps = []
    explanation = None
    for call in run.calls:
        if call.outcome != "done" and not _is_repaired(call, run) and not _is_said(call, run):
            steps.append(call.number)
            explanation = explanation or at(
                call.number, call.step.name, "failed, and the agent went on as if it had not"
            )
    return float(len(steps)), steps, explanation


def _is_repaired(failure: Call, run: Run) -> bool:
    about = _values(failure)
    return any(
        call.number > failure.number
        and call.step.name == failure.step.name
        and call.outcome == "done"
        and (not about or not about.isdisjoint(_values(call)))
        for call in run.calls
    )


def _values(call: Call) -> set[str]:
    return {str(value) for _, value in values_of(call.step.arguments or {})}


def _is_said(failure: Call, run: Run) -> bool:
    """Say whether the agent speaks of a failure, or never speaks again."""
    later = [said.text for said in run.said if said.number > failure.number]
    return not later or any(apologises(text) or _ADMITS.search(text) for text in later)


ignored_errors = of_a_run(_score, "ignored_errors")
