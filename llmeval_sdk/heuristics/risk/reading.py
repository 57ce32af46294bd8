"""What the risk scores take from a Record: its question, its passages, their language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llmeval_sdk.heuristics.risk import text
from llmeval_sdk.model import Record


MAX_QUESTION = 2_000
"""Characters, from the end: a pasted document usually stands before what is asked of it."""


def question(record: Record) -> str:
    """Return the last user message of the request; ``""`` where there is none."""
    request: Any = record.request
    if isinstance(request, Mapping):
        request = _last_user_message(request.get("messages")) or request.get("query")
    return request[-MAX_QUESTION:] if isinstance(request, str) else ""


def passages(record: Record) -> tuple[str, ...]:
    """Return the text of the retrieved chunks in rank order, without repeats."""
    chunks = record.retrieved_context or ()
    contents = (chunk.content for chunk in chunks)
    return tuple(dict.fromkeys(c for c in contents if isinstance(c, str) and c.strip()))


def question_stems(asked: str, *, english: bool) -> frozenset[str]:
    """Return the stems of a question, spelled-out numbers as digits too."""
    stems = text.stems(text.tokens(asked), english=english)
    digits = (text.number_word(stem, english=english) for stem in stems)
    return frozenset(stems) | {number for number in digits if number is not None}


def _last_user_message(messages: Any) -> str | None:
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        return None
    for message in reversed(messages):
        if isinstance(message, Mapping) and message.get("role") == "user":
            content = message.get("content")
            if isinstance(content, str):
                return content
            if isinstance(content, Sequence):
                return " ".join(
                    part["text"]
                    for part in content
                    if isinstance(part, Mapping) and isinstance(part.get("text"), str)
                )
    return None
