"""The ways to ask for structured output, and which of them a server understood.

Structured output is not portable. Each way is a step of a ladder that ends with asking for JSON in
words, which every model takes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from llmeval_sdk._coerce import CACHED, to_details
from llmeval_sdk._json_object import NoObjectError, only_object
from llmeval_sdk.llms._failures import CallFailed
from llmeval_sdk.model import Message, Usage


def in_words(messages: Sequence[Message], schema: Mapping[str, Any]) -> list[Message]:
    """Add the schema to the system message, or put one in front."""
    instruction = (
        "Answer with exactly one JSON object and nothing else: no prose, no code fence. "
        f"It satisfies this JSON schema: {json.dumps(schema, ensure_ascii=False)}"
    )
    if messages and messages[0].role == "system":
        return [Message("system", f"{messages[0].content}\n\n{instruction}"), *messages[1:]]
    return [Message("system", instruction), *messages]


def fits(text: str, schema: Mapping[str, Any]) -> bool:
    """Say whether a reply is one JSON object with the schema's required keys.

    That is all a client has to know; what the values mean is for the judge to check.
    """
    try:
        answer = only_object(text)
    except NoObjectError:
        return False
    return all(key in answer for key in schema.get("required", ()))


Step = Literal["json_schema", "tool", "json_object", "text"]
STEPS: tuple[Step, ...] = ("json_schema", "tool", "json_object", "text")

REMEMBER_SECONDS = 600.0
"""How long a lower step is kept before the best one is tried again: one odd reply, or a server
that was upgraded since, should not cost a model its strict mode for good."""


@dataclass(slots=True)
class Dialect:
    """What has been learned about one model of one server; sharing it needs no lock."""

    step: int = 0
    proven: bool = False
    """Whether ``step`` has given a readable reply."""
    learned: float = field(default_factory=time.monotonic)
    limit_key: str = "max_tokens"
    """Reasoning models of OpenAI take ``max_completion_tokens`` only."""
    temperature: bool = True

    def refresh(self) -> None:
        """Start from the best step again, once what was learned is old."""
        if self.step and time.monotonic() - self.learned > REMEMBER_SECONDS:
            self.step, self.proven = 0, False

    def settle(self, step: int) -> None:
        """Remember the step that gave a readable reply."""
        if step != self.step or not self.proven:
            self.step, self.proven, self.learned = step, True, time.monotonic()

    def give_way(self, error: CallFailed) -> bool:
        """Drop a parameter that the server names in its complaint; False if there is none left."""
        complaint = str(error)
        if self.limit_key == "max_tokens" and "max_completion_tokens" in complaint:
            self.limit_key = "max_completion_tokens"
            return True
        if self.temperature and "temperature" in complaint:
            self.temperature = False
            return True
        return False


_dialects: dict[tuple[str, str], Dialect] = {}


def dialect(base_url: str, model: str) -> Dialect:
    """Return what this process has learned about a model of a server."""
    return _dialects.setdefault((base_url, model), Dialect())


def forget() -> None:
    """Forget what was learned, for tests."""
    _dialects.clear()


def asking(
    step: Step | None, messages: Sequence[Message], schema: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Build the part of a request that differs from step to step."""
    more: dict[str, Any] = {}
    if step == "json_schema":
        more["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "verdict", "strict": True, "schema": schema},
        }
    elif step == "tool":
        more["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": "submit",
                    "description": "Hand in the answer.",
                    "parameters": schema,
                },
            }
        ]
        more["tool_choice"] = {"type": "function", "function": {"name": "submit"}}
    elif step is not None and schema is not None:
        messages = in_words(messages, schema)
        if step == "json_object":
            more["response_format"] = {"type": "json_object"}
    more["messages"] = [{"role": turn.role, "content": turn.content} for turn in messages]
    return more


@dataclass(frozen=True, slots=True)
class Reply:
    """What one request brought back."""

    text: str
    refusal: str
    finish_reason: str | None
    model: str
    usage: Usage | None
    cached: Mapping[str, float]


def read(completion: Any) -> Reply:
    """Read a chat completion; servers leave out what they like.

    Raises:
        CallFailed: ``malformed``, where it is not a chat completion at all.
    """
    choice = _first(_of(completion, "choices"))
    message = _of(choice, "message")
    if message is None:
        raise CallFailed("malformed", "the server's answer is not a chat completion")
    calls = _of(message, "tool_calls")
    text = _of(message, "content")
    if isinstance(calls, list) and len(calls) == 1:
        text = _of(_of(calls[0], "function"), "arguments") or text
    return Reply(
        text if isinstance(text, str) else "",
        str(_of(message, "refusal") or ""),
        _of(choice, "finish_reason"),
        str(_of(completion, "model") or ""),
        usage(_of(completion, "usage")),
        cached(_of(completion, "usage")),
    )


_COUNTS = (("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens"))
"""What chat completions call the tokens, and what other endpoints do."""


def usage(counts: Any) -> Usage | None:
    """Read token counts, where the server sent whole numbers."""
    if counts is None:
        return None

    def number(*names: str) -> int:
        values = (_of(counts, name) for name in names)
        return next((value for value in values if type(value) is int and value >= 0), 0)

    read, written = (number(*names) for names in _COUNTS)
    return Usage(read, written, number("total_tokens") or read + written)


def cached(counts: Any) -> dict[str, float]:
    """Read how many input tokens a cache had, and how many it keeps."""
    return {name: number for name, number in to_details(counts).items() if name in CACHED}


def _of(part: Any, name: str) -> Any:
    return part.get(name) if isinstance(part, dict) else getattr(part, name, None)


def _first(items: Any) -> Any:
    return items[0] if isinstance(items, list) and items else None
