"""Reads question, contexts and answer of an ``llm`` span that has a prompt.

The prompt's variables come first, as in Datadog's evaluators, and then the last messages.
"""

from __future__ import annotations

from typing import Any

from llmeval_sdk._coerce import to_chunk, to_chunks, to_text
from llmeval_sdk.model import Chunk, Prompt


def question_of(prompt: Prompt, request: Any) -> Any:
    """Return the prompt's question variables, else the last input message."""
    values = (prompt.variables.get(name) for name in prompt.rag_query_variables)
    question = " ".join(text for value in values if value for text in _texts(value))
    return question or last_message(request) or request


def holds_contexts(prompt: Prompt) -> bool:
    """Say whether a prompt has a variable that holds passages, or says that there are none."""
    return bool(prompt.variables) and bool(_held(prompt))


def contexts_of(prompt: Prompt) -> tuple[Chunk, ...] | None:
    """Return the passages in the prompt's context variables, each of which holds one or several.

    ``None`` where the prompt has none of these variables, or only blank texts in them: its context
    is not known. An empty list says that nothing was retrieved.
    """
    held = _held(prompt)
    if not held:
        return None
    passages: list[Chunk] = []
    for value in held:
        several = to_chunks(value)
        one = to_chunk(value) if several is None else None
        passages.extend(several or ([one] if one is not None else []))
    return tuple(passages)


def _held(prompt: Prompt) -> list[Any]:
    """Return what the context variables hold, but for blank texts."""
    values = [prompt.variables.get(name) for name in prompt.rag_context_variables]
    return [
        value
        for value in values
        if value is not None and not (isinstance(value, str) and not value.strip())
    ]


def last_message(value: Any) -> str | None:
    """Return the text of the last message of a chat; ``None`` where there is no message."""
    if type(value) is str:
        return value
    if type(value) is dict:
        if "messages" in value:
            return last_message(value["messages"])
        return to_text(value) if not {"content", "choices", "text"}.isdisjoint(value) else None
    if isinstance(value, (list, tuple)) and value:
        last = value[-1]
        parts = last.get("content") if type(last) is dict else last
        return " ".join(_texts(parts)) if isinstance(parts, (list, tuple)) else last_message(last)
    return None


def _texts(value: Any) -> list[str]:
    """Return the texts in a variable or in the parts of a message."""
    if isinstance(value, (list, tuple)):
        return [text for part in value for text in _texts(part)]
    text = value.get("text", value.get("content")) if type(value) is dict else value
    return [] if text is None else [text if type(text) is str else str(text)]
