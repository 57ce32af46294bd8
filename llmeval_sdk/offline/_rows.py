"""A row of a data set -> the Record that evaluators see, online and offline alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from llmeval_sdk._coerce import to_chunks, to_extractions, to_text, to_texts, to_usage
from llmeval_sdk.errors import DataError, nearest
from llmeval_sdk.model import Chunk, Record


def _ground_truth(value: Any) -> tuple[Chunk, ...] | None:
    chunks = to_chunks(value)
    if chunks is not None and any(chunk.doc_uri is None for chunk in chunks):
        raise ValueError("each ground-truth chunk needs a doc_uri")
    return chunks


def _as_it_is(value: Any) -> Any:
    return value


_COLUMNS: dict[str, Callable[[Any], Any]] = {
    "request_id": str,
    "request": _as_it_is,
    "response": to_text,
    "retrieved_context": to_chunks,
    "expected_facts": to_texts,
    "expected_response": to_text,
    "expected_retrieved_context": _ground_truth,
    "extractions": to_extractions,
    "value": _as_it_is,
    "confidence": _as_it_is,
    "field_config": _as_it_is,
    "retrieval": _as_it_is,
    "attributes": _as_it_is,
    "usage": to_usage,
    "latency_seconds": float,
}


def record_from(row: Mapping[str, Any] | Record, *, number: int = 1) -> Record:
    """Read one row; ``number`` (1-based) names it in errors.

    NaN in a cell is absent. Raises `DataError` for a column that does not exist, with the nearest
    that does, and for a value that cannot be read.
    """
    if isinstance(row, Record):
        return row
    if not isinstance(row, Mapping):
        raise DataError(f"row {number}: expected a mapping, not {type(row).__name__}")
    fields: dict[str, Any] = {}
    for column, value in row.items():
        read = _COLUMNS.get(column)
        if read is None:
            raise DataError(f"row {number}: unknown column {column!r}: {nearest(column, _COLUMNS)}")
        if value is None or value != value:  # noqa: PLR0124 - NaN is an empty cell
            continue
        try:
            fields[column] = read(value)
        except (TypeError, ValueError) as error:
            raise DataError(f"row {number}, column {column!r}: {error}") from None
        if fields[column] is None:
            raise DataError(
                f"row {number}, column {column!r}: {type(value).__name__} cannot be read"
            )
    if fields.get("expected_facts") is not None and fields.get("expected_response") is not None:
        raise DataError(f"row {number}: give expected_facts or expected_response, not both")
    fields.setdefault("value", fields.get("response"))
    return Record(**fields)
