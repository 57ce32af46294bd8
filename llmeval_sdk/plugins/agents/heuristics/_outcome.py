"""What the scores of a run have in common: when they apply, and how they point at steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from llmeval_sdk.heuristics.function import FunctionHeuristic
from llmeval_sdk.model import Evaluation, Record
from llmeval_sdk.model.runs import Run, is_run, run_of


MOST_SHOWN = 20
"""Steps that the metadata of an evaluation names."""

Scored = tuple[float | None, Sequence[int], str | None]
"""The value, the numbers of the steps at fault, and an explanation of the first fault."""


def of_a_run(
    score: Callable[[Run], Scored],
    name: str,
    *,
    version: str = "1",
    output: Any = "count",
    live: Callable[[Any], Evaluation | None] | None = None,
) -> FunctionHeuristic[Evaluation | None]:
    """Make a heuristic of a function of a `Run`; it applies to Records with steps."""

    def evaluate(record: Record) -> Evaluation | None:
        if not is_run(record):
            return None
        run = run_of(record)
        return evaluation_of(name, score(run), is_cut=run.cut_at is not None)

    evaluate.__doc__ = score.__doc__
    evaluate.__name__ = name
    return FunctionHeuristic(
        evaluate, name, version=version, needs=("steps",), output=output, applies=is_run, live=live
    )


def evaluation_of(name: str, scored: Scored, *, is_cut: bool) -> Evaluation | None:
    """Write a score as an Evaluation; ``None`` where there is no value."""
    value, steps, explanation = scored
    if value is None:
        return None
    metadata: dict[str, Any] = {}
    if steps:
        metadata["steps"] = list(steps[:MOST_SHOWN])
    if is_cut:
        metadata["cut"] = True
    return Evaluation(name, float(value), None, explanation, None, metadata)


def counted(faults: Iterable[tuple[int, str]]) -> Scored:
    """Return how many faults there are, the steps that they are at, and what the first one is."""
    listed = list(faults)
    explanation = listed[0][1] if listed else None
    return float(len(listed)), [number for number, _ in listed], explanation


def at(number: int, tool: str | None, what: str) -> str:
    """Say what is wrong with one step."""
    return f"step {number}: {(tool or 'a tool')[:80]} {what}"
