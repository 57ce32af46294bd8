"""The columns of a data set that hold an agent's run: its steps, its tools, the expected calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmeval_sdk.agents.definitions import definitions_of
from llmeval_sdk.agents.messages import steps_of
from llmeval_sdk.model import Request, Step


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


def steps_of_chat(request: Request | None) -> tuple[Step, ...] | None:
    """Return the run that a chat request holds; ``None`` where no tool was called in it."""
    messages = request.get("messages") if isinstance(request, Mapping) else None
    steps = steps_of(messages) or ()
    return steps if any(step.role == "tool" for step in steps) else None
