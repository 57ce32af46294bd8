"""The fields of a Record: what others call them, how values become them, and who needs them.

Online and offline take the same names and the same values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from operator import attrgetter
from typing import Any

from llmeval_sdk.model import Chunk, Extraction, Prompt, Record, Usage
from llmeval_sdk.model.chat import is_answer
from llmeval_sdk.model.placeholders import Placeholder
from llmeval_sdk.process.shield import caught, tell_once


# What others call our fields.

OTHER_NAMES = {
    "request": ("question", "query", "input", "inputs", "input_data", "user_input", "prompt"),
    "response": ("answer", "output", "outputs", "output_data", "prediction"),
    "retrieved_context": (
        "chunks", "contexts", "documents", "retrieved_contexts", "context",
    ),
    "expected_response": (
        "ground_truth", "reference", "expected_output", "expected_answer", "gold", "gold_answer",
    ),
    "expected_trajectory": ("reference_trajectory", "expected_tool_calls"),
    "steps": ("trajectory",),
    "tools": ("tool_definitions",),
    "request_id": ("id",),
    "latency_seconds": ("latency",),
}  # fmt: skip
"""The names of our fields in other libraries and data sets.

``annotate`` takes each for a field that it knows, and so does a function's argument that holds
passages. In a data set nothing is guessed: an error says which of our names was probably meant.
"""
FIELD_OF = {name: field for field, names in OTHER_NAMES.items() for name in names}
"""Our field by the name that others have for it."""
CONTEXT_ARGUMENTS = dict.fromkeys(("retrieved_context", *OTHER_NAMES["retrieved_context"]))
"""Arguments of an evaluated function that may hold the chunks it works on. The plainest name comes
first, because ``context`` is a word for much else; the keys are ordered and quick to look up."""


# Whether a Record has what an evaluator needs.

CHUNK_TEXT = "retrieved_context.content"
"""The need of an evaluator that reads what the retrieved chunks say."""

TOOL_RESULTS = "steps.result"
"""Tool calls of which one brought a result or an error."""

EVIDENCE = f"{CHUNK_TEXT}|{TOOL_RESULTS}"
"""The need of an evaluator that compares the answer with all that the app had to go by."""

FIELDS = tuple(field.name for field in fields(Record))
"""The fields of Record, of which each can be needed."""


def alternatives(need: str) -> list[str]:
    """Return the fields of which one is enough to meet a need."""
    return need.split("|")


def missing(record: Record, needs: Sequence[str], *, blanks: bool = False) -> str | None:
    """Name the needs that a Record does not meet, comma-separated, or ``None`` if it meets all.

    A need is a field of Record, or several joined by ``|`` of which one is enough. Only ``None`` is
    absent: an empty list, mapping or string is present; but a ``response`` or ``value`` that is no
    answer is absent, unless ``blanks`` says that it is as good as any other. `CHUNK_TEXT` is met
    by chunks of which one has text, and by an empty list, but not by chunks that are known by their
    addresses only.
    """
    absent = [_shown(record, need) for need in needs if not is_met(need, record, blanks=blanks)]
    return ", ".join(absent) if absent else None


def lacking(judge: Any, record: Record, *, blanks: bool = False) -> str | None:
    """Name what a judge lacks: its needs, or what its own ``lacks(record)`` says.

    ``blanks`` is for a judge that was chosen already, and may settle a blank answer by itself.
    """
    absent = missing(record, judge.needs, blanks=blanks)
    if absent is None:
        absent = judge.lacks(record)
    return absent


def is_met(need: str, record: Record, *, blanks: bool = False) -> bool:
    """Return whether a Record has one of the fields of a need."""
    for read in _readers_of(need, blanks):  # noqa: SIM110 - `any` makes a generator, for each record anew
        if read(record) is not None:
            return True
    return False


@lru_cache(256)
def _readers_of(need: str, blanks: bool) -> list[Callable[[Record], object]]:  # noqa: FBT001
    """Return a reader for each field of a need; cached, as all records have the same few needs."""
    fields = alternatives(need)
    return [_PLAIN[f] if blanks and f in _PLAIN else reader_of(f) for f in fields]


def reader_of(field: str) -> Callable[[Record], object]:
    """Return the reader of a field, or of `CHUNK_TEXT`; it gives ``None`` for what is absent."""
    return _READERS.get(field, _nothing)


def _chunks_with_text(record: Record) -> Sequence[Chunk] | None:
    chunks = record.retrieved_context
    return chunks if chunks is None or not chunks or any(map(_has_text, chunks)) else None


def _tool_results(record: Record) -> bool | None:
    """Return ``True`` where a tool brought something."""
    steps = record.steps or ()
    return any(step.result is not None or step.error is not None for step in steps) or None


def _response(record: Record) -> str | None:
    return record.response if is_answer(record.response) else None


def _value(record: Record) -> object:
    return record.value if is_answer(record.value) else None


def _nothing(_: Record) -> None:
    """Read a field that no Record has, which a judge of another package may name."""


_PLAIN: dict[str, Callable[[Record], object]] = {field: attrgetter(field) for field in FIELDS}
_READERS: dict[str, Callable[[Record], object]] = {
    **_PLAIN,
    "response": _response,
    "value": _value,
    CHUNK_TEXT: _chunks_with_text,
    TOOL_RESULTS: _tool_results,
}


def _shown(record: Record, need: str) -> str:
    if CHUNK_TEXT not in need:
        return need.partition(f"|{TOOL_RESULTS}")[0]
    return "retrieved_context" if record.retrieved_context is None else "text in retrieved_context"


def _has_text(chunk: Chunk) -> bool:
    content = chunk.content
    return content is not None and bool(content.strip())


# Values become fields: chunks, extractions, prompts and usage.
#
# These functions take plain builtins, which `capture` made or which a parsed row holds. They never
# raise on odd ones, and leave out what cannot be read.


TRUNCATED = "<truncated "
"""With this begins the end of a text that was cut when it was captured: how much is missing."""


def truncated(text: str, limit: int) -> str:
    """Cut a text that is longer than a limit, and say at its end how much is missing."""
    missing = len(text) - limit
    return f"{text[:limit]}{TRUNCATED}{missing} characters>" if missing > 0 else text


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
_PLAIN_KEYS = frozenset(("content", "chunk_id", "score", "page", "retrieval_method"))


def to_chunk(value: object) -> Chunk | None:
    """Read one passage: a string, a mapping, a Chunk, or a ``(document, score)`` pair."""
    if type(value) is Chunk:
        return value
    if type(value) is str or type(value) is Placeholder:
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
    if type(content) is str and _PLAIN_KEYS.issuperset(value):  # our own spelling, the common case
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


def _foreign_to_chunk(value: dict[str, object]) -> Chunk | None:
    fields: dict[str, Any] = {}
    rest: dict[str, object] | None = None
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
        content if content is None or isinstance(content, str) else str(content),
        doc_uri if doc_uri is None or type(doc_uri) is str else str(doc_uri),
        chunk_id if chunk_id is None or type(chunk_id) is str else str(chunk_id),
        fields.get("score"),
        fields.get("page"),
        fields.get("retrieval_method"),
        rest,
    )


def _with_score(chunk: Chunk, score: float | None) -> Chunk:
    from dataclasses import replace

    return replace(chunk, score=score)


def to_chunks(value: object) -> tuple[Chunk, ...] | None:
    """Read a list of passages in rank order; ``None`` where the value is no such list."""
    if type(value) is dict:  # what some retrievers return
        value = next((value[k] for k in ("documents", "chunks", "results") if k in value), None)
    if type(value) is tuple and all(type(item) is Chunk for item in value):
        return value
    if not isinstance(value, (list, tuple)):
        return None
    chunks = [chunk for item in value if (chunk := to_chunk(item)) is not None]
    return tuple(chunks) if chunks or not value else None


def to_extraction(value: object) -> Extraction | None:
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


def to_extractions(value: object) -> tuple[Extraction, ...] | None:
    """Read a list of extractions; ``None`` where the value is no list."""
    if not isinstance(value, (list, tuple)):
        return None
    return tuple(item for one in value if (item := to_extraction(one)) is not None)


def to_texts(value: object) -> tuple[str, ...] | None:
    """Read one or several texts, such as expected facts."""
    if type(value) is str:
        return (value,)
    if not isinstance(value, (list, tuple)):
        return None
    return tuple(item if type(item) is str else str(item) for item in value)


_NOT = frozenset(("", "false", "f", "no", "n", "off", "0", "0.0", "none", "null", "nan"))
_SO = frozenset(("true", "t", "yes", "y", "on", "1", "1.0"))
"""How people and files write that an app has not abstained, and that it has without a reason."""


def to_reason(value: object) -> str | None:
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
_SPECIAL = {
    "audio_input_tokens": "audio_input_tokens", "input_audio_tokens": "audio_input_tokens",
    "audio_output_tokens": "audio_output_tokens", "output_audio_tokens": "audio_output_tokens",
    "audio_cache_read_input_tokens": "audio_cache_read_input_tokens",
    "cache_write_1h_input_tokens": "cache_write_1h_input_tokens",
    "ephemeral_1h_input_tokens": "cache_write_1h_input_tokens",
}  # fmt: skip
"""Kinds of tokens that few calls have and some models price apart, in all spellings."""


def to_usage(value: object) -> Usage | None:
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


def to_details(value: object) -> dict[str, float]:
    """Read tokens of special kinds, and the seconds to the first token, by our names."""
    if not value or not isinstance(value, Mapping):
        return {}
    known = dict(value)
    for key, part in value.items():
        if isinstance(part, Mapping) and str(key).endswith(("_details", "cache_creation")):
            known.update(part)  # such as OpenAI's ``prompt_tokens_details``
            audio = part.get("audio_tokens", part.get("audio"))
            if audio:
                side = "output" if str(key).startswith(("completion", "output")) else "input"
                known[f"audio_{side}_tokens"] = audio
    numbers = {name: _number(known, spellings) for name, spellings in DETAILS.items()}
    for spelling in _SPECIAL.keys() & known:
        numbers[_SPECIAL[spelling]] = _number(known, (spelling,))
    return {name: number for name, number in numbers.items() if number is not None}


_PRICED_KINDS = frozenset((
    *_INPUT, *_OUTPUT, "total_tokens",
    *(name for spellings in DETAILS.values() for name in spellings),
    *_SPECIAL, "audio_tokens",
    "text_tokens", "text_prompt_tokens", "text_candidates_tokens",
    "text_input_tokens", "text_output_tokens", "text_cache_read_input_tokens",
    "accepted_prediction_tokens", "rejected_prediction_tokens",
    "ephemeral_5m_input_tokens",
))  # fmt: skip
"""Kinds of tokens that have a price of their own, or that of any input or output token."""
_USUAL = _PRICED_KINDS | {
    "prompt_tokens_details", "completion_tokens_details", "input_tokens_details",
    "output_tokens_details",
}  # fmt: skip


def note_kinds(used: object) -> None:
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


def _number(value: Mapping[str, object], keys: tuple[str, ...]) -> float | None:
    for key in keys:
        number = value.get(key)
        if isinstance(number, (int, float)) and number < 0:
            caught.add("a negative number of tokens")
        if isinstance(number, (int, float)) and number == number and 0 <= number < 1e15:  # noqa: PLR0124
            return number
    return None


_PROMPT_KEYS = ("id", "version", "template", "tags")


def to_chance(value: object) -> float | None:
    """Read a probability that something is divided by; ``None`` for what is none, and for 0."""
    is_chance = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value <= 1
    return float(value) if is_chance else None  # type: ignore[arg-type]


def to_prompt(value: object) -> Prompt | None:
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


def _keys(value: dict[str, object], what: str, default: str | None = None) -> tuple[str, ...]:
    keys = value.get(f"rag_{what}_variables") or value.get(f"rag_{what}_variable_keys")
    return to_texts(keys) or (default or what,)
