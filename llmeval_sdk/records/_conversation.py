"""The messages of model calls: where no span tells of tools, they tell what an agent did."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, NamedTuple

from llmeval_sdk.model import Record


class Conversation(NamedTuple):
    """The messages of a model call, left to the evaluated span that it belongs to.

    Where no span tells of tools, they tell what the agent did; see `with_steps`.
    """

    messages: Sequence[Any]
    response: Any
    tools: Any
    """The tools that the model was offered, as they were written."""


_MESSAGES = ("messages", "contents", "input", "conversation", "history")
"""Arguments of a function, or keys of a request, that may hold the messages of a model call."""


def conversation_of(span: Any) -> Conversation | None:
    """Return the messages of the span of a model call; ``None`` where it was asked otherwise."""
    asked = span.arguments if span.request is None else span.request
    about = asked if type(asked) is dict else {"messages": asked}
    for name in _MESSAGES:
        messages = about.get(name)
        if type(messages) is list and messages and type(messages[-1]) is dict:
            return Conversation(messages, span.response, about.get("tools"))
    return None


def with_steps(record: Record, gathered: Iterable[Any] | None) -> Record:
    """Add what the messages of the longest model call tell of a run: tools, and missing steps.

    Reading messages takes its time, so this is no part of `record_of`, which the app waits for.
    """
    held = [item for item in gathered or () if type(item) is Conversation]
    if not held:
        return record
    try:
        read = import_module("llmeval_sdk.agents.chats").read_call
    except ImportError:  # that room can be deleted
        return record
    steps, tools = read(*max(held, key=_length))
    return replace(record, steps=record.steps or steps, tools=record.tools or tools)


def _length(conversation: Conversation) -> int:
    return len(conversation.messages)
