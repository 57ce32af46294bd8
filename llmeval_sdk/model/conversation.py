"""A conversation, read from a Record: its messages as steps, and its turns.

A turn is what the user said, and all that the agent did and said until the user spoke again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from llmeval_sdk.model import Record, Step
from llmeval_sdk.model.chat import as_text, both_ends, bounded, messages_of, split_request, steps_of


SESSION = "session_id"
"""Key among the attributes of a Record: the session whose conversation it holds."""
MAX_TURNS = 500
"""The most turns of a conversation that are read; of a longer one, its first and last turns are."""
MAX_TEXT = 8_000
"""The most characters that a score reads of each side's text in one turn."""


class SpokenTurn(NamedTuple):
    """One turn of a conversation."""

    number: int
    """Which turn it is, beginning with 1."""
    asked: str
    answered: str
    """All that the agent said in this turn; empty where it said nothing."""
    called: int
    """How many tools the agent called."""
    start_ns: int | None = None
    """When the user spoke, where the steps of the record say so."""


def conversation_steps(record: Record) -> tuple[Step, ...]:
    """Return the messages and tool calls of a Record; those of its request where it has no steps.

    The response is the last of them, if it is not among them yet.
    """
    steps = record.steps
    if not steps:
        steps = steps_of(messages_of(record.request)) or _plain_steps(record)
    answer = record.response
    if answer and not any(step.role == "assistant" and step.content == answer for step in steps):
        steps = (*steps, Step("assistant", answer))
    return bounded(steps)


def _plain_steps(record: Record) -> tuple[Step, ...]:
    """Read a request that is a text, or a query with its history."""
    if record.request is None:
        return ()
    query, history = split_request(record.request)
    earlier = tuple(Step("user" if role == "user" else "assistant", text) for role, text in history)
    return (*earlier, Step("user", query)) if query else earlier


def as_conversation(record: Record) -> Record:
    """Return a Record whose steps are the whole conversation."""
    steps = conversation_steps(record)
    return record if steps == record.steps else replace(record, steps=steps or None)


def turns_of(record: Record) -> list[SpokenTurn]:
    """Return the turns of a conversation; what the agent says before the user speaks is none."""
    return [*both_ends(list(_turns(conversation_steps(record))), MAX_TURNS)]


def _turns(steps: tuple[Step, ...]) -> Iterator[SpokenTurn]:
    number, called = 0, 0
    asked: str | None = None
    start: int | None = None
    said: list[str] = []
    for step in (*steps, Step("user", "")):
        if step.role == "user":
            if asked is not None and (said or called or step.content != asked):
                number += 1
                yield SpokenTurn(number, asked, "\n".join(said)[:MAX_TEXT], called, start)
            start = step.start_ns
            asked, said, called = as_text(step.content or "")[:MAX_TEXT], [], 0
        elif step.role == "assistant" and (step.content or "").strip():
            said.append((step.content or "")[:MAX_TEXT])
        elif step.role == "tool":
            called += 1


def is_conversation(record: Record) -> bool:
    """Say whether a Record holds a session, or a row with more than one turn."""
    if SESSION in record.attributes:
        return True
    roles = [step.role for step in conversation_steps(record)]
    return roles.count("user") > 1 and "assistant" in roles


def lacking_conversation(record: Record) -> str | None:
    """Name what a Record lacks so that it holds no conversation; ``None`` where it holds one."""
    roles = {step.role for step in conversation_steps(record) if step.content}
    return None if {"user", "assistant"} <= roles else "conversation (what user and agent said)"
