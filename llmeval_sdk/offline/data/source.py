"""Opens data of any kind and yields its rows, each with the place where it stands.

Files are read one row at a time. A line that cannot be read is yielded as a `DataError` in place of
its row, and the caller decides whether it ends the run or is only counted.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from llmeval_sdk.errors import ConfigurationError, DataError, missing_extra
from llmeval_sdk.model import Record
from llmeval_sdk.process.reading import MAX_EMPTY_LINES, BadLine, numbered_lines, read_file


MAX_DEPTH = 100
"""Lists and mappings within each other, in one cell."""
MAX_BITS = 4_096
"""Of a whole number: about 1,200 digits. Python itself refuses to write more than 4,300."""


def read_json(text: str | bytes) -> Any:
    """Read JSON.

    Raises:
        ValueError: the text cannot be read. The message is the end of a sentence that says why.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError(_DEEP) from None
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start + 1} is not UTF-8") from None
    except json.JSONDecodeError as error:
        at = f"line {error.lineno}, column" if error.lineno > 1 else "column"
        what = error.msg.removesuffix(" at")
        raise ValueError(f"is not JSON: {what} at {at} {error.colno}") from None
    except ValueError:  # the only other one that the decoder raises
        raise ValueError(_LONG) from None


def check_size(value: Any) -> None:
    """Raise ``ValueError`` for a value that is nested too deep or holds too long a number."""
    level, depth = [value], 0
    seen: set[int] = set()
    while level:
        if depth > MAX_DEPTH:
            raise ValueError(_DEEP)
        inner: list[Any] = []
        for item in level:
            kind = type(item)
            if kind in _SCALAR:
                continue
            if kind is int:
                if item.bit_length() > MAX_BITS:
                    raise ValueError(_LONG)
            elif id(item) not in seen:  # each container once, however often it is held
                if kind is dict:
                    seen.add(id(item))
                    inner += item.values()
                elif kind is list or kind is tuple:
                    seen.add(id(item))
                    inner += item
        level, depth = inner, depth + 1


def settled(value: object) -> Any:
    """Return a value whose mappings and sequences hold what they have, and make nothing up later.

    A mapping or a sequence of another type than Python's own may have no end.

    Raises:
        ValueError: there are more than `MAX_ITEMS` in such ones, or they are nested too deep.
    """
    return _settled(value, 0, {}, count(1))


def _settled(value: object, depth: int, known: dict[int, Any], items: Iterator[int]) -> Any:
    kind = type(value)
    if kind in _SCALAR or kind is int or id(value) in known:
        return known.get(id(value), value)
    if depth > MAX_DEPTH:
        raise ValueError(_DEEP)
    pairs: Iterable[tuple[object, object]]
    if isinstance(value, Mapping):
        pairs = value.items()
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray, memoryview)):
        pairs = enumerate(value)
    else:
        return value
    known[id(value)] = value
    is_own = kind in (dict, list, tuple)
    settled_items: dict[object, Any] = {}
    is_same = True
    for key, item in pairs:
        if not is_own and next(items) > MAX_ITEMS:
            raise ValueError(f"has no end, or more than {MAX_ITEMS:,} items in a {kind.__name__}")
        new = settled_items[key] = _settled(item, depth + 1, known, items)
        is_same = is_same and new is item
    if not is_same or not (is_own or isinstance(value, (dict, list, tuple))):
        held = settled_items if isinstance(value, Mapping) else list(settled_items.values())
        known[id(value)] = tuple(held) if isinstance(value, tuple) else held
    return known[id(value)]


MAX_ITEMS = 1_000_000
"""Of mappings and sequences of other types than Python's own, in one cell."""
MAX_COLUMNS = 100_000
"""Of a row that is a mapping of another type."""
_SCALAR = frozenset((str, float, bool, type(None)))
_DEEP = f"is nested too deep: at most {MAX_DEPTH} lists and mappings within each other"
_LONG = "holds a number of too many digits: write it as a text"


