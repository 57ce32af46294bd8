"""What the risk scores take from a Record: its question, its passages, their language."""

from __future__ import annotations

from llmeval_sdk import _chat
from llmeval_sdk.heuristics.risk import text
from llmeval_sdk.model import Record


def question(record: Record) -> str:
    """Return what was asked, as the judges read it; ``""`` where the request is no chat."""
    return _chat.bounded_question(record.request)


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
