"""A Record as Ragas' columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llmeval_sdk.judges.prompt import fair_limit, shortened, split_request
from llmeval_sdk.model import Chunk, Record


def columns_of(record: Record) -> dict[str, Any]:
    """Return the columns that a Record has something for."""
    reference = record.expected_response
    if reference is None and record.expected_facts is not None:
        reference = "\n".join(record.expected_facts)
    found = {
        "user_input": None if record.request is None else split_request(record.request)[0],
        "response": record.response,
        "retrieved_contexts": _texts(record.retrieved_context),
        "reference": reference,
        "reference_contexts": _texts(record.expected_retrieved_context),
    }
    return {name: value for name, value in found.items() if value is not None}


def bounded(columns: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Hold all texts together to what a prompt may have; return the names of what was cut, too."""
    texts = [text for value in columns.values() for text in _several(value)]
    limit = fair_limit([len(text) for text in texts])
    cut = [name for name, value in columns.items() if any(len(t) > limit for t in _several(value))]
    short = {
        name: shortened(value, limit)
        if isinstance(value, str)
        else [shortened(text, limit) for text in value]
        for name, value in columns.items()
    }
    return short, cut


def _several(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def _texts(chunks: Sequence[Chunk] | None) -> list[str] | None:
    """Return the texts of chunks; one of nothing but spaces is none."""
    if chunks is None:
        return None
    return [chunk.content for chunk in chunks if chunk.content and not chunk.content.isspace()]
