"""The tool calls of a run beside those that it should have made."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from llmeval_sdk.agents.calls import is_write
from llmeval_sdk.model import Record, Step


class Signature(NamedTuple):
    """What makes two calls the same: the tool, and the arguments in any order."""

    tool: str
    arguments: str
    """JSON with sorted keys, in which a whole number is written in one way."""

    @property
    def shown(self) -> str:
        """The call as people read it, cut to a line."""
        return f"{self.tool} {self.arguments}"[:200]

    def named(self) -> dict[str, str]:
        """Return each argument's value as JSON, by its name."""
        try:
            read = json.loads(self.arguments)
        except ValueError:
            return {}
        held = read if isinstance(read, dict) else {}
        return {name: json.dumps(value, sort_keys=True) for name, value in held.items()}


def has_reference(record: Record) -> bool:
    """Say whether a Record holds a run and the calls that it should have made."""
    return record.steps is not None and record.expected_trajectory is not None


def made_calls(record: Record, *, only_writes: bool = False) -> list[Signature]:
    """Return the tool calls of a run, in order."""
    return _signatures(record.steps or (), only_writes=only_writes)


def expected_calls(record: Record, *, only_writes: bool = False) -> list[Signature]:
    """Return the tool calls that a run should have made, in order."""
    return _signatures(record.expected_trajectory or (), only_writes=only_writes)


def _signatures(steps: Iterable[Step], *, only_writes: bool) -> list[Signature]:
    return [
        _signature(step)
        for step in steps
        if step.role == "tool" and (not only_writes or is_write(step))
    ]


def _signature(step: Step) -> Signature:
    arguments = {} if step.arguments is None else step.arguments
    try:
        text = json.dumps(_plain(arguments, 0), sort_keys=True, ensure_ascii=False, default=str)
    except (TypeError, ValueError):  # keys of kinds that have no order
        text = repr(type(arguments))
    return Signature(step.name or "", text)


_DEEPEST = 20


def _plain(value: Any, depth: int) -> Any:
    """Write 2.0 as 2, because models do not tell the two apart."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if depth < _DEEPEST and isinstance(value, dict):
        return {key: _plain(held, depth + 1) for key, held in value.items()}
    if depth < _DEEPEST and isinstance(value, (list, tuple)):
        return [_plain(held, depth + 1) for held in value]
    return value
