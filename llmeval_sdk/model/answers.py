"""Whether what an app or a model gave is an answer: the only place that says so.

Reports, gates, judges and the store all ask `is_answer`, so that they agree on what got lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmeval_sdk.process.shield import is_ours


_SAID = ("content", "text", "output_text", "parts")
"""Where a message, or a part of one, has what was said."""
_DONE = (
    "tool_calls", "function_call", "functionCall", "refusal", "audio", "additional_kwargs",
)  # fmt: skip
"""What a message may have in place of a text, and is an answer too."""
_ROLES = ("assistant", "model", "ai")
"""Who answers, as a message's role or type says."""
_SILENT = ("text", "output_text", "reasoning", "thinking", "redacted_thinking")
"""The types of parts of a message that are no answer without a text of their own."""
_ABOUT_VALUE = frozenset(("value", "chunk_number", "confidence", "evidence"))
"""The fields of an extraction: without its value, the others answer nothing."""
_MOST_PARTS, _DEEPEST = 10_000, 20
"""What is larger or deeper than that is taken for an answer without being read further."""


def is_answer(value: Any) -> bool:
    """Say whether a response or an extracted value answers anything.

    ``None``, NaN, a text of white space, an empty list or mapping, one that holds nothing else, an
    extraction without a value and a message or chat completion that says nothing do not. Tool
    calls and a refusal do, and so do ``False`` and 0. Raises nothing but what a signal handler did.
    """
    if type(value) is str:  # the common case, on the app's thread
        return bool(value) and not value.isspace()
    if value is None:
        return False
    try:
        return _is_full(value, [_MOST_PARTS], _DEEPEST)
    except Exception as error:
        if not is_ours(error, calls_out=True):
            raise
        return True  # an object of the app that raises is something, and not nothing


def _is_full(value: Any, room: list[int], depth: int) -> bool:  # noqa: PLR0911
    room[0] -= 1
    if room[0] < 0 or not depth:
        return True
    if isinstance(value, str):
        return bool(value.strip())
    if value is None:
        return False
    if isinstance(value, float):
        return value == value  # noqa: PLR0124 - NaN is not
    if isinstance(value, Mapping):
        return _says(value, room, depth - 1)
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(_is_full(each, room, depth - 1) for each in value)
    return type(value).__name__ not in ("NAType", "NaTType")


def _says(value: Mapping[Any, Any], room: list[int], depth: int) -> bool:
    """Say whether a mapping has an answer: a message, a completion, an extraction or any other."""
    for wrapper in ("choices", "candidates"):
        if isinstance(value.get(wrapper), (list, tuple)):
            return any(_is_choice_full(each, room, depth) for each in value[wrapper])
    if value.get("object") == "response" and isinstance(value.get("output"), (list, tuple)):
        return any(_is_full(each, room, depth) for each in value["output"])
    kind = value.get("type")
    is_part = isinstance(kind, str) and (kind in _SILENT or kind in ("message", *_ROLES))
    if is_part or value.get("role") in _ROLES:
        return any(_is_full(value.get(name), room, depth) for name in (*_SAID, *_DONE))
    if "value" in value and _ABOUT_VALUE.issuperset(value):
        return _is_full(value["value"], room, depth)
    return any(_is_full(each, room, depth) for each in value.values())


def _is_choice_full(choice: Any, room: list[int], depth: int) -> bool:
    """Say whether one of the answers of a completion says anything."""
    if not isinstance(choice, Mapping):
        return _is_full(choice, room, depth)
    inners = (choice.get(name) for name in ("message", "delta", "content"))
    inner = next((each for each in inners if isinstance(each, Mapping)), choice)
    return any(_is_full(inner.get(name), room, depth) for name in (*_SAID, *_DONE))
