"""A Record as Ragas' columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llmeval_sdk.judges._request import split_request
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


def _texts(chunks: Sequence[Chunk] | None) -> list[str] | None:
    return None if chunks is None else [chunk.content for chunk in chunks if chunk.content]
