"""What was asked or answered, in the form in which a person reads it best.

Messages of a chat are shown as turns, Markdown is formatted, other values are trees that fold, and
any other text is shown as it was written. A link always leads to the whole as it was captured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from llmeval_sdk.model.runs.messages import both_ends, steps_of
from llmeval_sdk.viewer._cells import MarkedText, marked
from llmeval_sdk.viewer._folded import Node, folded, read
from llmeval_sdk.viewer._markdown import rendered


MOST_MESSAGES = 40
_MOST_TEXT = 4_000


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a chat, or a call of a tool in it."""

    role: str
    name: str
    """The name of the tool; empty for a message."""
    content: Content | None
    arguments: Node | None
    result: Node | None
    error: str


@dataclass(frozen=True, slots=True)
class Content:
    """A value as a page shows it; exactly one of the first four fields is set."""

    text: MarkedText | None = None
    formatted: Markup | None = None
    tree: Node | None = None
    messages: tuple[ChatMessage, ...] = ()
    left_out: int = 0
    """How many messages in the middle are not shown."""
    others: Node | None = None
    """What a request holds beside its messages."""


def content_of(value: Any, marks: Iterable[Sequence[int]] = ()) -> Content:
    """Return what a page shows of a captured value; ``marks`` are ranges of a text to mark."""
    value = value if marks else read(value)
    if isinstance(value, str):
        return text_content(value, marks)
    messages = value.get("messages") if isinstance(value, Mapping) else value
    if isinstance(messages, list) and any(_is_message(message) for message in messages):
        return _chat(value, messages)
    if isinstance(value, (Mapping, list, tuple)) and value:
        return Content(tree=folded(value))
    return Content(text=folded(value).text)


def text_content(text: str, marks: Iterable[Sequence[int]] = (), limit: int = 20_000) -> Content:
    """Return a text, formatted if it is Markdown and no part of it is to be marked."""
    formatted = None if marks else rendered(text)
    if formatted is not None:
        return Content(formatted=formatted)
    return Content(text=marked(text, marks, limit))


def _is_message(message: Any) -> bool:
    return isinstance(message, Mapping) and not {"role", "type", "from"}.isdisjoint(message)


def _chat(value: Any, messages: list[Any]) -> Content:
    steps = steps_of(messages)
    if steps is None:
        return Content(tree=folded(value))
    shown = both_ends(steps, MOST_MESSAGES)
    others = {}
    if isinstance(value, Mapping):
        others = {key: held for key, held in value.items() if key != "messages"}
    return Content(
        messages=tuple(
            ChatMessage(
                step.role,
                (step.name or "")[:200],
                None if step.role == "tool" else text_content(step.content or "", (), _MOST_TEXT),
                None if step.arguments is None else folded(step.arguments),
                None if step.result is None else folded(step.result),
                (step.error or "")[:300],
            )
            for step in shown
        ),
        left_out=len(steps) - len(shown),
        others=folded(others) if others else None,
    )
