"""Numbered files of rows, in a folder of their own: written whole, and never changed again."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError, DataError
from llmeval_sdk.model import Record, SpanData
from llmeval_sdk.model.records import OWNERS
from llmeval_sdk.offline.data.exported import EXPECTED, is_exported, record_of_row
from llmeval_sdk.offline.data.record import record_from
from llmeval_sdk.offline.data.source import open_data
from llmeval_sdk.offline.data.spans import stored_record
from llmeval_sdk.process import private
from llmeval_sdk.process.private import replace_text
from llmeval_sdk.store import views
from llmeval_sdk.store.encode import dumps, sparse
from llmeval_sdk.store.lookup import spans_like
from llmeval_sdk.store.reader import StoreReader


# Requests of the store as rows of a golden set, and such rows as Records.


def find_request(reader: StoreReader, prefix: str) -> SpanData:
    """Return the span that is meant by an id or its beginning; a trace stands for its request.

    Raises:
        ConfigurationError: There is none, or there are several.
    """
    prefix = prefix.strip().lower()
    found = reader.read(lambda c: spans_like(c, prefix)) if prefix else ()
    spans = [ref.span_id for ref in found if ref.span_id == prefix] or [r.span_id for r in found]
    if len(spans) > 1:
        raise ConfigurationError(f"several spans have an id that begins with {prefix!r:.80}")
    span = reader.span(spans[0]) if spans else None
    if span is not None:
        return span
    traces = {trace for trace, _ in reader.read(lambda c: views.traces_like(c, prefix)) if prefix}
    if len(traces) > 1:
        raise ConfigurationError(f"several traces have an id that begins with {prefix!r:.80}")
    for trace in traces:
        members = reader.trace(trace)
        return next((span for span in members if span.kind in OWNERS), members[0])
    raise ConfigurationError(
        f"there is no span or trace whose id begins with {prefix!r:.80} in {reader.location}; "
        "`llmeval traces` lists them"
    )


def row_of(reader: StoreReader, span: SpanData, settings: Settings) -> dict[str, Any]:
    """Return a request as a row: what evaluators saw of it when it was live, and where it was."""
    record = stored_record(
        span,
        reader.trace(span.trace_id),
        retrieved=settings.retrieved_context,
        limits=settings.retrieval_limits,
    )
    fields = sparse(record)
    first = ("request_id", "request", "response", *EXPECTED)
    row = {name: fields[name] for name in first if name in fields}
    row |= {name: value for name, value in fields.items() if name not in _LAST}
    if record.value == record.response:
        row.pop("value", None)  # it is only the response again
    return {
        **row,
        "duration_seconds": record.latency_seconds or 0.0,
        "trace_id": span.trace_id,
        "span_id": span.span_id,
        "name": span.name,
        "kind": span.kind,
        "start_time": datetime.fromtimestamp(span.start_ns / 1e9, timezone.utc).isoformat(),
        "start_ns": span.start_ns,
    }


_LAST = ("latency_seconds", "trace_id", "span_id", "span_name", "span_kind")


def record_of(row: Mapping[str, Any], place: str) -> Record:
    """Return a row as evaluators see it; raises `DataError` where it cannot be read."""
    return record_of_row(row, place) if is_exported(row) else record_from(row, place=place)


MOST_BYTES = 64 << 20
"""Of one version."""
MOST_BYTES_IN_ALL = 1 << 30
_FILE = re.compile(r"v(\d{4,6})\.jsonl")


class Versions:
    """The files ``v0001.jsonl``, ``v0002.jsonl`` … of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def numbers(self) -> tuple[int, ...]:
        """Return the numbers of the versions that there are, the newest last.

        Raises:
            ConfigurationError: The folder is a symbolic link.
        """
        _refuse_link(self.folder)
        if not self.folder.is_dir():
            return ()
        names = (_FILE.fullmatch(file.name) for file in self.folder.iterdir())
        return tuple(sorted(int(match[1]) for match in names if match))

    def file(self, number: int) -> Path:
        """Return the file of a version; raises `ConfigurationError` where it is a symbolic link."""
        path = self.folder / f"v{number:04}.jsonl"
        _refuse_link(self.folder)
        _refuse_link(path)
        return path

    def read(self, number: int) -> list[dict[str, Any]]:
        """Return the rows of a version.

        Raises:
            DataError: A line cannot be read, or the file is too large.
        """
        path = self.file(number)
        if path.stat().st_size > MOST_BYTES:
            raise DataError(f"{path} is larger than {_megabytes(MOST_BYTES)}")
        rows = []
        for _, place, row in open_data(path).rows:
            if not isinstance(row, dict):
                why = row if isinstance(row, DataError) else "expected a mapping"
                raise DataError(f"{place}: {why}")
            rows.append(row)
        return rows

    def rewrite(self, number: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write a version anew, without rows that have to be deleted.

        Raises:
            ConfigurationError: The folder cannot be written.
        """
        try:
            replace_text(self.file(number), _lines(rows).decode("utf-8"))
        except OSError as error:
            raise ConfigurationError(f"{self.folder} cannot be written: {error}") from None

    def write(self, number: int, rows: Sequence[Mapping[str, Any]]) -> bool:
        """Write a version; returns False, and writes nothing, if it is there already.

        Raises:
            ConfigurationError: It would be too large, or the folder cannot be written.
        """
        lines = _lines(rows)
        earlier = sum(self.file(each).stat().st_size for each in self.numbers())
        for size, most in ((len(lines), MOST_BYTES), (earlier + len(lines), MOST_BYTES_IN_ALL)):
            if size > most:
                raise ConfigurationError(
                    f"{self.folder}: this would be {_megabytes(size)} of rows, and at most "
                    f"{_megabytes(most)} are kept: remove rows, or delete old versions"
                )
        beside = self.folder / f".{secrets.token_hex(8)}.tmp"
        try:
            private.make_folder(self.folder)
            private.make_file(beside)
            with beside.open("wb") as file:
                file.write(lines)
                file.flush()
                os.fsync(file.fileno())
            os.link(beside, self.file(number))  # fails where somebody was quicker
        except FileExistsError:
            return False
        except OSError as error:
            raise ConfigurationError(f"{self.folder} cannot be written: {error.strerror}") from None
        finally:
            beside.unlink(missing_ok=True)
        return True


def _lines(rows: Sequence[Mapping[str, Any]]) -> bytes:
    return "".join(f"{dumps(row)}\n" for row in rows).encode("utf-8", "backslashreplace")


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise ConfigurationError(f"{path} is a symbolic link: a golden set is a folder of files")


def _megabytes(size: int) -> str:
    return f"{size / (1 << 20):,.0f} MiB"
