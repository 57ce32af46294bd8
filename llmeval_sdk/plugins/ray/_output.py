"""Writes the evaluated rows of a block as a Parquet file, in the order of the data."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from llmeval_sdk.offline.arrow import ArrowColumns, arrow_table
from llmeval_sdk.offline.report.row import Output, Row
from llmeval_sdk.offline.report.storage import LINE, Seal, write_row


ROW_GROUP = 1_000
"""Rows that are written at a time."""


class BlockOutput:
    """The file of a block: the evaluators' columns, and each row as a signed line of JSON.

    Rows are announced with `expect` in the order of the data and added when they are done. The
    file has its name once it is whole.
    """

    def __init__(self, path: Path, outputs: Mapping[str, Output], seal: Seal) -> None:
        import pyarrow as pa
        from pyarrow.parquet import ParquetWriter

        self._path = path
        self._beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        self._seal = seal
        self._columns = ArrowColumns(outputs)
        own = [pa.field("number", pa.int64()), pa.field(LINE, pa.binary())]
        self._schema = pa.schema([own[0], *self._columns.fields(), own[1]])
        self._writer = ParquetWriter(self._beside, self._schema)
        self._expected: deque[int] = deque()
        self._done: dict[int, Row] = {}
        self._rows: list[Row] = []

    def expect(self, number: int) -> None:
        """Say which row comes next."""
        self._expected.append(number)

    def add(self, row: Row) -> None:
        """Take a row that is done; it is written after those before it."""
        self._done[row.number] = row
        while self._expected and self._expected[0] in self._done:
            self._rows.append(self._done.pop(self._expected.popleft()))
        if len(self._rows) >= ROW_GROUP:
            self._write()

    def __enter__(self) -> BlockOutput:  # noqa: PYI034 - Self came with Python 3.11
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        if kind is None and self._rows:
            self._write()
        self._writer.close()
        if kind is None:
            self._beside.replace(self._path)
        else:
            self._beside.unlink(missing_ok=True)

    def _write(self) -> None:
        rows, self._rows = self._rows, []
        columns: list[Any] = [
            [row.number for row in rows],
            *self._columns.values(rows),
            [self._seal(write_row(row)) for row in rows],
        ]
        self._writer.write_table(arrow_table(columns, self._schema))
