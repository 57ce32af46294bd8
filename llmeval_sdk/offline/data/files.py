"""Files of rows, read one row at a time: JSON lines, CSV and Parquet.

A line that cannot be read comes as a `DataError` in place of the row: whoever reads decides whether
it ends everything or is counted.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from llmeval_sdk.errors import ConfigurationError, DataError, missing_extra
from llmeval_sdk.offline.data.parsing import read_json


Found = tuple[str, Any]
"""Where a row stands, such as ``line 17``, and the row."""

BATCH = 1_000
"""Rows of a Parquet file that are in memory at a time."""
MAX_CELL = 1 << 27
"""Characters of one CSV cell; the csv module's own limit is 128 KB."""


def read_file(path: Path) -> tuple[int | None, Iterator[Found]]:
    """Return how many rows a file has, where that is known, and the rows.

    Raises:
        ConfigurationError: there is no such file, or it has a format that is not read.
        MissingExtraError: Parquet without pyarrow.
    """
    read = _READERS.get(path.suffix.lower())
    if read is None:
        raise ConfigurationError(
            f"{path}: cannot tell the format from {path.suffix or 'a name without suffix'!r}: "
            f"expected one of {', '.join(_READERS)}"
        )
    if not path.is_file():
        raise ConfigurationError(f"{path}: there is no such file")
    return read(path)


def _json_lines(path: Path) -> tuple[None, Iterator[Found]]:
    return None, _lines(path)


def _lines(path: Path) -> Iterator[Found]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            place = f"line {number}"
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")  # noqa: PLW2901 - a byte order mark
            if not line.strip():
                continue
            try:
                row = read_json(line)
            except ValueError as error:
                hint = "; a list over several lines? write one object a line" * (number == 1)
                row = DataError(f"{error}{hint}")
            yield place, row


def _json(path: Path) -> tuple[int | None, Iterator[Found]]:
    """Read ``.json``: JSON lines, or one list as a whole."""
    with path.open("rb") as file:
        begins = file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if begins != b"[":
        return _json_lines(path)
    try:
        rows = read_json(path.read_bytes())
    except ValueError as error:
        raise DataError(f"{path} {error}") from None
    return len(rows), ((f"row {number}", row) for number, row in enumerate(rows, 1))


def _csv(path: Path) -> tuple[None, Iterator[Found]]:
    return None, _cells(path)


def _cells(path: Path) -> Iterator[Found]:
    csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL))
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
        try:
            titles = next(reader, [])
            _check_titles(path, titles)
            for cells in reader:
                place = f"line {reader.line_num}"
                if not cells:
                    continue
                if len(cells) != len(titles):
                    found = f"has {len(cells)} cells where the header has {len(titles)}"
                    yield place, DataError(found)
                    continue
                row = zip(titles, cells, strict=True)
                yield place, {title: cell for title, cell in row if cell}
        except (csv.Error, UnicodeDecodeError) as error:
            raise DataError(f"{path}, line {reader.line_num + 1}: {error}") from None


def _check_titles(path: Path, titles: list[str]) -> None:
    twice = sorted({title for title in titles if titles.count(title) > 1})
    if twice:
        raise DataError(f"{path}, line 1: the column {twice[0]!r} is there twice")


def _parquet(path: Path) -> tuple[int, Iterator[Found]]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise missing_extra("reading Parquet", "pandas", "pyarrow") from None
    try:
        file = ParquetFile(path)
    except ArrowException as error:
        raise DataError(f"{path} is no Parquet file: {error}") from None

    def rows() -> Iterator[Found]:
        with file:
            number = 0
            for batch in file.iter_batches(BATCH):
                for row in batch.to_pylist():
                    number += 1
                    yield f"row {number}", row

    return file.metadata.num_rows, rows()


_READERS: dict[str, Callable[[Path], tuple[int | None, Iterator[Found]]]] = {
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _json,
    ".csv": _csv,
    ".tsv": _csv,
    ".parquet": _parquet,
}
