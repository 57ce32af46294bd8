"""Rows and captured values -> the nouns: one reading of chunks, extractions, prompts and usage.

Online and offline read the same shapes. Everything here takes plain builtins (what `capture` made,
or a parsed row) and never raises on odd ones: what cannot be read is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmeval_sdk.model import Chunk, Extraction, Prompt, Usage
from llmeval_sdk.process.shield import caught, tell_once


TRUNCATED = "<truncated "
"""With this begins the end of a text that was cut when it was captured: how much is missing."""
_SPELLINGS = {
    "content": ("content", "text", "page_content"),
    "doc_uri": ("doc_uri", "uri", "source", "url"),
    "chunk_id": ("chunk_id", "id", "id_", "node_id"),
    "score": ("score",),
    "page": ("page", "page_number", "page_label"),
    "retrieval_method": ("retrieval_method", "method"),
}
"""How other systems spell a chunk's fields; the first spelling that has a value wins."""
_CHUNK_FIELDS = {
    spelling: field for field, spellings in _SPELLINGS.items() for spelling in spellings
}
_PLAIN = frozenset(("content", "chunk_id", "score", "page", "retrieval_method"))


def to_chunk(value: Any) -> Chunk | None:
    """Read one passage: a string, a mapping, a Chunk, or a ``(document, score)`` pair."""
    if type(value) is Chunk:
        return value
    if type(value) is str:
        return Chunk(content=value)
    if type(value) is dict:
        return _mapping_to_chunk(value)
    if isinstance(value, (list, tuple)) and len(value) == 2 and type(value[1]) in (float, int):
        chunk = to_chunk(value[0])
        return chunk and _with_score(chunk, float(value[1]))
    return None


def _mapping_to_chunk(value: dict[str, Any]) -> Chunk | None:
    get = value.get
    content = get("content")
    if type(content) is str and _PLAIN.issuperset(value):  # our own spelling, the common case
        chunk_id = get("chunk_id")
        if chunk_id is None or type(chunk_id) is str:
            return Chunk(
                content,
                None,
                chunk_id,
                get("score"),
                get("page"),
                get("retrieval_method"),
            )
    return _foreign_to_chunk(value)


def _foreign_to_chunk(value: dict[str, Any]) -> Chunk | None:
    fields: dict[str, Any] = {}
    rest: dict[str, Any] | None = None
    for key, item in value.items():
        field = _CHUNK_FIELDS.get(key)
        if field is None:
            rest = rest or {}
            rest[key] = item
        elif item is not None and field not in fields:
            fields[field] = item
    if rest is not None:
        node = rest.get("node")
        if type(node) is dict:  # a wrapper that holds the passage and its score
            inner = _foreign_to_chunk(node)
            return inner and _with_score(inner, fields.get("score"))
        metadata = rest.get("metadata")
        if type(metadata) is dict:
            for key, item in metadata.items():
                field = _CHUNK_FIELDS.get(key)
                if field is not None and item is not None:
                    fields.setdefault(field, item)
    content = fields.get("content")
    doc_uri = fields.get("doc_uri")
    if content is None and doc_uri is None:
        return None
    chunk_id = fields.get("chunk_id")
    return Chunk(
        content if content is None or type(content) is str else str(content),
        doc_uri if doc_uri is None or type(doc_uri) is str else str(doc_uri),
        chunk_id if chunk_id is None or type(chunk_id) is str else str(chunk_id),
        fields.get("score"),
        fields.get("page"),
        fields.get("retrieval_method"),
        rest,
    )


def _with_score(chunk: Chunk, score: Any) -> Chunk:
    from dataclasses import replace

    return replace(chunk, score=score)


def to_chunks(value: Any) -> tuple[Chunk, ...] | None:
    """Read a list of passages in rank order; ``None`` where the value is no such list."""
    if type(value) is dict:  # what some retrievers return
        value = next((value[k] for k in ("documents", "chunks", "results") if k in value), None)
    if type(value) is tuple and all(type(item) is Chunk for item in value):
        return value
    if not isinstance(value, (list, tuple)):
        return None
    chunks = [chunk for item in value if (chunk := to_chunk(item)) is not None]
    return tuple(chunks) if chunks or not value else None


def to_extraction(value: Any) -> Extraction | None:
    """Read one extraction: a mapping, an Extraction, or the bare value."""
    if type(value) is Extraction:
        return value
    if type(value) is not dict:
        return Extraction(value=value)
    if "value" not in value and "chunk_number" not in value:
        return None
    return Extraction(
        value.get("value"),
        value.get("chunk_number"),
        value.get("confidence"),
        value.get("evidence"),
    )


def to_extractions(value: Any) -> tuple[Extraction, ...] | None:
    """Read a list of extractions; ``None`` where the value is no list."""
    if not isinstance(value, (list, tuple)):
        return None
    return tuple(item for one in value if (item := to_extraction(one)) is not None)


def to_texts(value: Any) -> tuple[str, ...] | None:
    """Read one or several texts, such as expected facts."""
    if type(value) is str:
        return (value,)
    if not isinstance(value, (list, tuple)):
        return None
    return tuple(item if type(item) is str else str(item) for item in value)


_NOT = frozenset(("", "false", "f", "no", "n", "off", "0", "0.0", "none", "null", "nan"))
_SO = frozenset(("true", "t", "yes", "y", "on", "1", "1.0"))
"""How people and files write that an app has not abstained, and that it has without a reason."""


