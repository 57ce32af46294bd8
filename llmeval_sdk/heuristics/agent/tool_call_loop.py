"""`tool_call_loop`: how long an agent went round in circles."""

from __future__ import annotations

from llmeval_sdk.agents.run import Run
from llmeval_sdk.heuristics.agent._outcome import Scored, of_a_run


LONGEST_PERIOD = 4
"""Calls in the longest circle that is looked for."""


def _score(run: Run) -> Scored:
    """Return the length, in calls, of the longest stretch that repeats the calls before it.

    A circle has one to four calls, such as A A, or A B A B. 0 means that there is none.
    """
    longest = end = period_of_it = 0
    calls = run.calls
    for period in range(1, LONGEST_PERIOD + 1):
        repeated = 0
        for place in range(period, len(calls)):
            same = calls[place].signature == calls[place - period].signature
            repeated = repeated + 1 if same else 0
            if repeated >= period and repeated > longest:
                longest, end, period_of_it = repeated, place, period
    if not longest:
        return 0.0, (), None
    steps = [call.number for call in calls[end - longest + 1 : end + 1]]
    circle = calls[end - period_of_it + 1 : end + 1]
    names = ", ".join((call.step.name or "a tool")[:80] for call in circle)
    explanation = f"step {steps[0]}: from here on, {longest} calls repeat those before ({names})"
    return float(longest), steps, explanation


tool_call_loop = of_a_run(_score, "tool_call_loop")
