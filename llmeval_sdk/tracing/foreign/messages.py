"""Chat messages in the shapes that instrumentations write -> our request, and the answer's text."""

from __future__ import annotations

import re
from typing import Any

from llmeval_sdk.model.chat import content_of, is_blob, role_of, steps_of, text_of, unwrapped
from llmeval_sdk.model.fields import OTHER_NAMES


def chat(value: object) -> dict[str, Any] | None:
    """Read messages, bare or under ``messages``; ``None`` where there are none.

    What a model answered at the end of a whole conversation is no part of what was asked.
    """
    if isinstance(value, dict):
        inner = value.get("inputs")  # as Traceloop wraps what a chain was given
        value = (inner if isinstance(inner, dict) else value).get("messages")
        if isinstance(value, list) and value and isinstance(value[0], list):
            value = value[0]  # one conversation of a batch
    if not isinstance(value, list) or not value:
        return None
    turns = [turn for given in value if (turn := _turn(given)) is not None]
    if len(turns) != len(value):
        return None
    while turns and turns[-1]["role"] == "assistant":
        turns.pop()
    return {"messages": turns} if turns else None


def listed(value: object) -> list[Any]:
    """Return the messages of a question or of an answer, as they were written."""
    if isinstance(value, dict):
        for name in ("messages", "choices"):
            inner = value.get(name)
            if isinstance(inner, list) and inner:
                return listed(inner)
        message = unwrapped(value)
        return [message] if "role" in message else []
    if isinstance(value, list) and value:
        if isinstance(value[0], list):
            return value[0]  # one conversation of a batch
        if all(isinstance(item, dict) for item in value):
            return [unwrapped(item) for item in value]
    return []


def answer(value: object) -> str | None:  # noqa: PLR0911
    """Read the text of the last message of an answer; ``None`` where there is none.

    A message that calls tools and says nothing is the text ``""``.
    """
    if isinstance(value, str):
        return None if _is_repr(value) else value
    if isinstance(value, dict):
        for name in ("choices", "messages", "generations"):
            inner = value.get(name)
            if isinstance(inner, list) and inner:
                last = inner[-1]
                return answer(last[-1] if isinstance(last, list) and last else last)
        inner = unwrapped(value)
        if inner is not value:
            return answer(inner)
        if isinstance(value.get("outputs"), (dict, list)):  # as Traceloop wraps what a chain gave
            return answer(value["outputs"])
        for name in _ANSWERS:
            text = text_of(value.get(name))
            if text is not None and not _is_repr(text):
                return text
        return "" if any(step.role == "tool" for step in steps_of([value]) or ()) else None
    if isinstance(value, list) and value and isinstance(value[-1], dict):
        return answer(value[-1]) if _turn(value[-1]) is not None or "message" in value[-1] else None
    return None


def resumes(value: object) -> bool:
    """Say whether an input is LangGraph's ``Command``, which resumes a run that waited.

    It holds what a person decided, and no question.
    """
    if isinstance(value, dict):
        inner = value.get("inputs", value)  # as Traceloop wraps it
        return isinstance(inner, dict) and inner.keys() >= {"resume", "goto", "update"}
    return isinstance(value, str) and value.startswith("Command(resume=")


def is_paused(answer: object) -> bool:
    """Say whether a run has not answered, because it waits for a person.

    Its last message then calls a tool and says nothing, or LangGraph says that it interrupted.
    """
    return answer == "" or (isinstance(answer, dict) and "__interrupt__" in answer)


_REPR = re.compile(
    r"<[\w.]{1,200} object(?: .{0,300}at 0x[0-9a-fA-F]+)?>"
    r"|<[\w.]{1,200}\((?:\w+=.{1,1000})?\)>"
    r"|[\w.]{1,200}\([^'\"]{0,300}?=<(?:async_)?generator object .*",
    re.DOTALL,
)
_IS_STREAM = re.compile("generator|stream", re.IGNORECASE)
_MAX_PARTS = 100


def _is_repr(text: object) -> bool:
    """Say whether a text is what is printed for an object that is no text, such as a stream.

    Instrumentations write it where they look at a streamed answer before anybody has read it, and
    OpenInference writes ``<NodeWithScore(node=…)>`` for a passage of LlamaIndex.
    """
    return isinstance(text, str) and _REPR.fullmatch(text.strip()) is not None


def is_bare(value: object) -> bool:
    """Say whether an answer holds nothing that was said: it was streamed, or left early.

    It then names an object, such as a stream, or nothing but objects, or it has a stream among its
    fields, or it only names who was about to speak.
    """
    if isinstance(value, dict):
        fields = list(value.values())[:_MAX_PARTS]
        is_named = any(_is_repr(field) and _IS_STREAM.search(field) for field in fields)
    else:
        parts = value[:_MAX_PARTS] if isinstance(value, list) else [value]
        is_named = bool(parts) and all(map(_is_repr, parts))
    turns = listed(value)
    is_empty = not any(item for turn in turns for key, item in turn.items() if key != "role")
    return is_named or (bool(turns) and is_empty)


_ANSWERS = (
    "content", "contents", "parts", "text", "output_text", "response", *OTHER_NAMES["response"],
)  # fmt: skip
_QUESTIONS = (*OTHER_NAMES["request"], "request", "text")


def question(value: object) -> object:
    """Find the question among bound arguments; the arguments themselves where none stands out."""
    if not isinstance(value, dict):
        return value
    for name in ("kwargs", "inputs"):  # as Traceloop and LangChain wrap them
        inner = value.get(name)
        if isinstance(inner, dict) and inner:
            return question(inner)
    args = value.get("args")
    if isinstance(args, list):
        texts = [item for item in args if isinstance(item, str)]
        return texts[0] if len(texts) == 1 else args or value
    for name in _QUESTIONS:
        if isinstance(value.get(name), str):
            return value[name]
    texts = [item for item in value.values() if isinstance(item, str)]
    return texts[0] if len(texts) == len(value) == 1 else value


def _is_bare_turn(message: Any) -> bool:
    return "content" in message and _ROLELESS.issuperset(message)


def _turn(message: object) -> dict[str, object] | None:
    """Read one message; the flattened dialects have it under ``message``."""
    if not isinstance(message, dict):
        return None
    message = unwrapped(message)
    role = role_of(message)
    if message.get("role") == "" or _is_bare_turn(message):  # ddtrace writes so what was a text
        role = "user"
    if not role:
        return None
    if message.get("tool_results"):  # as ddtrace writes them
        role = "tool"
    return {"role": _ROLES.get(role, role), "content": _content(content_of(message))}


def _content(content: object) -> object:
    """Return the text of a content, and beside it the images and sounds that it holds."""
    text = text_of(content) or ""
    blobs = [part for part in content if is_blob(part)] if isinstance(content, list) else []
    if not blobs:
        return text
    said = [{"type": "text", "text": text}] if text else []
    return [*said, *map(_with_its_type, blobs)]


def _with_its_type(blob: dict[str, object]) -> dict[str, object]:
    """Write the data of a blob as a data URL, of which `capture` keeps what it was."""
    kind, data = blob.get("mime_type"), blob["content"]
    if not isinstance(kind, str) or not isinstance(data, str) or data.startswith("data:"):
        return blob
    return {**blob, "content": f"data:{kind[:100]};base64,{data}"}


_ROLELESS = frozenset(("content", "tool_calls", "tool_results"))
"""The fields of a message of ddtrace that has no role; passages have others too."""
_ROLES = {"human": "user", "ai": "assistant", "model": "assistant"}
