"""Data of any kind -> rows that know where they stand."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from llmeval_sdk.errors import ConfigurationError, DataError
from llmeval_sdk.model import Record
from llmeval_sdk.offline.data.files import Found, read_file


class Located(NamedTuple):
    """One row as it was found: a mapping, a Record, or a `DataError` where it is broken."""

    number: int
    """From 1 on, in the order of the data."""
    place: str
    """As error messages name it: ``data.jsonl, line 17``."""
    row: Any


@dataclass(frozen=True, slots=True)
class Data:
    """Rows to be read once."""

    name: str
    """File name, or empty."""
    count: int | None
    """How many there are, where that is known."""
    rows: Iterator[Located]


def open_data(data: Any) -> Data:
    """Open a list of rows, a data frame, a data set, an iterable or a file's path.

    pandas, polars, pyarrow and Hugging Face are known by their methods: none is imported.

    Raises:
        ConfigurationError: it is none of these; the message says what to pass.
    """
    if isinstance(data, (str, os.PathLike)):
        path = Path(data)
        count, found = read_file(path)
        rows = (
            Located(number, f"{path}, {place}", row) for number, (place, row) in enumerate(found, 1)
        )
        return Data(path.name, count, rows)
    if isinstance(data, Mapping):
        some = ", ".join(map(repr, list(data)[:3]))
        raise ConfigurationError(
            f"a mapping with the keys {some} is no data set: pass a list of rows, or one split of "
            "it, such as data['test']"
        )
    if isinstance(data, Record):
        raise ConfigurationError("one Record is no data set: pass a list, [record]")
    count = len(data) if hasattr(data, "__len__") else None
    numbered = enumerate(_rows(data), 1)
    return Data("", count, (Located(number, place, row) for number, (place, row) in numbered))


def _rows(data: Any) -> Iterator[Found]:
    for number, row in enumerate(_each(data), 1):
        place = f"row {number}"
        if isinstance(row, (Mapping, Record, DataError)):
            yield place, row
        else:
            yield place, DataError(f"expected a mapping or a Record, not {type(row).__name__}")


def _each(data: Any) -> Iterable[Any]:
    if hasattr(data, "iter_rows"):  # polars
        return data.iter_rows(named=True)  # type: ignore[no-any-return]
    if hasattr(data, "itertuples"):  # pandas
        columns = [str(column) for column in data.columns]
        return (
            dict(zip(columns, row, strict=True)) for row in data.itertuples(index=False, name=None)
        )
    if hasattr(data, "with_format") and hasattr(data, "features"):  # Hugging Face
        return data.with_format(None)  # type: ignore[no-any-return]  # not as tensors
    if hasattr(data, "to_batches"):  # pyarrow
        return (row for batch in data.to_batches(max_chunksize=1_000) for row in batch.to_pylist())
    if isinstance(data, Iterable):  # lists, generators
        return data
    kind = type(data).__name__
    hint = ": collect() it first" if hasattr(data, "collect") else ""
    raise ConfigurationError(
        f"{kind} is no data set{hint}; expected a list of rows, a data frame, a data set or the "
        "path of a .jsonl, .csv or .parquet file"
    )
