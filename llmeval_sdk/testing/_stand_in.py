"""A stand-in for a judge model: rules on shared words, for demos and tests.

It recognises a judge's prompt by its ``Task:`` line, reads the sections and answers by the rule
that the judge itself declares (`judges._stand_in`). Every rationale begins with ``stand-in:``, so
that nobody takes it for a model's verdict.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from llmeval_sdk import registry
from llmeval_sdk.judges._prompt import sections_of
from llmeval_sdk.judges._stand_in import Rule, chunks_of, share
from llmeval_sdk.model import STAND_IN


MODEL = STAND_IN

_TASK = re.compile(r"^Task: ([A-Za-z0-9_]+)/", re.MULTILINE)


def stand_in(request: Mapping[str, Any]) -> dict[str, Any] | str:
    """Answer a chat completion request as one of our judges would have it answered."""
    turns = [(turn.get("role"), str(turn.get("content") or "")) for turn in request["messages"]]
    system = "\n".join(text for role, text in turns if role == "system")
    user = "\n".join(text for role, text in turns if role == "user")
    sections = {section.name: section.text for section in sections_of(user)}
    task = _TASK.search(system)
    rule: Rule | None = getattr(registry.known(task[1]), "stand_in", None) if task else None
    if rule is not None:
        return rule(sections)
    schema = _schema(request, system)
    if schema is None:
        return "stand-in: this prompt is none of a built-in judge"
    filled: dict[str, Any] = _fill(schema, share(sections.get("response", ""), chunks_of(sections)))
    return filled


def _schema(request: Mapping[str, Any], system: str) -> Mapping[str, Any] | None:
    """Find the schema that a request asks for, wherever the ladder has put it."""
    asked = request.get("response_format") or {}
    if "json_schema" in asked:
        schema: Mapping[str, Any] = asked["json_schema"]["schema"]
        return schema
    if request.get("tools"):
        parameters: Mapping[str, Any] = request["tools"][0]["function"]["parameters"]
        return parameters
    _, found, text = system.rpartition("this JSON schema: ")
    if not found:
        return None
    decoded: Mapping[str, Any] = json.JSONDecoder().raw_decode(text)[0]
    return decoded


def _fill(schema: Mapping[str, Any], share: float) -> Any:
    """Fill in any form: the better the words match, the earlier the choice."""
    kind = schema.get("type")
    if kind == "object":
        return {key: _fill(inner, share) for key, inner in schema.get("properties", {}).items()}
    if kind == "array":
        return []
    if kind == "number":
        return round(share, 3)
    if kind == "integer":
        return round(share)
    if kind == "boolean":
        return share >= 0.5
    choices = schema.get("enum")
    if choices:
        return choices[0 if share >= 0.5 else -1]
    return f"stand-in: {share:.0%} of the words of the response are in the chunks"
