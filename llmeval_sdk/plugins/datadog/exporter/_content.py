"""Makes the arguments with which a finished span is passed to ddtrace's ``annotate``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from llmeval_sdk.model import Chunk, Prompt, SpanData, Usage
from llmeval_sdk.model.chat import completion_messages, content_of, messages_of, role_of, unwrapped
from llmeval_sdk.model.fields import to_prompt


_DROPPED: tuple[Any, ...] = (None, (), [], {}, "")


def fields_of(span: SpanData) -> dict[str, Any]:
    """Return the arguments for a span; what is absent is left out."""
    fields = {
        "metadata": metadata(span),
        "metrics": metrics(span.metrics, span.usage if span.kind in ("llm", "embedding") else None),
        "tags": {str(key): str(value) for key, value in span.tags.items()},
        "input_data": _input(span),
        "output_data": _output(span),
    }
    return {key: value for key, value in fields.items() if value not in _DROPPED}


def _input(span: SpanData) -> Any:
    if span.kind == "llm":
        return messages(span.request, "user")
    if span.kind == "embedding":
        return _texts(span.request)
    return span.request


def _output(span: SpanData) -> Any:
    if span.kind == "llm":
        return messages(span.response, "assistant")
    if span.kind == "retrieval" and span.retrieved_context is not None:
        return [document(chunk) for chunk in span.retrieved_context]
    if span.kind == "embedding":
        return None if span.response is None else _embedding(span.response)
    return None if span.kind == "retrieval" else span.response


def metadata(span: SpanData) -> dict[str, Any]:
    """Return the app's metadata, with those fields of ours that Datadog has none for."""
    sent: dict[str, Any] = {str(key): finite(value) for key, value in span.attributes.items()}
    if span.kind != "retrieval" and span.retrieved_context is not None:
        sent["retrieved_context"] = [document(chunk) for chunk in span.retrieved_context]
    if span.extractions is not None:
        sent["extractions"] = [
            {
                "value": finite(extraction.value),
                "chunk_number": extraction.chunk_number,
                "confidence": finite(extraction.confidence),
                "evidence": extraction.evidence,
            }
            for extraction in span.extractions
        ]
    for name, value in span.expected.items():
        chunks = type(value) is tuple and value and type(value[0]) is Chunk
        sent[name] = [document(chunk) for chunk in value] if chunks else finite(value)
    if span.kind == "retrieval" and span.response is not None:
        sent["returned"] = finite(span.response)
    return sent


def metrics(own: Mapping[str, float], usage: Usage | None) -> dict[str, float]:
    """Return the numbers of a span, tokens by Datadog's names; only finite ones."""
    sent = {
        str(name): value
        for name, value in own.items()
        if type(value) in (int, float) and math.isfinite(value)
    }
    if usage is not None:
        sent.setdefault("input_tokens", usage.input_tokens)
        sent.setdefault("output_tokens", usage.output_tokens)
        sent.setdefault("total_tokens", usage.total_tokens)
        if usage.cost_usd is not None and math.isfinite(usage.cost_usd):
            sent.setdefault("total_cost", usage.cost_usd)
    return sent


def document(chunk: Chunk) -> dict[str, Any]:
    """Write a chunk as one of Datadog's documents, whose text and id are strings."""
    fields: dict[str, Any] = {"text": chunk.content or ""}
    name = chunk.doc_uri
    if name and chunk.page is not None:
        name = f"{name} p. {chunk.page}"
    if name:
        fields["name"] = name
    if chunk.chunk_id is not None:
        fields["id"] = str(chunk.chunk_id)
    if chunk.score is not None and math.isfinite(chunk.score):
        fields["score"] = float(chunk.score)
    return fields


def prompt_of(prompt: Any) -> dict[str, Any] | None:
    """Write a prompt as ddtrace reads it."""
    captured = prompt if type(prompt) is Prompt else to_prompt(prompt) if prompt else None
    if captured is None:
        return None
    fields: dict[str, Any] = {
        "id": captured.id,
        "version": captured.version,
        "template": captured.template,
        "variables": {str(key): value for key, value in captured.variables.items()},
        "tags": captured.tags and {str(key): str(value) for key, value in captured.tags.items()},
        "rag_context_variables": list(captured.rag_context_variables),
        "rag_query_variables": list(captured.rag_query_variables),
    }
    if captured.chat_template and not captured.template:
        fields["chat_template"] = [dict(turn) for turn in captured.chat_template]
    return {key: value for key, value in fields.items() if value}


def messages(value: Any, role: str) -> list[dict[str, Any]] | None:
    """Write a request or a response as messages; a plain text gets the given role."""
    if value is None:
        return None
    turns = messages_of(value) or completion_messages(value)
    if turns is None and type(value) is dict and {"role", "content"} <= value.keys():
        turns = [value]
    if not turns or not all(type(turn) is dict for turn in turns):
        return [{"role": role, "content": value if type(value) is str else dumps(value)}]
    return [_message(unwrapped(turn), role) for turn in turns if isinstance(turn, Mapping)]


def _message(turn: Mapping[str, Any], role: str) -> dict[str, Any]:
    content = content_of(turn)
    message: dict[str, Any] = {
        "role": role_of(turn) or role,
        "content": content if type(content) is str else "" if content is None else dumps(content),
    }
    calls = [_tool_call(call) for call in turn.get("tool_calls") or () if type(call) is dict]
    if calls:
        message["tool_calls"] = calls
    return message


def _tool_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function") if type(call.get("function")) is dict else call
    assert function is not None
    arguments = function.get("arguments")
    if type(arguments) is str:
        try:
            arguments = json.loads(arguments)
        except ValueError:
            arguments = {"text": arguments}
    return {
        "name": str(function.get("name") or ""),
        "arguments": arguments if type(arguments) is dict else {"value": arguments},
        "tool_id": str(call.get("id") or ""),
        "type": str(call.get("type") or "function"),
    }


def _texts(value: Any) -> Any:
    """Return what was embedded as texts."""
    if type(value) is dict:
        value = value.get("input", dumps(value))
    if type(value) is list:
        return [text if type(text) is str else dumps(text) for text in value]
    return value if value is None or type(value) is str else dumps(value)


def _embedding(value: Any) -> str:
    """Describe vectors instead of sending their numbers."""
    if type(value) is str:
        return value
    if type(value) is list and value and type(value[0]) in (int, float):
        return f"1 vector of {len(value)} numbers"
    if type(value) is list and value and type(value[0]) is list:
        return f"{len(value)} vectors of {len(value[0])} numbers"
    return dumps(value)


def dumps(value: Any) -> str:
    """Write a captured value as JSON, with text in place of the numbers that JSON lacks."""
    return json.dumps(finite(value), ensure_ascii=False, default=str)


def finite(value: Any) -> Any:
    """Return a captured value with NaN and infinities as text.

    Datadog refuses a whole request because of one of them.
    """
    if type(value) is float:
        return value if math.isfinite(value) else str(value)
    if type(value) is dict:
        return {str(key): finite(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return [finite(item) for item in value]
    return value
