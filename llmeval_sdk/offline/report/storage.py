"""Where the rows of a report are kept: in memory, in a file of JSON lines, or in a folder.

`Rows` keeps the rows of a run, in memory while they are few. `Report.save` writes a file with a
header, a line for each row as soon as it is done, and the aggregate at the end; an interrupted run
continues from its file. A run on Ray writes a folder with a Parquet file for each block of the
data, and reading it takes pyarrow alone.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import threading
import weakref
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from time import monotonic
from typing import IO, Any, NamedTuple, overload

from llmeval_sdk.errors import ConfigurationError, DataError, missing_extra
from llmeval_sdk.model import Chunk, Evaluation, Extraction, Failure, Record, Step, Usage
from llmeval_sdk.offline.report.aggregate import Aggregate, from_plain
from llmeval_sdk.offline.report.row import Row, whole_numbers
from llmeval_sdk.process import private
from llmeval_sdk.process.private import replace_text
from llmeval_sdk.process.reading import read_file
from llmeval_sdk.store.encode import dumps, evaluation_from, sparse


def write_row(row: Row) -> bytes:
    """Return a row as one line of JSON, as saved reports hold it."""
    plain = {
        "number": row.number,
        "digest": row.digest,
        "record": sparse(row.record),
        "evaluations": [_evaluation(each) for each in row.evaluations.values()],
    }
    if row.error is not None:
        plain["error"] = sparse(row.error)
    line = dumps(plain)
    assert line is not None
    return line.encode("utf-8", "backslashreplace") + b"\n"


def read_row(line: bytes) -> Row:
    """Read what `write_row` wrote; raises ``ValueError`` for anything else."""
    plain = json.loads(line)
    record = plain["record"]
    for name, kind in _NOUNS.items():
        if name in record:
            record[name] = tuple(kind(**item) for item in record[name])
    for name in ("expected_facts", "tools"):
        if name in record:
            record[name] = tuple(record[name])
    if "usage" in record:
        record["usage"] = Usage(**record["usage"])
    error = plain.get("error")
    return Row(
        Record(**record),
        {each["name"]: evaluation_from(each) for each in plain["evaluations"]},
        plain["number"],
        Failure(**error) if error else None,
        plain["digest"],
    )


_NOUNS = {
    "retrieved_context": Chunk,
    "expected_retrieved_context": Chunk,
    "extractions": Extraction,
    "steps": Step,
    "expected_trajectory": Step,
}


def _evaluation(evaluation: Evaluation) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "name": evaluation.name,
        "value": None,
        "explanation": None,
        "error": None,
    }
    plain |= sparse(evaluation)
    if evaluation.name in whole_numbers() and isinstance(evaluation.value, float):
        plain["value"] = int(evaluation.value)
    return plain


MAX_ROWS_IN_MEMORY = 5_000
"""Rows that are kept in memory; with more, all are in a file."""
_MAX_PENDING_BYTES = 1 << 20
_MAX_PENDING_SECONDS = 1.0
"""How much, and how long, a row may wait to be written."""


class Rows(Sequence[Row]):
    """Evaluated rows in the order of the data, whatever the order in which they were finished.

    In a file each is one line; here only its place and length are known, 24 bytes a row.

    Args:
        path: the file to append to, which is there; without it a temporary one, and only once it
            is needed.
        writable: False where the file's rows are only read.
    """

    def __init__(self, path: Path | None = None, *, writable: bool = True) -> None:
        self._held: list[Row] | None = [] if path is None else None
        self._file: IO[bytes] | None = None
        self._end = 0
        self._flushed = monotonic()
        self._pending = bytearray()
        self._numbers = array("q")
        self._starts = array("q")
        self._lengths = array("q")
        self._order: array[int] | None = None
        self._lock = threading.Lock()
        if path is not None:
            self._use(path.open("r+b" if writable else "rb", buffering=0))
            self._end = path.stat().st_size

    def append(self, row: Row) -> None:
        """Add a row; one of the same number takes the place of the earlier one when read."""
        self._order = None
        if self._held is not None:
            self._held.append(row)
            if len(self._held) > MAX_ROWS_IN_MEMORY:
                self._spill()
            return
        line = write_row(row)
        self.locate(row.number, self._end + len(self._pending), len(line))
        self._pending += line
        now = monotonic()
        if len(self._pending) >= _MAX_PENDING_BYTES or now - self._flushed > _MAX_PENDING_SECONDS:
            self._flushed = now
            self.flush()

    def locate(self, number: int, start: int, length: int) -> None:
        """Note where a row stands in the file."""
        self._order = None
        self._numbers.append(number)
        self._starts.append(start)
        self._lengths.append(length)

    def write(self, line: bytes) -> None:
        """Append a line that is no row."""
        self._pending += line
        self.flush()

    def flush(self) -> None:
        """Write what waits to the file."""
        if self._pending and self._file is not None:
            with self._lock:
                view = memoryview(bytes(self._pending))
                self._file.seek(self._end)
                while view:
                    written = self._file.write(view)
                    self._end += written
                    view = view[written:]
                self._pending.clear()

    def close(self) -> None:
        """Close the file, which some systems do not let anybody rename before."""
        if self._file is not None:
            self._file.close()

    def __len__(self) -> int:
        return len(self._held) if self._held is not None else len(self._sorted())

    @overload
    def __getitem__(self, place: int) -> Row: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Row]: ...
    def __getitem__(self, place: int | slice) -> Row | Sequence[Row]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        if self._held is not None:
            self._sort_held()
            return self._held[place]
        return self._read(self._sorted()[place])

    def __iter__(self) -> Iterator[Row]:
        if self._held is not None:
            self._sort_held()
            yield from tuple(self._held)
            return
        for index in self._sorted():
            yield self._read(index)

    def __repr__(self) -> str:
        return f"<{len(self):,} rows>"

    def _sort_held(self) -> None:
        if self._order is None and self._held is not None:
            self._held.sort(key=lambda row: row.number)
            self._order = array("q")

    def _sorted(self) -> array[int]:
        """Return the index of each row, in the order of the data; of two, the later."""
        if self._order is None:
            numbers = self._numbers
            order = array("q", range(len(numbers)))
            if any(numbers[i] >= numbers[i + 1] for i in range(len(numbers) - 1)):
                latest = {number: index for index, number in enumerate(numbers)}
                order = array("q", (latest[number] for number in sorted(latest)))
            self._order = order
        return self._order

    def read_at(self, start: int, length: int) -> Row:
        """Read the row that stands somewhere in the file."""
        self.flush()
        assert self._file is not None
        if hasattr(os, "pread"):  # forked processes share where a file is read
            return read_row(os.pread(self._file.fileno(), length, start))
        with self._lock:
            self._file.seek(start)
            return read_row(self._file.read(length))

    def _read(self, index: int) -> Row:
        return self.read_at(self._starts[index], self._lengths[index])

    def _spill(self) -> None:
        held, self._held = self._held or [], None
        self._use(tempfile.TemporaryFile(buffering=0, prefix="llmeval-rows-"))  # noqa: SIM115
        for row in held:
            self.append(row)

    def _use(self, file: IO[bytes]) -> None:
        self._file = file
        weakref.finalize(self, file.close)


VERSION = 1
_MARK = b'{"llmeval_report":'
_BEGINS = re.compile(rb'\{"number":(\d+),"digest":"([0-9a-f]*)"')


class SavedLine(NamedTuple):
    """Where a row stands in the file."""

    number: int
    digest: str
    start: int
    length: int


class Saved(NamedTuple):
    """What a file holds."""

    header: Mapping[str, Any]
    lines: list[SavedLine]
    end: Mapping[str, Any] | None
    """The last line; ``None`` if the run did not finish."""
    length: int
    """Bytes up to the last whole row."""


def begin_file(path: Path, header: Mapping[str, object]) -> Rows:
    """Start a file anew.

    Raises:
        ConfigurationError: the file cannot be written, or it is not a report.
    """
    _check_overwritable(path)
    try:
        private.make_folder(path.parent)
        path.unlink(missing_ok=True)  # whoever reads the old one goes on reading it
        private.make_file(path)
        rows = Rows(path)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from None
    rows.write(_line({"llmeval_report": VERSION, **header}))
    return rows


def _check_overwritable(path: Path) -> None:
    """Refuse to write over what is not a report, such as the data."""
    try:
        with path.open("rb") as file:
            begins = file.read(len(_MARK))
    except OSError:
        return
    if begins not in (_MARK, b""):
        raise ConfigurationError(f"{path} is not a report and is not overwritten: name another one")


def finish_file(rows: Rows, aggregate: Aggregate, about: Mapping[str, object]) -> None:
    """Write the last line."""
    rows.write(_line({"end": aggregate.to_plain(), **about}))


def _line(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, separators=(",", ":"), default=str).encode() + b"\n"


MAX_LINE_BYTES = 64 << 20
"""Bytes of the longest line that is read: more than one row is no report of ours."""
_MAX_HEADER_BYTES = 1 << 20
_MAX_END_BYTES = 4 << 20


class Ends(NamedTuple):
    """The first and the last line of a file."""

    header: Mapping[str, Any]
    end: Mapping[str, Any] | None
    """``None`` if the run did not finish."""


def file_ends(path: Path) -> Ends:
    """Read the first and the last line of a file, and none of its rows.

    Raises:
        ConfigurationError: there is no such file.
        DataError: it is not a report.
    """
    try:
        with path.open("rb") as file:
            header = _header(path, file.readline(_MAX_HEADER_BYTES))
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _MAX_END_BYTES))
            last = file.read(_MAX_END_BYTES).rstrip(b"\n").rpartition(b"\n")[2]
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    if not last.startswith(b'{"end":'):
        return Ends(header, None)
    try:
        return Ends(header, json.loads(last))
    except (ValueError, RecursionError):
        raise DataError(f"{path} is damaged: its last line cannot be read") from None


def _header(path: Path, line: bytes) -> dict[str, Any]:
    try:
        header: dict[str, Any] = json.loads(line)
        if header["llmeval_report"] == VERSION:
            return header
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise DataError(f"{path} is not a report: write one with Report.save() or --save")


def _scan_file(path: Path) -> Saved:
    """Find the rows of a file without reading them.

    Raises:
        ConfigurationError: there is no such file.
        DataError: it is not a report.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
    with file:
        first = file.readline(MAX_LINE_BYTES)
        header = _header(path, first)
        lines: list[SavedLine] = []
        end, at = None, len(first)
        for line in iter(partial(file.readline, MAX_LINE_BYTES), b""):
            if not line.endswith(b"\n"):
                break  # the process was killed while it wrote
            found = _BEGINS.match(line)
            if found is not None:
                lines.append(SavedLine(int(found[1]), found[2].decode(), at, len(line)))
            elif line.startswith(b'{"end":'):
                end = json.loads(line)
                break
            at += len(line)
    return Saved(header, lines, end, at)


