"""The one reader of chat-shaped values: what was asked, and the turns before it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from llmeval_sdk.model import Request
from llmeval_sdk.process.shield import is_ours


def split_request(request: Request | None) -> tuple[str, list[tuple[str, str]]]:
    """Split a request into the last user message and the earlier turns, as ``(role, text)``.

    It may be a string, an OpenAI chat request (``messages``) or ``{query, history}``.
    """
    if request is None or isinstance(request, str):
        return request or "", []
    messages = request.get("messages")
    if isinstance(messages, Sequence) and not isinstance(messages, str) and messages:
        turns = _turns(messages)
        users = [position for position, (role, _) in enumerate(turns) if role == "user"]
        last = users[-1] if users else len(turns) - 1
        return turns[last][1], turns[:last]
    if "query" in request:
        return as_text(request["query"]), _turns(request.get("history") or ())
    return as_text(request), []


MAX_QUESTION = 2_000
"""Characters, from the end: a pasted document usually stands before what is asked of it."""


def bounded_question(request: Any) -> str:
    """Return the end of what was asked, for a score; ``""`` for what no chat can be read from."""
    try:
        return (question(request) or "")[-MAX_QUESTION:]
    except Exception as error:
        if not is_ours(error, calls_out=True):
            raise
        return ""  # a mapping of another library's, or one that holds itself


def _turns(messages: Any) -> list[tuple[str, str]]:
    if isinstance(messages, str):
        return [("user", messages)]
    turns: list[tuple[str, str]] = []
    for message in messages if isinstance(messages, Iterable) else ():
        if isinstance(message, Mapping):
            turns.append((str(message.get("role", "user")), _content(message.get("content"))))
        elif isinstance(message, (list, tuple)) and len(message) == 2:
            turns.append((str(message[0]), _content(message[1])))
        else:
            turns.append(("user", as_text(message)))
    return turns


def _content(content: Any) -> str:
    """Read a message's content: text, or a list of parts of which the texts count."""
    if not isinstance(content, (list, tuple)):
        return "" if content is None else as_text(content)
    parts = []
    for part in content:
        if isinstance(part, Mapping):
            text = part.get("text")
            parts.append(text if isinstance(text, str) else f"[{part.get('type', 'part')}]")
        else:
            parts.append(as_text(part))
    return "\n".join(parts)


def as_text(value: Any) -> str:
    """Write any captured value as text: a string as it is, the rest as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def question(request: Request | None) -> str | None:
    """Return the last user message as `split_request` does, without reading the turns before it.

    ``None`` for a mapping that is no chat, such as the arguments of a function.
    """
    if request is None or isinstance(request, str):
        return request or ""
    messages = request.get("messages")
    if isinstance(messages, Sequence) and not isinstance(messages, str) and messages:
        for message in reversed(messages):
            (role, text), *_ = _turns((message,))
            if role == "user":
                return text
        return _turns(messages[-1:])[0][1]
    return as_text(request["query"]) if "query" in request else None
