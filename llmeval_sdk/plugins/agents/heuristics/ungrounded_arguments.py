"""`ungrounded_arguments`: values in an agent's tool calls that it had seen nowhere."""

from __future__ import annotations

from llmeval_sdk.model.runs import Run, values_of
from llmeval_sdk.plugins.agents.heuristics import Scored, at, of_a_run
from llmeval_sdk.plugins.agents.origins import Choices, is_invented
from llmeval_sdk.text.budget import WorkBudget


CHARACTERS_PER_UNIT = 500
"""Looking for a text in so many characters takes a unit of work."""


def invented(run: Run) -> list[tuple[int, str | None, str, str]]:
    """Return step, tool, argument and value of all values that the agent had seen nowhere."""
    values = []
    budget = WorkBudget()
    choices: dict[str, Choices] = {}
    for call in run.made:
        tool = call.step.name or ""
        if tool not in choices:
            choices[tool] = Choices(run.schemas.get(tool) or {})
        for name, value in values_of(call.step.arguments or {}):
            budget.spend(1 + call.seen / CHARACTERS_PER_UNIT)
            if is_invented(name, value, call, run) and not choices[tool].has(name, value):
                values.append((call.number, call.step.name, name, str(value)[:80]))
    return values


def _score(run: Run) -> Scored:
    """Return how many values in tool calls stand in nothing that the agent had seen before.

    It had seen its instructions, what the user said, earlier results, and the values that the
    definition of the tool names. A constant that an argument takes from a fixed set, such as
    ``folder="inbox"`` or ``unit="celsius"``, is a choice, unless the tool destroys or pays
    something. Good runs have such
    values, too: one in four of those that were measured. So this score is no fault by itself; it
    is one of the signs that ``run_faults`` weighs.
    """
    values = invented(run)
    if not values:
        return 0.0, (), None
    number, tool, name, value = values[0]
    explanation = at(number, tool, f"was called with {name[:80]} = {value!r}, which stands nowhere")
    return float(len(values)), sorted({number for number, *_ in values}), explanation


ungrounded_arguments = of_a_run(_score, "ungrounded_arguments")
