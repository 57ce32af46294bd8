"""The run that one model call shows: the messages that it was asked with, and its answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmeval_sdk.agents.definitions import definitions_of
from llmeval_sdk.agents.messages import steps_of
from llmeval_sdk.model import Step


def read_call(
    messages: Any, response: Any, tools: Any
) -> tuple[tuple[Step, ...] | None, tuple[Mapping[str, Any], ...] | None]:
    """Read the run that a model call shows: its messages and its answer, and the tools offered.

    The steps are ``None`` where no tool was called.
    """
    answer = _answer_of(response)
    steps = steps_of([*messages, *answer]) or ()
    called = any(step.role == "tool" for step in steps)
    return (steps if called else None), definitions_of(tools)


def _answer_of(response: Any) -> list[Any]:
    """Return the messages of a model's answer: a text, or the response of a model's client."""
    if isinstance(response, str):
        return [{"role": "assistant", "content": response}]
    if isinstance(response, (list, tuple)):
        return list(response)
    if not isinstance(response, Mapping):
        return []
    for key in ("choices", "candidates", "output"):  # OpenAI, Google, OpenAI's Responses API
        held = response.get(key)
        if isinstance(held, (list, tuple)) and held and isinstance(held[0], Mapping):
            if key == "output":
                return list(held)
            inner = held[0].get("message", held[0].get("content"))
            return [inner] if isinstance(inner, Mapping) else []
    return [{"role": "assistant", **response}]
