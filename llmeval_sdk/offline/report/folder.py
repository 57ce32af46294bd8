"""A run's folder: what the run is, a Parquet file for each block of the data, and what came of it.

Ray writes it, each block in the process that evaluated it. To read it takes pyarrow alone.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import weakref
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, overload

from llmeval_sdk.errors import ConfigurationError, DataError, missing_extra
from llmeval_sdk.offline.report.aggregate import Aggregate, from_plain
from llmeval_sdk.offline.report.row import Row
from llmeval_sdk.offline.report.table import read_row
from llmeval_sdk.process.private import replace_text


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
        if len(rows) == _TOGETHER:
            if place > at:
                break
            rows = []
        rows.append(row)
        first = place + 1 - len(rows)
    return range(first, first + len(rows)), rows


_TOGETHER = 200
"""Rows that are kept for the next access."""


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a file of the folder, whole or not at all."""
    replace_text(path, json.dumps(content, default=str) + "\n")


def read_run(folder: Path) -> dict[str, Any]:
    """Read what a run is.

    Raises:
        DataError: the folder holds no run.
    """
    try:
        header: dict[str, Any] = json.loads((folder / RUN).read_bytes())
        if "llmeval_report" in header:
            return header
    except (OSError, ValueError):
        pass
    raise DataError(f"{folder} is not the folder of a run on Ray")


def finish(
    folder: Path, blocks: Sequence[SavedBlock], aggregate: Aggregate, about: Mapping[str, Any]
) -> None:
    """Write what came of a run."""
    write_json(folder / REPORT, {"blocks": blocks, "end": aggregate.to_plain(), **about})


def ends(folder: Path) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return what a run is, and what came of it; ``None`` for the latter if it did not finish.

    Raises:
        DataError: the folder holds no run.
    """
    header = read_run(folder)
    try:
        return header, json.loads((folder / REPORT).read_bytes())
    except FileNotFoundError:
        return header, None
    except (OSError, ValueError) as error:
        raise DataError(f"{folder / REPORT} cannot be read: {error}") from None


def load(folder: Path) -> tuple[Mapping[str, Any], BlockRows, Aggregate]:
    """Read a finished run: what it is, its rows, and what they say together.

    Raises:
        DataError: the folder holds no run.
        ConfigurationError: the run did not finish.
    """
    header, end = ends(folder)
    if end is None:
        raise ConfigurationError(
            f"the run in {folder} did not finish: go on with resume=True (--resume)"
        )
    blocks = [SavedBlock(*block) for block in end["blocks"]]
    return {**header, **end}, BlockRows(folder, blocks), from_plain(end["end"])
