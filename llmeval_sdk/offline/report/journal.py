"""A run's file: a header, a line for each row as soon as it is done, and at the end the aggregate.

`Report.save` writes this file, `Report.load` reads it, and an interrupted run continues from it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from llmeval_sdk.errors import ConfigurationError, DataError
from llmeval_sdk.offline.report.aggregate import Aggregate, from_plain
from llmeval_sdk.offline.report.row import Row
from llmeval_sdk.offline.report.table import Rows
from llmeval_sdk.process import private


VERSION = 1
_MARK = b'{"llmeval_report":'
_BEGINS = re.compile(rb'\{"number":(\d+),"digest":"([0-9a-f]*)"')


class SavedLine(NamedTuple):
    """Where a row stands in the file."""

    number: int
    digest: str
    start: int
    length: int


class Seal(Protocol):
    """Signs the lines of rows and recognises its own signatures."""

    def __call__(self, line: bytes, /) -> bytes:
        """Return a line with its signature."""

    def holds(self, line: bytes, /) -> bool:
        """Return whether this key signed the line, for a run with the same evaluators."""


class Saved(NamedTuple):
    """What a file holds."""

    header: Mapping[str, Any]
    lines: list[SavedLine]
    end: Mapping[str, Any] | None
    """The last line; ``None`` if the run did not finish."""
    length: int
    """Bytes up to the last whole row."""


def begin(path: Path, header: Mapping[str, Any], seal: Seal | None = None) -> Rows:
    """Start a file anew.

    Raises:
        ConfigurationError: the file cannot be written, or it is not a report.
    """
    _spare(path)
    try:
        private.make_folder(path.parent)
        path.unlink(missing_ok=True)  # whoever reads the old one goes on reading it
        rows = Rows(path, seal=seal)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from None
    rows.write(_line({"llmeval_report": VERSION, **header}))
    return rows


def _spare(path: Path) -> None:
    """Refuse to write over what is not a report, such as the data."""
    try:
        with path.open("rb") as file:
            begins = file.read(len(_MARK))
    except OSError:
        return
    if begins not in (_MARK, b""):
        raise ConfigurationError(f"{path} is not a report and is not overwritten: name another one")


def finish(rows: Rows, aggregate: Aggregate, about: Mapping[str, Any]) -> None:
    """Write the last line."""
    rows.write(_line({"end": aggregate.to_plain(), **about}))


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), default=str).encode() + b"\n"


MOST_LINE = 64 << 20
"""Bytes of the longest line that is read: more than one row is no report of ours."""
_MOST_HEADER = 1 << 20
_MOST_END = 4 << 20


class Ends(NamedTuple):
    """The first and the last line of a file."""

    header: Mapping[str, Any]
    end: Mapping[str, Any] | None
    """``None`` if the run did not finish."""


def ends(path: Path) -> Ends:
    """Read the first and the last line of a file, and none of its rows.

    Raises:
        ConfigurationError: there is no such file.
        DataError: it is not a report.
    """
    try:
        with path.open("rb") as file:
            header = _header(path, file.readline(_MOST_HEADER))
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _MOST_END))
            last = file.read(_MOST_END).rstrip(b"\n").rpartition(b"\n")[2]
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


def scan(path: Path) -> Saved:
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
        first = file.readline(MOST_LINE)
        header = _header(path, first)
        lines: list[SavedLine] = []
        end, at = None, len(first)
        for line in iter(partial(file.readline, MOST_LINE), b""):
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


def load(path: Path) -> tuple[Saved, Rows, Aggregate]:
    """Read a saved run; an interrupted one is summed up from its rows."""
    saved = scan(path)
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


def check_resumable(path: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
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
    """The rows of an interrupted run that need not be evaluated again.

    Only rows that this machine's key signed count: a file that came with a checkout could hold
    verdicts that nobody gave.

    Raises:
        ConfigurationError: the run was of other evaluators.
    """

    def __init__(self, path: Path, header: Mapping[str, Any], seal: Seal) -> None:
        saved = scan(path)
        check_resumable(path, saved.header, header)
        os.truncate(path, saved.length)
        self.rows = Rows(path, seal=seal)
        self.distrusted = 0
        self._seal = seal
        self._lines = {line.number: line for line in saved.lines}

    def take(self, number: int, digest: str) -> Row | None:
        """Return a row that is done, unless it is another one now or something failed on it."""
        line = self._lines.pop(number, None)
        if line is None or line.digest != digest:
            return None
        if not self._seal.holds(self.rows.line_at(line.start, line.length)):
            self.distrusted += 1
            return None
        row = self.rows.read_at(line.start, line.length)
        if row.error is not None or any(each.error for each in row.evaluations.values()):
            return None
        self.rows.locate(line.number, line.start, line.length)
        return row


def copy(
    path: Path,
    header: Mapping[str, Any],
    rows: Iterator[Row],
    aggregate: Aggregate,
    seal: Seal | None = None,
) -> None:
    """Write a report in one go; the file is there whole or not at all."""
    _spare(path)
    beside = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        written = begin(beside, header, seal)
        for row in rows:
            written.append(row)
        finish(written, aggregate, {})
        os.replace(beside, path)  # noqa: PTH105 - pathlib says no more
    finally:
        beside.unlink(missing_ok=True)