def load_file(path: Path) -> tuple[Saved, Rows, Aggregate]:
    """Read a saved run; an interrupted one is summed up from its rows."""
    saved = _scan_file(path)
    rows = Rows(path, writable=False)
    for line in saved.lines:
        rows.locate(line.number, line.start, line.length)
    if saved.end is not None:
        return saved, rows, from_plain(saved.end["end"])
    aggregate = Aggregate()
    for row in rows:
        aggregate.add(row)
    aggregate.put_in_order(saved.header.get("evaluators", ()))
    return saved, rows, aggregate


def check_resumable(path: Path, before: Mapping[str, object], now: Mapping[str, object]) -> None:
    """Compare the header of an interrupted run with that of the run that goes on with it.

    Raises:
        ConfigurationError: the run was of other evaluators.
    """
    for name in ("evaluators", "judge", "decisions", "thresholds"):
        if before.get(name) != now.get(name):
            raise ConfigurationError(
                f"{path} cannot be resumed: its {name} was {before.get(name)}, now it is "
                f"{now.get(name)}; start anew without resume"
            )


class Resumed:
    """The rows of an interrupted run that need not be evaluated again, from the file that is named.

    Raises:
        ConfigurationError: the run was of other evaluators.
    """

    def __init__(self, path: Path, header: Mapping[str, object]) -> None:
        saved = _scan_file(path)
        check_resumable(path, saved.header, header)
        os.truncate(path, saved.length)
        self.rows = Rows(path)
        self._lines = {line.number: line for line in saved.lines}

    def take(self, number: int, digest: str) -> Row | None:
        """Return a row that is done, unless it is another one now or something failed on it."""
        line = self._lines.pop(number, None)
        if line is None or line.digest != digest:
            return None
        row = self.rows.read_at(line.start, line.length)
        if row.error is not None or any(each.error for each in row.evaluations.values()):
            return None
        self.rows.locate(line.number, line.start, line.length)
        return row


