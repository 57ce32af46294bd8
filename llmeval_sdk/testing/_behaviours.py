"""What the judge server answers: the rules of the stand-in, and one function per behaviour.

The stand-in is for demos and tests and replaces a judge model by rules on shared words. It
recognises a judge's prompt by its ``Task:`` line, reads the sections, and answers by the rule that
the judge itself declares (`judges.stand_in`). Every rationale begins with ``stand-in:``, so that
nobody takes it for a model's verdict.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from llmeval_sdk import registry
from llmeval_sdk.judges.stand_in import Rule, chunks_of, share, words
from llmeval_sdk.model import STAND_IN
from llmeval_sdk.testing._sections import sections_of


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
    wanted_format = request.get("response_format") or {}
    if "json_schema" in wanted_format:
        schema: Mapping[str, Any] = wanted_format["json_schema"]["schema"]
        return schema
    if request.get("tools"):
        parameters: Mapping[str, Any] = request["tools"][0]["function"]["parameters"]
        return parameters
    _, found, text = system.rpartition("this JSON schema: ")
    if not found:
        return None
    decoded: Mapping[str, Any] = json.JSONDecoder().raw_decode(text)[0]
    return decoded


def _fill(schema: Mapping[str, Any], share: float) -> Any:  # noqa: PLR0911
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


Answer = Callable[[Mapping[str, Any]], "str | Mapping[str, Any]"]
"""Gets a chat completion request; returns the reply's text, or an object to be sent as JSON."""