def to_reason(value: Any) -> str | None:
    """Read why an app abstained; ``None`` where it did not, as False and ``no`` in a file say."""
    reason = value if type(value) is str else str(value)
    word = reason.strip().casefold() if len(reason) < 20 else reason
    if word in _NOT:
        return None
    return "it said so" if word in _SO else reason


_INPUT = ("input_tokens", "prompt_tokens")
_OUTPUT = ("output_tokens", "completion_tokens")
_CREATED = "cache_creation_input_tokens"
DETAILS = {
    "cache_read_input_tokens": (
        "cache_read_input_tokens", "cached_tokens", "cache_read_tokens", "cache_read",
        "cache_input_tokens",
    ),
    "cache_write_input_tokens": (
        "cache_write_input_tokens", _CREATED, "cache_write_tokens", "cache_creation_tokens",
        "cache_creation", "cache_write",
    ),
    "reasoning_output_tokens": (
        "reasoning_output_tokens", "reasoning_tokens", "reasoning", "thinking_tokens",
        "thoughts_tokens",
    ),
    "time_to_first_token": ("time_to_first_token",),
}  # fmt: skip
"""What else is measured of a model call, by its name among a span's metrics, in all spellings."""
CACHED = ("cache_read_input_tokens", "cache_write_input_tokens")


def to_usage(value: Any) -> Usage | None:
    """Read token counts in the spelling of Datadog, OpenTelemetry, OpenAI or Anthropic."""
    if type(value) is Usage:
        return value
    if not isinstance(value, Mapping):
        return None
    tokens_in, tokens_out = _number(value, _INPUT), _number(value, _OUTPUT)
    total = _number(value, ("total_tokens",))
    if _CREATED in value and total is None:  # Anthropic counts what its cache took part in apart
        details = to_details(value)
        tokens_in = (tokens_in or 0) + sum(details.get(name, 0) for name in CACHED)
    if tokens_in is None and tokens_out is None and total is None:
        return None
    both = (tokens_in or 0) + (tokens_out or 0)
    cost = _number(value, ("total_cost", "cost_usd"))
    return Usage(
        int(tokens_in or 0),
        int(tokens_out or 0),
        int(both if total is None else total),
        None if cost is None else float(cost),
    )


def to_details(value: Any) -> dict[str, float]:
    """Read cached and reasoning tokens, and the seconds to the first token, by our names."""
    if not isinstance(value, Mapping):
        return {}
    known = dict(value)
    for key, part in value.items():
        if isinstance(part, Mapping) and str(key).endswith("_details"):
            known.update(part)  # such as OpenAI's ``prompt_tokens_details``
    numbers = {name: _number(known, spellings) for name, spellings in DETAILS.items()}
    return {name: number for name, number in numbers.items() if number is not None}


_PRICED_KINDS = frozenset((
    *_INPUT, *_OUTPUT, "total_tokens",
    *(name for spellings in DETAILS.values() for name in spellings),
    "text_tokens", "text_prompt_tokens", "text_candidates_tokens",
    "accepted_prediction_tokens", "rejected_prediction_tokens",
    "ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens",
))  # fmt: skip
"""Kinds of tokens that have a price of their own, or that of any input or output token."""
_USUAL = _PRICED_KINDS | {
    "prompt_tokens_details", "completion_tokens_details", "input_tokens_details",
    "output_tokens_details",
}  # fmt: skip


def note_kinds(used: Any) -> None:
    """Count the kinds of tokens of a model call that have no price here; log each name once."""
    if type(used) is dict and used.keys() <= _USUAL:  # a tenth of the time of looking at each
        for part in used.values():
            if type(part) is dict and not part.keys() <= _USUAL:
                break
        else:
            return
    if not isinstance(used, Mapping):
        return
    parts = [used, *(part for part in used.values() if isinstance(part, Mapping))]
    for name in {name for part in parts for name in part.keys() - _PRICED_KINDS}:
        number = next((part[name] for part in parts if name in part), None)
        if not (isinstance(name, str) and name.endswith("tokens") and isinstance(number, int)):
            continue
        if number <= 0:
            continue
        caught.add("usage: tokens of an unknown kind")
        tell_once(
            f"usage: {name[:80]}",
            "the price of this kind of tokens is not known: they cost as much as any others",
        )


def _number(value: Mapping[str, Any], keys: tuple[str, ...]) -> float | None:
    for key in keys:
        number = value.get(key)
        if isinstance(number, (int, float)) and number < 0:
            caught.add("a negative number of tokens")
        if isinstance(number, (int, float)) and number == number and 0 <= number < 1e15:  # noqa: PLR0124
            return number
    return None


_PROMPT_KEYS = ("id", "version", "template", "tags")


def to_prompt(value: Any) -> Prompt | None:
    """Read a prompt: a Prompt, its template as text, or a mapping as Datadog's guide spells it."""
    if value is None or type(value) is Prompt:
        return value
    if type(value) is str:
        return Prompt(template=value)
    if type(value) is not dict:
        return None
    chat = value.get("chat_template")
    variables = value.get("variables")
    return Prompt(
        **{key: value[key] for key in _PROMPT_KEYS if value.get(key) is not None},
        chat_template=tuple(chat) if isinstance(chat, (list, tuple)) else None,
        variables=variables if type(variables) is dict else {},
        rag_context_variables=_keys(value, "context"),
        rag_query_variables=_keys(value, "query", "question"),
    )


def _keys(value: dict[str, Any], what: str, default: str | None = None) -> tuple[str, ...]:
    keys = value.get(f"rag_{what}_variables") or value.get(f"rag_{what}_variable_keys")
    return to_texts(keys) or (default or what,)