def write_file(
    path: Path,
    header: Mapping[str, object],
    rows: Iterator[Row],
    aggregate: Aggregate,
    *,
    replaced: Rows | None = None,
) -> None:
    """Write a report in one go; the file is there whole or not at all.

    Rows that are read from the file that is there now are given as ``replaced``: they are closed.

    Raises:
        ConfigurationError: the file cannot be written.
    """
    _check_overwritable(path)
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        written = begin_file(beside, header)
        for row in rows:
            written.append(row)
        finish_file(written, aggregate, {})
        for each in (written, replaced):
            if each is not None:
                each.close()
        try:
            beside.replace(path)
        except OSError as error:
            raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from None
    finally:
        beside.unlink(missing_ok=True)


RUN = "run.json"
"""The file that says what the run is, from its start on."""
REPORT = "report.json"
"""The file that says what came of the run, once it is finished."""
LINE = "line"
"""The column of a block's file that has the whole row, signed."""


class SavedBlock(NamedTuple):
    """One block of the data and its file."""

    key: str
    first: int
    """How many rows of the data come before it."""
    length: int
    """How many rows of the data it has, with those that could not be read."""
    rows: int
    """How many rows are in its file."""
    dropped: tuple[int, ...] = ()
    """Those of them that are not part of the report, since an earlier row has their id."""


