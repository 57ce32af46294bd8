"""Whether a Record has what an evaluator needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import lru_cache
from operator import attrgetter
from typing import Any

from llmeval_sdk.model import Chunk, Record
from llmeval_sdk.model.chat import is_answer


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
def _readers_of(need: str, blanks: bool) -> list[Callable[[Record], Any]]:  # noqa: FBT001
    """Return a reader for each field of a need; cached, as all records have the same few needs."""
    fields = alternatives(need)
    return [_PLAIN[f] if blanks and f in _PLAIN else reader_of(f) for f in fields]


def reader_of(field: str) -> Callable[[Record], Any]:
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


def _value(record: Record) -> Any:
    return record.value if is_answer(record.value) else None


def _nothing(_: Record) -> None:
    """Read a field that no Record has, which a judge of another package may name."""


_PLAIN: dict[str, Callable[[Record], Any]] = {field: attrgetter(field) for field in FIELDS}
_READERS: dict[str, Callable[[Record], Any]] = {
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
