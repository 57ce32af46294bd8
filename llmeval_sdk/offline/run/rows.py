"""Rows on their way into a run and out of it.

On the way in, bad rows are reported, and all rows are read before the first one is paid for. On
the way out, rows go to memory or a file and into the aggregate, while a bar shows the progress.
"""

from __future__ import annotations

import builtins
import pickle
import sys
import tempfile
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError, DataError
from llmeval_sdk.model import Record
from llmeval_sdk.model.records import OWNERS, with_evidence
from llmeval_sdk.offline.data.exported import is_exported, is_failed, is_part, record_of_row
from llmeval_sdk.offline.data.record import record_from
from llmeval_sdk.offline.data.source import Data
from llmeval_sdk.offline.report.aggregate import Aggregate
from llmeval_sdk.offline.report.row import Row, digest_of
from llmeval_sdk.offline.report.storage import (
    Resumed,
    Rows,
    begin_file,
    finish_file,
    load_file,
    write_file,
)
from llmeval_sdk.offline.run.work import Chosen, InputRow
from llmeval_sdk.tracing.internals import marked


SPOOLED_BYTES = 64 << 20
"""Rows that wait for a judge stay in memory up to this size, else in a temporary file."""
MAX_PROBLEMS = 20
"""How many problems of skipped rows a report keeps."""


class BadRows:
    """Rows that cannot be read. The first one ends the run, unless bad rows are skipped."""

    def __init__(self, *, skip: bool) -> None:
        self.skip = skip
        self.count = 0
        self.problems: list[str] = []

    def add(self, error: DataError, number: int, *, leave_out: bool = False) -> None:
        """Count a bad row or raise its error; requests that failed live are left out."""
        if not (self.skip or leave_out):
            raise error
        self.count += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(str(error))


def good_rows(
    data: Data,
    chosen: Chosen,
    bad: BadRows,
    *,
    answered: bool,
    digests: bool,
    unique: bool = True,
    settings: Settings,
) -> Iterator[InputRow]:
    """Yield the rows that can be evaluated; ``unique`` refuses an id that appears again.

    Of images and files in rows with an answer only markers are kept, as online. An app that has
    still to answer gets them.
    """
    is_marked = answered and settings.images != "keep"
    seen: set[int] = set()
    for number, place, row in data.rows:
        try:
            if isinstance(row, DataError):
                raise DataError(f"{place}: {row}")  # noqa: TRY301
            if is_exported(row):
                if is_part(row):
                    continue
                record = record_of_row(row, place)
            else:
                record = record_from(row, number=number, place=place, prices=settings.prices)
            if is_marked:
                record = with_evidence(marked(record))
            chosen.check(record, place, answered=answered, columns=_columns(row))
            if unique and record.request_id is not None:
                mark = hash(record.request_id)  # of all ids together, 60 MB a million
                if mark in seen:
                    repeated = f"{record.request_id!r} appeared in an earlier row"
                    raise DataError(f"{place}, column 'request_id': {repeated}")  # noqa: TRY301
                seen.add(mark)
        except DataError as error:
            bad.add(error, number, leave_out=is_exported(row) and is_failed(row))
            continue
        yield InputRow(number, record, digest_of(record) if digests else "")


def _columns(row: Any) -> Container[str]:
    """Return the columns that a row has, even if they are empty.

    A live request that failed has no answer for that reason; any other should have one.
    """
    if is_exported(row):
        return () if is_failed(row) else ("response",)
    if isinstance(row, Record):
        return ("response",) if row.span_kind in (*OWNERS, "llm") else ()
    return row if isinstance(row, Mapping) else ()


class CheckedRows:
    """All rows, read and checked before the first one is paid for."""

    def __init__(self) -> None:
        self._file: Any = tempfile.SpooledTemporaryFile(SPOOLED_BYTES)  # noqa: SIM115
        self.count = 0

    def fill(self, items: Iterable[InputRow], tick: Callable[[int], None]) -> None:
        """Keep the rows for later; raises `DataError` for a row that is bad."""
        for item in items:
            tick(1)
            try:
                pickle.dump(item, self._file, pickle.HIGHEST_PROTOCOL)
            except Exception as error:
                raise DataError(
                    f"row {item.number} holds a value that cannot be pickled: {error}"
                ) from None
            self.count += 1

    def __enter__(self) -> CheckedRows:  # noqa: PYI034 - Self came with Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[InputRow]:
        self._file.seek(0)
        for _ in range(self.count):
            yield pickle.load(self._file)  # noqa: S301 - written above


class FinishedRows:
    """The rows that are done, in memory or in a file, and their aggregate."""

    def __init__(self, save: Any, header: dict[str, Any], *, resume: bool) -> None:
        self.aggregate = Aggregate()
        self._path = None if save is None else Path(save)
        self._header = header
        self._resumed: Resumed | None = None
        if self._path is None:
            if resume:
                raise ConfigurationError(
                    "resume= needs the file of the earlier run: pass it as save="
                )
            self.rows = Rows()
        elif resume and self._path.exists():
            self._resumed = Resumed(self._path, header)
            self.rows = self._resumed.rows
        else:
            self.rows = begin_file(self._path, header)

    def add(self, row: Row) -> None:
        """Take a row that is done."""
        self.rows.append(row)
        self.aggregate.add(row)

    def undone(self, items: Iterable[InputRow], tick: Callable[[int], None]) -> Iterator[InputRow]:
        """Yield the rows that are still to be evaluated, and take the saved ones as they are."""
        for item in items:
            done = self._resumed.take(item.number, item.digest) if self._resumed else None
            if done is None:
                yield item
            else:
                self.aggregate.add(done)
                tick(1)

    def finish(self, about: dict[str, Any]) -> None:
        """Complete the file."""
        if self._path is None:
            return
        self.rows.flush()
        if self._resumed is not None or about["skipped"]:
            header = {**self._header, **about}
            write_file(self._path, header, iter(self.rows), self.aggregate, replaced=self.rows)
            _, self.rows, _ = load_file(self._path)
        else:
            finish_file(self.rows, self.aggregate, about)


def _is_notebook() -> bool:
    """Return whether rich can draw in this notebook, whose shell is a builtin name."""
    shell = getattr(builtins, "get_ipython", None)
    if shell is None or type(shell()).__name__ == "TerminalInteractiveShell":
        return False
    return all(name in sys.modules or find_spec(name) for name in ("IPython", "ipywidgets"))


@contextmanager
def bar(title: str, count: int | None, *, shown: bool) -> Iterator[Callable[[int], None]]:
    """Show a progress bar during the block; yields the function that advances it.

    It is shown on a terminal and in a notebook that has ipywidgets, where rich draws it.
    """
    if not (shown and (_is_notebook() or (sys.stderr is not None and sys.stderr.isatty()))):
        yield lambda _: None
        return
    try:
        from rich import progress
        from rich.console import Console
    except ImportError:
        yield lambda _: None
        return
    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("{task.fields[rate]}"),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with progress.Progress(*columns, console=console, transient=True) as shown_bar:
        task = shown_bar.add_task(title, total=count, rate="")

        def tick(rows: int) -> None:
            shown_bar.advance(task, rows)
            speed = shown_bar.tasks[0].speed
            if speed:
                shown_bar.update(task, rate=f"{speed:,.0f} rows/s" if speed >= 10 else "")

        yield tick