PlacedRow = tuple[str, Any]
"""The place of a row, such as ``line 17``, and the row itself."""

BATCH = 1_000
"""Rows of a Parquet file that are in memory at a time."""
MAX_CELL = 1 << 27
"""Characters of one CSV cell; the csv module's own limit is 128 KB."""
MAX_LINE = 64 << 20
"""Bytes of one line, or characters of CSV."""
MAX_LIST = 128 << 20
"""Bytes of a file that holds one list, which is read as a whole."""


def _read_file(path: Path) -> tuple[int | None, Iterator[PlacedRow]]:
    """Return the number of rows in a file, if it is known, and the rows.

    Raises:
        ConfigurationError: the file does not exist, or its format is not supported.
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


def _json_lines(path: Path) -> tuple[None, Iterator[PlacedRow]]:
    return None, _lines(path)


def _lines(path: Path) -> Iterator[PlacedRow]:
    with path.open("rb") as file:
        for number, line in numbered_lines(file, most=MAX_LINE):
            place = f"line {number}"
            if isinstance(line, BadLine):
                if line.is_end:
                    raise DataError(f"{path}, {place} {line.why}")
                yield place, DataError(line.why)
                continue
            try:
                row = read_json(line)
            except ValueError as error:
                hint = "; a list over several lines? write one object a line" * (number == 1)
                row = DataError(f"{error}{hint}")
            yield place, row


def _json(path: Path) -> tuple[int | None, Iterator[PlacedRow]]:
    """Read ``.json``: JSON lines, or one list as a whole."""
    with path.open("rb") as file:
        begins = file.read(64).lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if begins != b"[":
        return _json_lines(path)
    try:
        rows = read_json(read_file(path, most=MAX_LIST))
    except OSError as error:
        raise DataError(f"{path} cannot be read as one list: {error.strerror}") from None
    except ValueError as error:
        raise DataError(f"{path} {error}") from None
    return len(rows), ((f"row {number}", row) for number, row in enumerate(rows, 1))


def _csv(path: Path) -> tuple[None, Iterator[PlacedRow]]:
    return None, _cells(path)


def _cells(path: Path) -> Iterator[PlacedRow]:
    csv.field_size_limit(max(csv.field_size_limit(), MAX_CELL))
    with path.open(encoding="utf-8-sig", newline="") as file:
        delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
        reader = csv.reader(_bounded(file), delimiter=delimiter)
        try:
            titles = next(reader, [])
            _check_titles(path, titles)
            for cells in reader:
                place = f"line {reader.line_num}"
                if not cells:
                    continue
                if len(cells) != len(titles):
                    problem = f"has {len(cells)} cells where the header has {len(titles)}"
                    yield place, DataError(problem)
                    continue
                row = zip(titles, cells, strict=True)
                yield place, {title: cell or None for title, cell in row}
        except (csv.Error, UnicodeDecodeError) as error:
            raise DataError(f"{path}, line {reader.line_num + 1}: {error}") from None


def _bounded(file: TextIO) -> Iterator[str]:
    """Yield the lines of a file; raises `csv.Error` for one that is too long, or too many empty."""
    empty = 0
    while line := file.readline(MAX_LINE + 1):
        empty = empty + 1 if line.isspace() else 0
        if len(line) > MAX_LINE:
            raise csv.Error(f"it has more than {MAX_LINE >> 20} million characters")
        if empty > MAX_EMPTY_LINES:
            raise csv.Error(f"it is as empty as the {MAX_EMPTY_LINES:,} before")
        yield line


def _check_titles(path: Path, titles: list[str]) -> None:
    twice = sorted(title for title, times in Counter(titles).items() if times > 1)
    if twice:
        raise DataError(f"{path}, line 1: the column {twice[0]!r} appears twice")


def _parquet(path: Path) -> tuple[int, Iterator[PlacedRow]]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise missing_extra("reading Parquet", "pandas", "pyarrow") from None
    try:
        file = ParquetFile(path)
    except ArrowException as error:
        raise DataError(f"{path} is not a Parquet file: {error}") from None

    def rows() -> Iterator[PlacedRow]:
        with file:
            number = 0
            for batch in file.iter_batches(BATCH):
                for row in batch.to_pylist():
                    number += 1
                    yield f"row {number}", row

    return file.metadata.num_rows, rows()


_READERS: dict[str, Callable[[Path], tuple[int | None, Iterator[PlacedRow]]]] = {
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _json,
    ".csv": _csv,
    ".tsv": _csv,
    ".parquet": _parquet,
}


class Located(NamedTuple):
    """One row of the data: a mapping, a Record, or a `DataError` if the row is broken."""

    number: int
    """Counted from 1, in the order of the data."""
    place: str
    """As error messages name it: ``data.jsonl, line 17``."""
    row: Any


@dataclass(frozen=True, slots=True)
class Data:
    """Data that is open; its rows can be read once."""

    name: str
    """The name of the file; empty for data that is no file."""
    count: int | None
    """How many rows there are, if that is known."""
    rows: Iterator[Located]


def open_data(data: object) -> Data:
    """Open a list of rows, a data frame, a data set, an iterable or a file's path.

    pandas, polars, pyarrow and Hugging Face are known by their methods: none is imported.

    Raises:
        ConfigurationError: the data is none of these; the message says what to pass.
    """
    if isinstance(data, (str, os.PathLike)):
        path = Path(data)
        count, located = _read_file(path)
        rows = (
            Located(number, f"{path}, {place}", row)
            for number, (place, row) in enumerate(located, 1)
        )
        return Data(path.name, count, rows)
    if isinstance(data, Mapping):
        some = ", ".join(map(repr, islice(data, 3)))
        raise ConfigurationError(
            f"a mapping with the keys {some} is not a data set: pass a list of rows, or one split "
            "of it, such as data['test']"
        )
    if isinstance(data, Record):
        raise ConfigurationError("one Record is not a data set: pass a list, [record]")
    count = len(data) if hasattr(data, "__len__") else None
    numbered = enumerate(_rows(data), 1)
    return Data("", count, (Located(number, place, row) for number, (place, row) in numbered))


def _rows(data: object) -> Iterator[PlacedRow]:
    for number, row in enumerate(_each(data), 1):
        place = f"row {number}"
        if isinstance(row, Mapping) and type(row) is not dict:
            cells = dict(islice(row.items(), MAX_COLUMNS + 1))
            is_endless = len(cells) > MAX_COLUMNS
            yield place, DataError(_ENDLESS) if is_endless else cells
        elif isinstance(row, (Mapping, Record, DataError)):
            yield place, row
        else:
            yield place, DataError(f"expected a mapping or a Record, not {type(row).__name__}")


_ENDLESS = f"has no end, or more than {MAX_COLUMNS:,} columns"


def stem_of(data: object) -> str:
    """Return what an experiment is called after, where it was given no name."""
    if not isinstance(data, (str, os.PathLike)):
        return "rows"
    path = Path(data)
    if re.fullmatch(r"v\d{4,}", path.stem):  # a version of a golden set
        return f"{path.parent.name}-{path.stem}"
    before = path.name.partition("*")[0]
    name = path.stem if before == path.name else before.strip("-_.") or path.parent.name
    return name or "rows"


def is_ray_dataset(data: object) -> bool:
    """Say whether data is a ``ray.data.Dataset``, without importing Ray."""
    return type(data).__module__.startswith("ray.data.")


def _each(data: Any) -> Iterable[Any]:
    if is_ray_dataset(data):
        raise ConfigurationError(
            "a ray.data.Dataset is evaluated by Ray: pass it to evaluate() without engine='local'"
        )
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
        f"{kind} is not a data set{hint}; expected a list of rows, a data frame, a data set or the "
        "path of a .jsonl, .csv or .parquet file"
    )
