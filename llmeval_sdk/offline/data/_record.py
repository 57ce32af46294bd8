"""A row of a data set becomes the Record that evaluators see, online and offline alike.

Each column of the input schema has a reader. A reader raises ``ValueError`` or ``TypeError`` with
the end of a sentence, and `record_from` adds where in the data it happened.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from llmeval_sdk._coerce import (
    to_answer,
    to_chunk,
    to_extraction,
    to_reason,
    to_text,
    to_usage,
)
from llmeval_sdk.errors import DataError
from llmeval_sdk.model import Chunk, Extraction, Record, Request, Usage
from llmeval_sdk.offline.data._names import check_names
from llmeval_sdk.offline.data._steps import (
    read_steps,
    read_tools,
    steps_of_chat,
    with_conversation,
)
from llmeval_sdk.offline.data._traces import Trace, read_trace
from llmeval_sdk.offline.data.source import check_size, read_json


def absent(value: Any) -> bool:
    """Return whether a cell is empty: None, NaN, or what data frames have in their place."""
    if value is None:
        return True
    if isinstance(value, float):
        return math.isnan(value)
    return type(value).__name__ in ("NAType", "NaTType")


def plain(value: Any) -> Any:
    """Turn a numpy array or scalar into plain Python values."""
    return value.tolist() if hasattr(value, "tolist") and hasattr(value, "dtype") else value


def structured(value: Any) -> Any:
    """Parse a text that holds JSON, as CSV cells do; any other value is returned unchanged."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        content = read_json(value)
        check_size(content)
        return content
    return value


def _request(value: Any) -> Request:
    request = value
    if isinstance(value, str):
        if not value.lstrip().startswith("{"):
            return value
        try:
            request = read_json(value)
            check_size(request)
        except ValueError:
            return value
    if isinstance(request, Mapping):
        request = {key: plain(item) for key, item in request.items() if not absent(item)}
        messages = request.get("messages")
        if (isinstance(messages, (list, tuple)) and messages) or "query" in request:
            return request
    if isinstance(value, str):
        return value
    raise ValueError(
        f"expected a text, {{'messages': [...]}} or {{'query': ..., 'history': [...]}}, not "
        f"{_shown(value)}"
    )


def _text(value: Any) -> str:
    if isinstance(value, (str, Mapping, list, tuple, int, float)) and not isinstance(value, bool):
        text = to_text(dict(value) if isinstance(value, Mapping) else value)
        assert text is not None
        return text
    raise ValueError(f"expected a text, not {_shown(value)}")


def _response(value: Any) -> str:
    text = _text(value)
    return text if to_answer(value) else ""


def _facts(value: Any) -> tuple[str, ...]:
    facts = structured(value)
    if isinstance(facts, str):
        return (facts,)
    for number, fact in enumerate(_list(facts, "texts"), 1):
        if not isinstance(fact, str):
            raise TypeError(f"item {number}: expected a text, not {_shown(fact)}")
    return tuple(facts)


def _chunks(value: Any) -> tuple[Chunk, ...]:
    items = structured(value)
    if isinstance(items, Mapping):
        items = next((items[k] for k in ("documents", "chunks", "results") if k in items), items)
    chunks = []
    for number, item in enumerate(_list(items, "chunks"), 1):
        chunk = to_chunk(dict(item) if isinstance(item, Mapping) else item)
        if chunk is None:
            raise ValueError(f"item {number}: expected a content or a doc_uri, not {_shown(item)}")
        chunks.append(chunk)
    return tuple(chunks)


def _ground_truth(value: Any) -> tuple[Chunk, ...]:
    chunks = _chunks(value)
    for number, chunk in enumerate(chunks, 1):
        if chunk.doc_uri is None:
            raise ValueError(f"item {number}: a ground-truth chunk needs a doc_uri")
    return chunks


def _extractions(value: Any) -> tuple[Extraction, ...]:
    extractions = []
    for number, item in enumerate(_list(structured(value), "extractions"), 1):
        extraction = to_extraction(dict(item) if isinstance(item, Mapping) else item)
        if extraction is None:
            raise ValueError(f"item {number}: expected a value or a chunk_number")
        rank: Any = extraction.chunk_number
        if isinstance(rank, float):  # a data frame has no whole numbers beside empty cells
            extraction = replace(extraction, chunk_number=int(rank) if rank.is_integer() else None)
        elif not (rank is None or isinstance(rank, int)):
            raise ValueError(f"item {number}: chunk_number is not a number: {_shown(rank)}")
        extractions.append(extraction)
    return tuple(extractions)


