"""A judge's prompt with ``{fields}``: checked when it is written, never formatted with content."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from typing import Any

from llmeval_sdk._needs import CHUNK_TEXT
from llmeval_sdk.errors import ConfigurationError, nearest
from llmeval_sdk.judges.prompt import Section
from llmeval_sdk.judges.request import as_text, context, request
from llmeval_sdk.model import Chunk, Extraction, Record, Step, Usage


_IDENTITY = {"request_id", "trace_id", "span_id", "span_kind"}
_RECORD = tuple(row.name for row in fields(Record) if row.name not in _IDENTITY)
_MAPPINGS = ("attributes", "field_config", "retrieval")
_CHUNK = tuple(f"chunk.{row.name}" for row in fields(Chunk) if row.name != "metadata")

_NEEDS = dict.fromkeys(_CHUNK, "retrieved_context")
_NEEDS |= {"chunk.content": CHUNK_TEXT, "retrieved_context": CHUNK_TEXT}


class Template:
    """A rubric in which each field has become a pointer to its section."""

    def __init__(self, text: str, *, per_chunk: bool, where: str) -> None:
        known = [*_RECORD, *(f"{name}.<key>" for name in _MAPPINGS), *(_CHUNK if per_chunk else ())]
        self.names: list[str] = []
        parts: list[str] = []
        for literal, name, spec, conversion in _parsed(text, where):
            parts.append(literal)
            if name is None:
                continue
            if not _is_known(name, per_chunk=per_chunk):
                hint = ' (only with per="chunk")' if name in _CHUNK else ""
                raise ConfigurationError(
                    f"{where}: there is no field {{{name}}}{hint}: {nearest(name, known)} "
                    f"(fields: {', '.join(known)}; write {{{{ and }}}} for plain braces)"
                )
            if spec or conversion:
                raise ConfigurationError(f"{where}: {{{name}}} takes no format or conversion")
            if name not in self.names:
                self.names.append(name)
            parts.append(f"[section: {title_of(name)}]")
        if not self.names:
            raise ConfigurationError(
                f"{where} names nothing to judge: put a field such as {{response}} into its prompt"
            )
        self.rubric = "".join(parts)

    @property
    def needs(self) -> tuple[str, ...]:
        """Return the record fields that the prompt cannot do without."""
        needs = (_NEEDS.get(name) or name.partition(".")[0] for name in self.names)
        return tuple(dict.fromkeys(need for need in needs if need != "attributes"))

    def sections(self, record: Record, chunk: Chunk | None = None) -> list[Section]:
        """Return one section for each field named, in the order of the prompt."""
        return [section for name in self.names for section in sections_for(name, record, chunk)]


def _parsed(text: str, where: str) -> list[tuple[str, str | None, str | None, str | None]]:
    try:
        return list(string.Formatter().parse(text))
    except ValueError as problem:
        raise ConfigurationError(
            f"{where}: {problem} in its prompt (write {{{{ and }}}} for plain braces)"
        ) from None


def _is_known(name: str, *, per_chunk: bool) -> bool:
    root, dot, key = name.partition(".")
    return (
        name in _RECORD or (name in _CHUNK and per_chunk) or bool(root in _MAPPINGS and dot and key)
    )


def title_of(name: str) -> str:
    if name == "retrieved_context":
        return "chunk 1, chunk 2 …"
    return "chunk" if name == "chunk.content" else name.replace(".", " ").replace("_", " ")


_SPECIAL: dict[str, Callable[[Record], Sequence[Section]]] = {
    "request": request,
    "retrieved_context": lambda record: context(record.retrieved_context),
    "expected_facts": lambda record: [
        Section("expected facts", "\n".join(record.expected_facts or ()))
    ],
}


def sections_for(name: str, record: Record, chunk: Chunk | None) -> Sequence[Section]:
    if name in _SPECIAL:
        return _SPECIAL[name](record)
    root, _, key = name.partition(".")
    value: Any
    if root == "chunk":
        value = getattr(chunk, key)
    elif key:
        value = (getattr(record, root) or {}).get(key)
    else:
        value = getattr(record, name)
    return [Section(title_of(name), "" if value is None else _plain(value))]


def _plain(value: Any) -> str:
    if isinstance(value, tuple):
        value = [_fields(item) for item in value]
    return as_text(_fields(value))


def _fields(value: Any) -> Any:
    """Spread a noun of ours, such as Usage, into its fields."""
    if not isinstance(value, (Chunk, Extraction, Step, Usage)):
        return value
    return {name: held for name, held in asdict(value).items() if name != "span_id"}
