"""The columns of a data set that hold an agent's run: its steps, its tools, the expected calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from llmeval_sdk.errors import DataError
from llmeval_sdk.model import Request, Step
from llmeval_sdk.model.runs.messages import definitions_of, steps_of


def read_steps(value: Any) -> tuple[Step, ...]:
    """Read messages and tool calls.

    Raises:
        TypeError, ValueError: there are none.
    """
    steps = steps_of(value)
    if steps is None:
        raise ValueError(
            "expected a list of chat messages or of tool calls, {'role': 'tool', 'name': ...,"
            f" 'arguments': ..., 'result': ...}}, not {type(value).__name__}"
        )
    return steps


def read_tools(value: Any) -> tuple[Mapping[str, Any], ...]:
    """Read the definitions of tools.

    Raises:
        TypeError, ValueError: there are none.
    """
    tools = definitions_of(value)
    if tools is None:
        raise ValueError(
            "expected a list of tools, {'name': ..., 'parameters': {...}}, not"
            f" {type(value).__name__}"
        )
    return tools


CONVERSATION = ("messages", "turns")
"""Columns that hold a whole conversation, in rows that say nothing else of what was asked."""


def with_conversation(
    fields: dict[str, Any], others: dict[str, Any], read: Callable[[Any], Any], where: str
) -> dict[str, Any]:
    """Add the fields of a conversation that stands in one of the other columns of a row.

    ``read`` parses a cell that may hold JSON.

    Raises:
        DataError: There is such a column, and it cannot be read.
    """
    column = next((name for name in CONVERSATION if name in others), None)
    if column is None or not {"request", "steps", "trace"}.isdisjoint(fields):
        return fields
    try:
        return {**_conversation(read(others.pop(column))), **fields}
    except (TypeError, ValueError) as error:
        raise DataError(f"{where}, column {column!r}: {error}") from None


def _conversation(value: Any) -> dict[str, Any]:
    """Read chat messages, or turns such as ``{"user": …, "assistant": …}``, as fields of a Record.

    Raises:
        TypeError, ValueError: there are none.
    """
    messages: list[Any] = []
    for turn in value if isinstance(value, (list, tuple)) else ():
        said = _said(turn) if isinstance(turn, Mapping) else []
        messages += said or [turn]
    steps = read_steps(messages or value)
    asked = [step.content for step in steps if step.role == "user"]
    answered = [step.content for step in steps if step.role == "assistant"]
    return {
        "steps": steps,
        "request": asked[-1] if asked else "",
        **({"response": answered[-1]} if answered else {}),
    }


_SAID = {"user": "user", "request": "user", "assistant": "assistant", "response": "assistant"}


def _said(turn: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"role": role, "content": turn[key]} for key, role in _SAID.items() if turn.get(key)]


def steps_of_chat(request: Request | None) -> tuple[Step, ...] | None:
    """Return the run that a chat request holds; ``None`` where no tool was called in it."""
    messages = request.get("messages") if isinstance(request, Mapping) else None
    steps = steps_of(messages) or ()
    return steps if any(step.role == "tool" for step in steps) else None
