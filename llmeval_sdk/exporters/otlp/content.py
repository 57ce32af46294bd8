"""Writes captured requests, responses and chunks as JSON text, which backends understand.

OTLP allows structured attribute values, but Phoenix flattens them and then no longer finds the
messages. Therefore every structure is sent as text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from llmeval_sdk.exporters.otlp import names
from llmeval_sdk.model import Chunk
from llmeval_sdk.model.coerce import to_text


_encode = json.JSONEncoder(
    ensure_ascii=False, default=str, check_circular=False, separators=(",", ":")
).encode
_quote = json.encoder.encode_basestring


def dumps(value: Any) -> str:
    """Write plain values as JSON."""
    return _encode(value)


def loads(text: str | bytes) -> Any:
    """Read JSON."""
    return json.loads(text)


def text_of(value: Any) -> tuple[str, str]:
    """Return a value as a text and the text's MIME type."""
    if type(value) is str:
        return value, names.TEXT
    return _encode(value), names.JSON


def input_messages(request: Any) -> tuple[str, str | None]:
    """Return the messages of a request and, separately, its system instructions, as JSON."""
    if type(request) is str:
        return f"[{_message('user', request)}]", None
    turns = _turns(request)
    if turns is None:
        return f"[{_message('user', _encode(request))}]", None
    system = [turn for turn in turns if turn.get("role") in ("system", "developer")]
    others = [_turn(turn) for turn in turns if turn not in system]
    instructions = [part for turn in system for part in _parts(turn)]
    return _encode(others), _encode(instructions) if instructions else None


def output_messages(response: Any, finish_reason: str | None = None) -> str:
    """Return the messages of a response as JSON."""
    text = response if type(response) is str else to_text(response) or ""
    return f"[{_message('assistant', text, finish_reason)}]"


def chunks(retrieved: Sequence[Chunk]) -> str:
    """Return retrieved chunks as OpenTelemetry's retrieval documents."""
    return _encode([_document(chunk, place) for place, chunk in enumerate(retrieved)])


def pages(retrieved: Sequence[Chunk]) -> str:
    """Return retrieved chunks in the form that MLflow shows as documents."""
    return _encode(
        [
            {"page_content": chunk.content or "", "metadata": _about(chunk), "id": chunk.chunk_id}
            for chunk in retrieved
        ]
    )


def _document(chunk: Chunk, place: int) -> dict[str, Any]:
    about = _about(chunk)
    about.pop("chunk_id", None)
    return {
        "id": chunk.chunk_id or chunk.doc_uri or str(place + 1),
        "content": chunk.content or "",
        **about,
    }


def _about(chunk: Chunk) -> dict[str, Any]:
    about: dict[str, Any] = dict(chunk.metadata) if chunk.metadata else {}
    for name in ("doc_uri", "chunk_id", "score", "page", "retrieval_method"):
        value = getattr(chunk, name)
        if value is not None:
            about[name] = value
    return about


def _message(role: str, text: str, finish_reason: str | None = None) -> str:
    end = f',"finish_reason":{_quote(finish_reason)}' if finish_reason else ""
    return f'{{"role":"{role}","parts":[{{"type":"text","content":{_quote(text)}}}]{end}}}'


def _turns(request: Any) -> list[dict[str, Any]] | None:
    """Return the turns of a chat request: ``messages``, or ``history`` and ``query``."""
    if type(request) is dict:
        turns = request.get("messages")
        if type(turns) is not list and "query" in request:
            history = request.get("history")
            query = {"role": "user", "content": request["query"]}
            turns = [*(history if type(history) is list else ()), query]
    else:
        turns = request
    if type(turns) is list and turns and all(type(turn) is dict for turn in turns):
        return turns if all("role" in turn or "content" in turn for turn in turns) else None
    return None


def _turn(turn: dict[str, Any]) -> dict[str, Any]:
    return {"role": str(turn.get("role") or "user"), "parts": _parts(turn)}


def _parts(turn: dict[str, Any]) -> list[dict[str, Any]]:
    parts = turn.get("parts")
    if type(parts) is list:
        return parts
    content = turn.get("content")
    if type(content) is list:
        return [_part(part) for part in content]
    read = [] if content is None else [_part(content)]
    calls = turn.get("tool_calls")
    for call in calls if type(calls) is list else ():
        function = call.get("function") if type(call) is dict else None
        if type(function) is dict:
            read.append(
                {
                    "type": "tool_call",
                    "id": call.get("id"),
                    "name": function.get("name"),
                    "arguments": function.get("arguments"),
                }
            )
    return read


def _part(part: Any) -> dict[str, Any]:
    if type(part) is dict:
        return {"type": "text", "content": part["text"]} if "text" in part else part
    return {"type": "text", "content": part if type(part) is str else _encode(part)}
