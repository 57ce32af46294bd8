"""`tool_call_accuracy`: how many arguments an agent got right where it called the right tools."""

from __future__ import annotations

from llmeval_sdk.heuristics.function import FunctionHeuristic
from llmeval_sdk.model import Evaluation, Record
from llmeval_sdk.model.runs import Signature
from llmeval_sdk.plugins.agents.heuristics import (
    CUT,
    expected_calls,
    has_reference,
    is_cut,
    made_calls,
)
from llmeval_sdk.plugins.agents.heuristics.trajectory_match import NEEDS


def _score(record: Record) -> Evaluation | None:
    """Return the mean share of expected arguments that the calls have, from 0 to 1.

    It is 0 unless the tools that were called are the expected ones in their order. So does Ragas'
    metric of this name.
    """
    if not has_reference(record):
        return None
    if is_cut(record):
        return Evaluation("tool_call_accuracy", None, None, CUT)
    made, expected = made_calls(record), expected_calls(record)
    if [call.tool for call in made] != [call.tool for call in expected]:
        return Evaluation("tool_call_accuracy", 0.0, None, "other tools, or in another order")
    shares = [_share(call, wanted) for call, wanted in zip(made, expected, strict=True)]
    wrong = next((call for call, share in zip(made, shares, strict=True) if share < 1), None)
    explanation = None if wrong is None else f"other arguments: {wrong.shown}"
    value = sum(shares) / len(shares) if shares else 1.0
    return Evaluation("tool_call_accuracy", value, None, explanation)


def _share(made: Signature, expected: Signature) -> float:
    wanted = expected.named()
    given = made.named()
    if not wanted:
        return 1.0 if not given else 0.0
    return sum(name in given and given[name] == text for name, text in wanted.items()) / len(wanted)


tool_call_accuracy = FunctionHeuristic(_score, "tool_call_accuracy", needs=NEEDS, output="score")
