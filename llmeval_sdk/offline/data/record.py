"""A row of a data set -> the Record that evaluators see, online and offline alike."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from llmeval_sdk.errors import DataError
from llmeval_sdk.model import Record
from llmeval_sdk.offline.data.columns import ELSEWHERE, READERS, absent, plain
from llmeval_sdk.offline.data.parsing import check_size


def record_from(
    row: Mapping[str, Any] | Record,
    *,
    number: int = 1,
    place: str | None = None,
    prices: Mapping[str, tuple[float, float]] | None = None,
) -> Record:
    """Read one row; ``place`` (else its 1-based ``number``) names it in errors.

    NaN in a cell is absent. What a ``trace`` tells fills the columns that are missing, with
    the cost of its model calls by ``prices`` (USD per million tokens) or the known ones. A column
    that is no column of the schema goes to ``attributes`` under its name.

    Raises:
        DataError: a value that cannot be read, or a column whose name looks like a slip; the
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
        read = READERS.get(column, _as_it_is)
        try:
            if type(value) is not str:
                check_size(value)
            if read is _as_it_is:
                others[column] = value
                continue
            fields[column] = read(value)
        except (TypeError, ValueError, AttributeError) as error:
            if column == "request" and isinstance(value, Mapping) and not absent(row.get("trace")):
                continue  # the app's arguments, in MLflow's frame of traces: the trace says more
            raise DataError(f"{where}, column {column!r}: {error}") from None
    if others:
        _check_names(others, fields, where)
        fields["attributes"] = {**others, **fields.get("attributes", {})}
    trace = fields.pop("trace", None)
    if trace is not None:
        fields = {**trace.priced(prices), **fields}
    if fields.get("expected_facts") is not None and fields.get("expected_response") is not None:
        raise DataError(f"{where}: give expected_facts or expected_response, not both")
    if "response" in fields and "value" not in fields:
        fields["value"] = fields["response"]
    return Record(**fields)


def _as_it_is(value: Any) -> Any:
    return value


def _check_names(others: Mapping[str, Any], fields: Mapping[str, Any], where: str) -> None:
    """Refuse a column that was meant to be one of ours; others are the data set's own."""
    for column in others:
        name = str(column)
        meant = ELSEWHERE.get(name.lower())
        if meant is None:
            close = get_close_matches(name.lower(), READERS, n=1, cutoff=0.85)
            meant = close[0] if close else None
        if meant is not None and meant not in fields:
            raise DataError(
                f"{where}: unknown column {name!r}: did you mean {meant!r}? Rename it, or put "
                "what is not to be evaluated into 'attributes'"
            )
