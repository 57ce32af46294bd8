"""Free scores of an agent's run, one file each: its tool calls, its claims, its faults.

All read the same `llmeval_sdk.model.runs.Run`. A score's explanation names the step that it is
about, and its metadata holds the steps' numbers, counted from 1. This module has what all of them
share: when they apply, how they point at steps, and how they score an open run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from llmeval_sdk.heuristics.function import FunctionHeuristic
from llmeval_sdk.model import Evaluation, Record, Step
from llmeval_sdk.model.chat import is_note_of_a_cut
from llmeval_sdk.model.records import request_of, tool_call
from llmeval_sdk.model.runs import Run, Signature, ToolCall, is_run, is_write, run_of, signature
from llmeval_sdk.plugins.agents.live import LiveRun


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


# Scores of an open run, at each of its tool calls.


LiveScore = Callable[[LiveRun, ToolCall | None], Scored]
"""Scores a run so far; with the call of a tool that is about to run, if there is one."""


def live(score: LiveScore, name: str) -> Callable[[object], Evaluation | None]:
    """Make what scores the run of an open span; ``None`` for a span that belongs to no run."""

    def evaluate(span: Any) -> Evaluation | None:
        run_span = span if span.is_evaluated else span.owner
        if run_span is None:
            return None
        known = getattr(run_span, "live", None)
        if known is None:
            known = run_span.live = LiveRun(request_of(run_span))
        is_open_call = span is not run_span and span.kind == "tool" and not span.end_ns

        def scored(run: LiveRun) -> Evaluation | None:
            pending = run.call(tool_call(span)) if is_open_call else None
            return evaluation_of(name, score(run, pending), is_cut=run.is_cut)

        return known.ask(run_span.gathered or [], scored)

    return evaluate


# The tool calls of a run, compared with the calls that it should have made.


def has_reference(record: Record) -> bool:
    """Say whether a Record holds a run and the calls that it should have made."""
    return record.steps is not None and record.expected_trajectory is not None


def is_cut(record: Record) -> bool:
    """Say whether calls of the run are not there because it was too long to be kept whole."""
    return any(is_note_of_a_cut(step) for step in record.steps or ())


CUT = "the run is too long: calls of it were left out"


def made_calls(record: Record, *, only_writes: bool = False) -> list[Signature]:
    """Return the tool calls of a run, in order."""
    return _signatures(record.steps or (), only_writes=only_writes)


def expected_calls(record: Record, *, only_writes: bool = False) -> list[Signature]:
    """Return the tool calls that a run should have made, in order."""
    return _signatures(record.expected_trajectory or (), only_writes=only_writes)


def _signatures(steps: Iterable[Step], *, only_writes: bool) -> list[Signature]:
    return [
        signature(step)
        for step in steps
        if step.role == "tool" and (not only_writes or is_write(step))
    ]