def _mapping(value: Any) -> Mapping[str, Any]:
    mapping = structured(value)
    if not isinstance(mapping, Mapping):
        raise TypeError(f"expected a mapping, not {_shown(value)}")
    return mapping


def _usage(value: Any) -> Usage:
    usage = to_usage(structured(value))
    if usage is None:
        raise ValueError(
            f"expected {{'input_tokens': ..., 'output_tokens': ...}}, not {_shown(value)}"
        )
    return usage


def _seconds(value: Any) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"expected a number of seconds, not {_shown(value)}") from None
    if not 0 <= seconds < math.inf or isinstance(value, bool):
        raise ValueError(f"expected a number of seconds, not {_shown(value)}")
    return seconds


def _id(value: Any) -> str:
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _confidence(value: Any) -> float | str:
    if isinstance(value, (str, int, float)):  # `aggregated_confidence` reads it, as it does online
        return value
    raise ValueError(f"expected a number or HIGH, MEDIUM, LOW, not {_shown(value)}")


def _abstained(value: Any) -> str | None:
    return to_reason(value if isinstance(value, bool) else _text(value))


def _as_it_is(value: Any) -> Any:
    return value


def _trace(value: Any) -> Trace:
    return read_trace(structured(value))


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"expected a list of {what}, not {_shown(value)}")
    return list(value)


def _shown(value: Any) -> str:
    kind = type(value).__name__
    return (
        f"{kind} {value!r}"
        if isinstance(value, (int, float, str)) and len(repr(value)) < 60
        else kind
    )


READERS: dict[str, Callable[[Any], Any]] = {
    "request_id": _id,
    "request": _request,
    "response": _response,
    "retrieved_context": _chunks,
    "expected_facts": _facts,
    "expected_response": _text,
    "expected_retrieved_context": _ground_truth,
    "trace": _trace,
    "extractions": _extractions,
    "value": _as_it_is,
    "confidence": _confidence,
    "field_config": _mapping,
    "retrieval": _mapping,
    "attributes": _mapping,
    "usage": _usage,
    "latency_seconds": _seconds,
    "steps": lambda value: read_steps(structured(value)),
    "tools": lambda value: read_tools(structured(value)),
    "expected_trajectory": lambda value: read_steps(structured(value)),
    "abstained": _abstained,
}


def record_from(  # noqa: C901, PLR0912
    row: Mapping[str, Any] | Record,
    *,
    number: int = 1,
    place: str | None = None,
    prices: Mapping[str, tuple[float, ...]] | None = None,
) -> Record:
    """Read one row as a Record.

    Errors name the row by ``place``, or else by its 1-based ``number``. NaN in a cell means that
    the value is absent. A ``trace`` fills the columns that are missing; the cost of its model
    calls is computed with ``prices`` (USD per million tokens) or the built-in ones. A column that
    the schema does not have goes to ``attributes`` under its name.

    Raises:
        DataError: a value cannot be read, or the name of a column looks like a misspelling; the
            message names the row and the column.
    """
    if isinstance(row, Record):
        return row
    where = place or f"row {number}"
    if not isinstance(row, Mapping):
        raise DataError(f"{where}: expected a mapping, not {type(row).__name__}")
    fields: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for column, cell in row.items():
        value = plain(cell)
        if absent(value):
            continue
        read = READERS.get(column)
        try:
            if type(value) is not str:
                check_size(value)
            if read is None:
                others[column] = value
                continue
            fields[column] = read(value)
        except (TypeError, ValueError, AttributeError) as error:
            if column == "request" and isinstance(value, Mapping) and not absent(row.get("trace")):
                continue  # the app's arguments, in MLflow's frame of traces: the trace says more
            raise DataError(f"{where}, column {column!r}: {error}") from None
    fields = with_conversation(fields, others, structured, where)
    if others:
        check_names(others, fields, where, READERS)
        fields["attributes"] = {**others, **fields.get("attributes", {})}
    trace = fields.pop("trace", None)
    if trace is not None:
        fields = {**trace.priced(prices), **fields}
    if fields.get("expected_facts") is not None and fields.get("expected_response") is not None:
        raise DataError(
            f"{where}: a row may have expected_facts or expected_response, but not both"
        )
    if "steps" not in fields and (steps := steps_of_chat(fields.get("request"))):
        fields["steps"] = steps
    if "response" in fields and "value" not in fields:
        fields["value"] = fields["response"]
    return Record(**fields)
