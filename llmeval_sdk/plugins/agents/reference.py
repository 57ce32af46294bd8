"""The tool calls of a run beside those that it should have made."""

from __future__ import annotations

from collections.abc import Iterable

from llmeval_sdk.model import Record, Step
from llmeval_sdk.model.chat import is_note_of_a_cut
from llmeval_sdk.model.runs import Signature, is_write, signature


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
