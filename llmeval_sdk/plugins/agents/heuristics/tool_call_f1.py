"""`tool_call_f1`: how well an agent's tool calls agree with the expected ones."""

from __future__ import annotations

from collections import Counter

from llmeval_sdk.heuristics.function import FunctionHeuristic
from llmeval_sdk.model import Evaluation, Record
from llmeval_sdk.plugins.agents.heuristics import (
    CUT,
    expected_calls,
    has_reference,
    is_cut,
    made_calls,
)
from llmeval_sdk.plugins.agents.heuristics.trajectory_match import NEEDS


def _score(record: Record) -> Evaluation | None:
    """Return the harmonic mean of precision and recall of the tool calls, from 0 to 1.

    A call is right if tool and arguments are those of an expected call, each of which counts once,
    in any order. It is 1 where no call was expected and none was made. So does Ragas' metric of
    this name.
    """
    if not has_reference(record):
        return None
    if is_cut(record):
        return Evaluation("tool_call_f1", None, None, CUT)
    made, expected = Counter(made_calls(record)), Counter(expected_calls(record))
    right = (made & expected).total()
    total = made.total() + expected.total()
    value = 2 * right / total if total else 1.0
    missing = next(iter(expected - made), None)
    explanation = None if missing is None else f"not called: {missing.shown}"
    return Evaluation("tool_call_f1", value, None, explanation)


tool_call_f1 = FunctionHeuristic(_score, "tool_call_f1", needs=NEEDS, output="score")