Behaviour = Literal[
    "good", "malformed", "fenced", "refusal", "filtered", "truncated",
    "tool_only", "json_object_only", "text_only", "schema_500", "reasoning",
    "rate_limited", "error", "unavailable", "unauthorized", "not_found", "bad_request",
    "redirect", "html", "slow", "drip", "hang", "reset",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class ServedAnswer:
    """One HTTP answer; ``manner`` says how it is sent."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    manner: Literal["at once", "slow", "drip", "hang", "reset"] = "at once"


def behave(  # noqa: PLR0911
    behaviour: str, request: Mapping[str, Any], answer: Answer, retry_after: float
) -> ServedAnswer:
    """Answer one chat completion request in one of the ways of `Behaviour`."""
    if behaviour in ("slow", "drip", "hang", "reset"):
        good = completion(request, answer)
        return ServedAnswer(200, _json(good), manner=behaviour)  # type: ignore[arg-type]
    if behaviour in _ERRORS:
        status, kind, message = _ERRORS[behaviour]
        headers = {"Retry-After": f"{retry_after:g}"} if behaviour == "rate_limited" else {}
        return error(status, message, kind, headers)
    if behaviour == "redirect":
        return ServedAnswer(302, b"", {"Location": "http://169.254.169.254/latest/meta-data"})
    if behaviour == "html":
        return ServedAnswer(200, b"<html>Please sign in.</html>", content_type="text/html")
    refused = _not_taken(behaviour, request)
    if refused is not None:
        return refused
    reply = _changed(behaviour, completion(request, answer))
    if request.get("stream"):
        return ServedAnswer(200, _streamed(reply), content_type="text/event-stream")
    return ServedAnswer(200, _json(reply))


_ERRORS: dict[str, tuple[int, str, str]] = {
    "rate_limited": (429, "rate_limit_exceeded", "Too many requests."),
    "error": (500, "server_error", "Something broke."),
    "unavailable": (503, "overloaded", "Come back later."),
    "unauthorized": (401, "invalid_api_key", "This key is wrong."),
    "not_found": (404, "model_not_found", "There is no such model."),
    "bad_request": (400, "context_length_exceeded", "The messages are too long."),
}


def error(
    status: int, message: str, code: str, headers: Mapping[str, str] | None = None
) -> ServedAnswer:
    """Build an error as OpenAI spells it."""
    body = {"error": {"message": message, "type": code, "code": code, "param": None}}
    return ServedAnswer(status, _json(body), headers or {})


def _mode(request: Mapping[str, Any]) -> str:
    if request.get("tools"):
        return "tool"
    wanted_format = request.get("response_format") or {}
    return str(wanted_format.get("type", "text"))


def _not_taken(behaviour: str, request: Mapping[str, Any]) -> ServedAnswer | None:
    mode = _mode(request)
    if behaviour == "schema_500" and mode == "json_schema":
        return error(500, "json_schema is not implemented.", "server_error")
    if behaviour == "reasoning":
        if "max_tokens" in request:
            return error(400, "Use 'max_completion_tokens' instead.", "unsupported_parameter")
        if "temperature" in request:
            return error(400, "'temperature' does not support 0.", "unsupported_value")
    wanted = {"tool_only": "tool", "json_object_only": "json_object", "text_only": "text"}
    only = wanted.get(behaviour, mode)
    if mode not in (only, "text"):
        return error(400, f"{mode} is not supported.", "unsupported_value")
    return None


def _changed(behaviour: str, reply: dict[str, Any]) -> dict[str, Any]:
    choice = reply["choices"][0]
    message = choice["message"]
    if behaviour == "malformed":
        message.pop("tool_calls", None)
        message["content"] = "I would say that this looks fine."
    elif behaviour == "fenced":
        message["content"] = f"Here it is:\n```json\n{message['content']}\n```\nBye."
    elif behaviour == "refusal":
        message["content"], message["refusal"] = None, "I cannot help with that."
    elif behaviour == "filtered":
        message["content"], choice["finish_reason"] = "", "content_filter"
    elif behaviour == "truncated":
        choice["finish_reason"] = "length"
        message["content"] = (message["content"] or "")[:12]
    return reply


def completion(request: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    """Build the chat completion that carries an answer, ``n`` times where that is asked."""
    answered = answer(request)
    text = answered if isinstance(answered, str) else json.dumps(answered, ensure_ascii=False)
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if request.get("tools"):
        function = {"name": request["tools"][0]["function"]["name"], "arguments": text}
        call = {"id": "call_1", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    count = int(request.get("n") or 1)
    prompt = sum(len(str(turn.get("content") or "")) for turn in request["messages"]) // 4
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": MODEL,
        "choices": [
            {"index": index, "finish_reason": "stop", "message": message} for index in range(count)
        ],
        "usage": usage(prompt, count * max(1, len(text) // 4)),
    }


def _streamed(reply: dict[str, Any]) -> bytes:
    """Spell a reply as the events of a stream: a word each, then the end, then the tokens."""
    choices, counts = reply.pop("choices"), reply.pop("usage")
    about = {**reply, "object": "chat.completion.chunk"}
    events: list[dict[str, Any]] = []
    for choice in choices:
        parts = (choice["message"]["content"] or "").split(" ")
        words = [f"{part} " for part in parts[:-1]] + parts[-1:]
        for delta, ended in [*(({"role": "assistant", "content": w}, None) for w in words),
                             ({}, choice["finish_reason"])]:  # fmt: skip
            one = {"index": choice["index"], "delta": delta, "finish_reason": ended}
            events.append({**about, "choices": [one]})
    events.append({**about, "choices": [], "usage": counts})
    lines = [b"data: " + _json(event) + b"\n\n" for event in events]
    return b"".join([*lines, b"data: [DONE]\n\n"])


def usage(prompt: int, reply: int) -> dict[str, int]:
    """Count tokens as a quarter of the characters."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": reply,
        "total_tokens": prompt + reply,
    }


def embeddings(request: Mapping[str, Any]) -> ServedAnswer:
    """Embed each text as a hashed bag of words: 256 numbers, unit length."""
    given = request.get("input")
    texts = [str(text) for text in (given if isinstance(given, list) else [given])]
    data: list[dict[str, Any]] = []
    for index, text in enumerate(texts):
        vector: Any = _hashed(text)
        if request.get("encoding_format") == "base64":
            vector = base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
        data.append({"object": "embedding", "index": index, "embedding": vector})
    tokens = sum(map(len, texts)) // 4
    counts = {"prompt_tokens": tokens, "total_tokens": tokens}
    return ServedAnswer(
        200, _json({"object": "list", "model": MODEL, "data": data, "usage": counts})
    )


def _hashed(text: str) -> list[float]:
    vector = [0.0] * 256
    for word in words(text):
        vector[int(hashlib.sha256(word.encode()).hexdigest()[:8], 16) % 256] += 1.0
    length = math.sqrt(sum(number * number for number in vector)) or 1.0
    return [number / length for number in vector]


def models() -> ServedAnswer:
    """List the one model there is."""
    entry = {"id": MODEL, "object": "model", "created": 0, "owned_by": "llmeval"}
    return ServedAnswer(200, _json({"object": "list", "data": [entry]}))


def _json(body: Any) -> bytes:
    return json.dumps(body).encode()
