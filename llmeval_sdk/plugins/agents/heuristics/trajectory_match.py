"""`trajectory_match`: whether an agent made the tool calls that it should have made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Literal, get_args

from llmeval_sdk.errors import ConfigurationError
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


Mode = Literal["strict", "unordered", "subset", "superset", "in_order"]
NEEDS = ("steps", "expected_trajectory")


def matching(
    mode: Mode = "strict", *, only: Literal["all", "writes"] = "all"
) -> FunctionHeuristic[Evaluation | None]:
    """Make a heuristic that compares the tool calls of a run with the expected ones.

    Two calls are the same if tool and arguments are. The modes are those of the field:

    - ``strict``: the same calls in the same order, and no others;
    - ``unordered``: the same calls in any order, and no others;
    - ``subset``: no call that is not expected;
    - ``superset``: every expected call, and perhaps others;
    - ``in_order``: every expected call in its order, and perhaps others between them.

    Args:
        mode: How the calls are compared.
        only: ``writes`` compares only the calls that change something, which tells solved tasks
            from others much better than all calls do: there are many ways to look something up.

    Raises:
        ConfigurationError: There is no such mode.

    Examples:
        >>> from llmeval_sdk.plugins.agents.heuristics.trajectory_match import matching
        >>> matching("superset", only="writes").name
        'trajectory_match_superset_of_writes'
    """
    if mode not in get_args(Mode):
        raise ConfigurationError(f"trajectory_match: mode is one of {', '.join(get_args(Mode))}")
    if only not in ("all", "writes"):
        raise ConfigurationError("trajectory_match: only is 'all' or 'writes'")
    suffix = "" if mode == "strict" else f"_{mode}"
    name = f"trajectory_match{suffix}" + ("_of_writes" if only == "writes" else "")

    def evaluate(record: Record) -> Evaluation | None:
        if not has_reference(record):
            return None
        made = made_calls(record, only_writes=only == "writes")
        expected = expected_calls(record, only_writes=only == "writes")
        problem = _problem(mode, made, expected)
        if is_cut(record) and (mode != "subset" or problem is None):
            return Evaluation(name, None, None, CUT)  # a call that is not there may have been made
        return Evaluation(name, problem is None, None, problem)

    return FunctionHeuristic(evaluate, name, needs=NEEDS)


def _problem(mode: Mode, made: Sequence[Signature], expected: Sequence[Signature]) -> str | None:
    """Say how the calls differ; ``None`` where they match."""
    if mode == "in_order":
        waiting = iter(made)
        missed = next((call for call in expected if call not in waiting), None)
        return None if missed is None else f"not called, or not in its turn: {missed.shown}"
    surplus, missing = Counter(made) - Counter(expected), Counter(expected) - Counter(made)
    if missing and mode != "subset":
        return f"not called: {next(iter(missing)).shown}"
    if surplus and mode != "superset":
        return f"not expected: {next(iter(surplus)).shown}"
    if mode == "strict" and list(made) != list(expected):
        pairs = enumerate(zip(made, expected, strict=True))
        place = next(place for place, (call, wanted) in pairs if call != wanted)
        return f"in another order, from call {place + 1} on: {made[place].shown}"
    return None


trajectory_match = matching()