class TemporaryFolder:
    """A folder that is removed with the last that holds it."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp("-llmeval"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class BlockRows(Sequence[Row]):
    """The rows of all blocks, in the order of the data, read when they are asked for.

    Args:
        folder: where the files are.
        blocks: in the order of the data.
        held: what has to live as long as the rows: a `TemporaryFolder`.
    """

    def __init__(self, folder: Path, blocks: Sequence[SavedBlock], held: object = None) -> None:
        self._folder = folder
        self._blocks = blocks
        self._held = held
        counts = (block.rows - len(block.dropped) for block in blocks)
        self._ends = list(accumulate(counts))
        self._read: tuple[int, range, list[Row]] = (-1, range(0), [])
        """The rows that were read last: the number of their block, their places in it."""

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @overload
    def __getitem__(self, place: int) -> Row: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Row]: ...
    def __getitem__(self, place: int | slice) -> Row | Sequence[Row]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        at = range(len(self))[place]
        number = bisect_right(self._ends, at)
        at -= self._ends[number - 1] if number else 0
        if self._read[0] != number or at not in self._read[1]:
            self._read = (number, *_around(self._folder, self._blocks[number], at))
        return self._read[2][at - self._read[1].start]

    def __iter__(self) -> Iterator[Row]:
        for block in self._blocks:
            yield from rows_of(self._folder, block)

    def __repr__(self) -> str:
        return f"<{len(self):,} rows in {len(self._blocks):,} blocks>"


def rows_of(folder: Path, block: SavedBlock) -> Iterator[Row]:
    """Yield the rows of a block that are part of the report, with their numbers in the data."""
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise missing_extra("reading the report of a run on Ray", "pandas", "pyarrow") from None
    path = folder / f"{block.key}.parquet"
    dropped = frozenset(block.dropped)
    try:
        with ParquetFile(path) as file:
            for batch in file.iter_batches(1_000, columns=[LINE]):
                for line in batch.column(0).to_pylist():
                    row = read_row(line)
                    if row.number not in dropped:
                        yield replace(row, number=block.first + row.number)
    except (ArrowException, OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {error}") from None


def _around(folder: Path, block: SavedBlock, at: int) -> tuple[range, list[Row]]:
    """Return some rows of a block, among them that at a place, and the places that they have."""
    rows: list[Row] = []
    for place, row in enumerate(rows_of(folder, block)):
        if len(rows) == _ROWS_READ_AHEAD:
            if place > at:
                break
            rows = []
        rows.append(row)
        first = place + 1 - len(rows)
    return range(first, first + len(rows)), rows


_ROWS_READ_AHEAD = 200
"""Rows that are kept for the next access."""


def write_json(path: Path, content: Mapping[str, object]) -> None:
    """Write a file of the folder, whole or not at all."""
    replace_text(path, json.dumps(content, default=str) + "\n")


def read_run(folder: Path) -> dict[str, Any]:
    """Read what a run is.

    Raises:
        DataError: the folder holds no run.
    """
    try:
        header: dict[str, Any] = json.loads(read_file(folder / RUN))
        if "llmeval_report" in header:
            return header
    except (OSError, ValueError):
        pass
    raise DataError(f"{folder} is not the folder of a run on Ray")


def finish_folder(
    folder: Path, blocks: Sequence[SavedBlock], aggregate: Aggregate, about: Mapping[str, object]
) -> None:
    """Write what came of a run."""
    write_json(folder / REPORT, {"blocks": blocks, "end": aggregate.to_plain(), **about})


def folder_ends(folder: Path) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return what a run is, and what came of it; ``None`` for the latter if it did not finish.

    Raises:
        DataError: the folder holds no run.
    """
    header = read_run(folder)
    try:
        return header, json.loads(read_file(folder / REPORT))
    except FileNotFoundError:
        return header, None
    except (OSError, ValueError) as error:
        raise DataError(f"{folder / REPORT} cannot be read: {error}") from None


def load_folder(folder: Path) -> tuple[Mapping[str, Any], BlockRows, Aggregate]:
    """Read a finished run: what it is, its rows, and what they say together.

    Raises:
        DataError: the folder holds no run.
        ConfigurationError: the run did not finish.
    """
    header, end = folder_ends(folder)
    if end is None:
        raise ConfigurationError(
            f"the run in {folder} did not finish: go on with resume=True (--resume)"
        )
    blocks = [SavedBlock(*block) for block in end["blocks"]]
    return {**header, **end}, BlockRows(folder, blocks), from_plain(end["end"])
