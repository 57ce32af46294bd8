"""What is said to a judge model, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from llmeval_sdk.model._nouns import Usage


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a chat with a judge model.

    Args:
        role: Who speaks: ``system``, ``user`` or ``assistant``.
        content: The text.
    """

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Completion:
    """The answer of a judge model.

    Args:
        text: What the model wrote.
        model: The exact name of the model that answered.
        usage: Tokens and money that the call used.
        finish_reason: Why the model stopped, such as ``stop`` or ``length``.
    """

    text: str
    model: str = ""
    usage: Usage | None = None
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call of a model that a judgement made elsewhere, for its trace."""

    name: str
    start_ns: int
    end_ns: int
    model: str = ""
    usage: Usage | None = None
    response: str | None = None
    error: str | None = None
    """The low-cardinality type of what went wrong."""
