"""The rows of a run, in memory while they are few and in a file of JSON lines from then on.

A line leaves out what is absent or has its default. An evaluation, however, has ``value``,
``explanation`` and ``error`` on every line, as null where there is none.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import weakref
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import Any, overload

from llmeval_sdk.model import Chunk, Evaluation, Extraction, Failure, Record, Step, Usage
from llmeval_sdk.offline.report.outputs import whole_numbers
from llmeval_sdk.offline.report.row import Row
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


HELD = 5_000
"""Rows that are kept in memory; with more, all are in a file."""
_BUFFER = 1 << 20
_SECONDS = 1.0
"""How much, and how long, a row may wait to be written."""


class Rows(Sequence[Row]):
    """Evaluated rows in the order of the data, whatever the order in which they were finished.

    In a file each is one line; here only its place and length are known, 24 bytes a row.

    Args:
        path: the file to append to; without it a temporary one, and only once it is needed.
        writable: False where the file's rows are only read.
        seal: signs each line of a row.
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        writable: bool = True,
        seal: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self._seal = seal
        self._held: list[Row] | None = [] if path is None else None
        self._file: int | None = None
        self._end = 0
        self._flushed = monotonic()
        self._pending = bytearray()
        self._numbers = array("q")
        self._starts = array("q")
        self._lengths = array("q")
        self._order: array[int] | None = None
        self._lock = threading.Lock()
        if path is not None:
            flags = os.O_RDWR | os.O_CREAT if writable else os.O_RDONLY
            self._use(os.open(path, flags, 0o600))
            self._end = os.lseek(self._file or 0, 0, os.SEEK_END)

    def append(self, row: Row) -> None:
        """Add a row; one of the same number takes the place of the earlier one when read."""
        self._order = None
        if self._held is not None:
            self._held.append(row)
            if len(self._held) > HELD:
                self._spill()
            return
        line = write_row(row)
        if self._seal is not None:
            line = self._seal(line)
        self.locate(row.number, self._end + len(self._pending), len(line))
        self._pending += line
        now = monotonic()
        if len(self._pending) >= _BUFFER or now - self._flushed > _SECONDS:
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
                while view:
                    written = os.pwrite(self._file, view, self._end)
                    self._end += written
                    view = view[written:]
                self._pending.clear()

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
        return read_row(self.line_at(start, length))

    def line_at(self, start: int, length: int) -> bytes:
        """Return the line that stands somewhere in the file."""
        self.flush()
        assert self._file is not None
        return os.pread(self._file, length, start)

    def _read(self, index: int) -> Row:
        return self.read_at(self._starts[index], self._lengths[index])

    def _spill(self) -> None:
        held, self._held = self._held or [], None
        file, name = tempfile.mkstemp(prefix="llmeval-rows-", suffix=".jsonl")
        Path(name).unlink()
        self._use(file)
        for row in held:
            self.append(row)

    def _use(self, file: int) -> None:
        self._file = file
        weakref.finalize(self, os.close, file)
