"""Asks for JSON in words, where a server or a callable cannot be told a schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from llmeval_sdk._json_object import NoObjectError, only_object
from llmeval_sdk.model import Message


def in_words(messages: Sequence[Message], schema: Mapping[str, Any]) -> list[Message]:
    """Add the schema to the system message, or put one in front."""
    asked = (
        "Answer with exactly one JSON object and nothing else: no prose, no code fence. "
        f"It satisfies this JSON schema: {json.dumps(schema, ensure_ascii=False)}"
    )
    if messages and messages[0].role == "system":
        return [Message("system", f"{messages[0].content}\n\n{asked}"), *messages[1:]]
    return [Message("system", asked), *messages]


def fits(text: str, schema: Mapping[str, Any]) -> bool:
    """Say whether a reply is one JSON object with the schema's required keys.

    That is all a client has to know; what the values mean is for the judge to check.
    """
    try:
        answer = only_object(text)
    except NoObjectError:
        return False
    return all(key in answer for key in schema.get("required", ()))
