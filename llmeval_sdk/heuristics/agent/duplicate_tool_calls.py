"""`duplicate_tool_calls`: tool calls that repeat an earlier one although nothing changed."""

from __future__ import annotations

from collections.abc import Iterator

from llmeval_sdk.agents.run import Run
from llmeval_sdk.heuristics.agent._outcome import Scored, at, counted, of_a_run


def _score(run: Run) -> Scored:
    """Return how many tool calls repeat an earlier one, with the same tool and arguments.

    A repetition is none where another tool changed something in between, since asking again can
    then bring something else.
    """
    return counted(_repetitions(run))


def _repetitions(run: Run) -> Iterator[tuple[int, str]]:
    made: dict[str, dict[str, int]] = {}
    """By tool and arguments, the step at which a call was made since anything last changed."""
    for call in run.calls:
        tool, arguments = call.signature
        earlier = made.get(tool, {}).get(arguments)
        if earlier is not None:
            yield call.number, at(call.number, tool, f"was called as at step {earlier}")
        if call.writes and call.outcome == "done":
            made = {tool: made.get(tool, {})}
        made.setdefault(tool, {})[arguments] = call.number


duplicate_tool_calls = of_a_run(_score, "duplicate_tool_calls")
