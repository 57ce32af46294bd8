"""The writing side of the store. Delivery threads call it, and never a thread of the app."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from llmeval_sdk.errors import ExportError
from llmeval_sdk.model import DAY_NS, Batch, SpanData
from llmeval_sdk.store import encode, texts
from llmeval_sdk.store.connection import Database, Inherited
from llmeval_sdk.store.encode import COLUMNS, Row, cell
from llmeval_sdk.store.files import (
    Unusable,
    is_locked,
    open_anchor,
    open_file,
    open_memory,
    path_of,
)
from llmeval_sdk.store.losses import Losses, Process, add_note, forget_notes
from llmeval_sdk.store.requests import settle_requests


TRANSACTION_ROWS = 500
ROWS_BESIDE_FORKS = 64
"""How many rows a transaction has in a process that forks, because a fork waits for its end."""
LOG_BYTES_BESIDE_FORKS = 1 << 20
"""How large the log may grow in a process that forks: whoever opens the file next reads all of it,
which took 60 ms for 16 MB."""
SETTLE_SECONDS = 0.5
"""How often such a log is moved into the file. While others read the log it cannot be moved."""
MEMORY_BYTES = 32 << 20
"""The largest size of the store in memory that stands in for a file."""
AGE_CHECK_SECONDS = 60.0
PRUNE_SECONDS = 0.25
"""How long one `StoreWriter.prune` may take; the next one continues where it stopped."""

_MANY = sqlite3.sqlite_version_info >= (3, 32)
_SIZES = (128, 64, 32, 16, 8, 4, 2, 1)[0 if _MANY else 3 :]  # older releases take 999 parameters
# One statement inserts many rows. Each statement gives up the interpreter's lock and, beside a
# busy thread of the app, waits milliseconds to get it back: row by row, that was 240 rows a second.

REFUSED = (UnicodeEncodeError, OverflowError, sqlite3.InterfaceError, sqlite3.ProgrammingError)
"""What SQLite raises over a value that `encode.cell` makes acceptable."""
_REASONS = {"full": "disk_full", "readonly": "store_read_only", "locked": "store_locked"}

RAISE_LIMIT = "Raise it: a gigabyte is the default."
"""What helps where the limit of a store's size is too small."""


def too_small(max_bytes: int) -> str:
    """Say that nothing stays in a store with this limit."""
    return f"LLMEVAL_STORE_MAX_BYTES={max_bytes} is less than one trace takes: none stays."


_T = TypeVar("_T")
Work = Callable[[sqlite3.Connection], _T]


class StoreWriter:
    """Writes batches to one SQLite file that other processes may be writing too.

    Records have keys, so a batch that is delivered twice is stored once, and the later delivery
    wins: spans are keyed by trace and span id, all others by span id and their own id. If the file
    cannot be written, a store in memory stands in for it, and `fallback_reason` says why.

    Args:
        path: the file. The first write creates it with mode 0600, in a folder with mode 0700.
        max_bytes: above this size the oldest traces are deleted; 0 means no bound.
        max_days: traces older than this are deleted; 0 means no bound.
        busy_timeout: seconds to wait while other processes write.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        max_bytes: int = 1 << 30,
        max_days: float = 30.0,
        *,
        busy_timeout: float = 2.0,
    ) -> None:
        self.path = path_of(path)
        self.fallback_reason: str | None = None
        self.max_bytes = max_bytes
        self._max_days = max_days
        self._busy_timeout = busy_timeout
        self._database = Database(self._open, anchor=partial(open_anchor, self.path))
        self._file_id: tuple[int, int] | None = None
        self._next_age_check = 0.0
        self._next_settling = 0.0
        self._texts = texts.LongTexts()
        self.keeps_nothing = False
        """Whether the last trace, too, had to go for the bound of the size."""

    def write(self, batch: Batch) -> Mapping[str, int] | None:
        """Write one batch, in transactions of at most 500 rows; fewer in a process that forks.

        Returns how many spans and evaluations could not be stored, by reason, or ``None``. Raises
        `ExportError`, retryable unless the file itself is broken; writing the batch again is safe.
        """
        refused: dict[str, int] = {}
        bodies: texts.Bodies = {}
        if self.fallback_reason is None and self._file_id not in (None, _file_id(self.path)):
            self._database.close()  # somebody deleted or replaced the file
        size = ROWS_BESIDE_FORKS if self._database.forks else TRANSACTION_ROWS
        span_row = partial(self._span_row, bodies=bodies)
        for part in _slices(batch, span_row, refused, size):
            self.transact(partial(_insert, part, bodies))
        with suppress(ExportError):  # the batch is stored; the next one will prune
            self._prune_if_due()
            self._settle_if_due()
        return refused or None

    def _span_row(self, span: SpanData, *, bodies: texts.Bodies) -> Row:
        return self._texts.taken_out(encode.span_row(span), bodies)

    def note_losses(self, process: Process, lost: Losses, time_ns: int | None = None) -> None:
        """Add to the note of what a process could not deliver in the hour of a time, or now."""
        at = time.time_ns() if time_ns is None else time_ns
        self.transact(partial(add_note, process=process, lost=lost, time_ns=at))

    def prune(self) -> int:
        """Delete what is beyond the bounds, oldest traces first, and return the number of rows.

        `write` calls this by itself. It stops after a quarter of a second, and the next call
        continues.
        """
        deadline = time.monotonic() + PRUNE_SECONDS
        total = self._drop(deadline, by_age=True)
        while time.monotonic() < deadline and self.shrink():
            pass
        return total

    def shrink(self) -> bool:
        """Give some free pages of the file back to the disk; return whether there were enough."""
        return self.transact(_shrink, begin="")

    def settle(self) -> None:
        """Move the log into the file, so that freed space is returned to the disk."""
        self.transact(lambda c: c.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall(), begin="")

    def _settle_if_due(self) -> None:
        """Keep the log short in a process that forks."""
        now = time.monotonic()
        if not self._database.forks or self.fallback_reason or now < self._next_settling:
            return
        if _size(f"{self.path}-wal") > LOG_BYTES_BESIDE_FORKS:
            self._next_settling = now + SETTLE_SECONDS
            self.settle()

    def _prune_if_due(self) -> None:
        """Prune by size after every batch, and by age once a minute."""
        now = time.monotonic()
        if now >= self._next_age_check:
            self._next_age_check = now + AGE_CHECK_SECONDS
            self.prune()
        else:
            self._drop(now + PRUNE_SECONDS, by_age=False)

    def _drop(self, deadline: float, *, by_age: bool) -> int:
        total = 0
        while True:
            gone = 0
            if by_age and self._max_days:
                oldest = time.time_ns() - int(self._max_days * DAY_NS)
                gone += self.transact(partial(_drop_oldest, before_ns=oldest))
                self.transact(partial(forget_notes, before_ns=oldest))
            if self.max_bytes and self.transact(live_bytes, begin="") > self._bound:
                if dropped := self.transact(_drop_oldest):
                    self.keeps_nothing = not self.transact(_has_spans, begin="")
                gone += dropped
            total += gone
            if not gone or time.monotonic() > deadline:
                return total

    def close(self) -> None:
        """Close the file; a later write opens it again."""
        self._database.close()

    @property
    def location(self) -> str:
        """What a `StoreReader` of this process opens: the path, or the URI of the stand-in."""
        if self.fallback_reason is None:
            return str(self.path)
        return f"file:llmeval-{os.getpid()}-{id(self):x}?mode=memory&cache=shared"

    @property
    def _bound(self) -> int:
        return min(self.max_bytes, MEMORY_BYTES) if self.fallback_reason else self.max_bytes

    def _open(self) -> sqlite3.Connection:
        connection = open_file(self.path)
        self._file_id = _file_id(self.path)
        return connection

    def _fall_back(self, reason: str) -> None:
        self.fallback_reason = f"{self.path}: {reason}; scores are kept in memory only"
        self._database.close()
        self._database = Database(lambda: open_memory(self.location), in_memory=True)

    def transact(self, work: Work[_T], *, begin: str = "BEGIN IMMEDIATE") -> _T:
        """Run ``work`` in one transaction, and wait for other processes between tries."""
        deadline = time.monotonic() + self._busy_timeout
        while True:
            try:
                with self._database.use() as connection:
                    return _once(connection, work, begin)
            except Inherited:
                self._fall_back("this process was forked while its parent was writing the store")
            except Unusable as error:
                self._fall_back(str(error))
            except sqlite3.Error as error:
                if not is_locked(error) or time.monotonic() > deadline:
                    raise self._failed(error) from error
                time.sleep(0.005)

    def _failed(self, error: sqlite3.Error) -> ExportError:
        text = str(error)
        reason = next((name for word, name in _REASONS.items() if word in text), "store_failed")
        if reason in ("store_failed", "store_read_only"):
            self._database.close()  # opening it again shows whether the file is still usable
        return ExportError(reason, f"{self.path}: {text}", retryable="malformed" not in text)


def _once(connection: sqlite3.Connection, work: Work[_T], begin: str) -> _T:
    if not begin:
        return work(connection)
    connection.execute(begin)
    try:
        result = work(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return result


def _file_id(path: Any) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - once per write
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116 - once per write
    except OSError:
        return 0


def _slices(
    batch: Batch, span_row: Callable[[SpanData], Row], refused: dict[str, int], size: int
) -> Iterator[list[tuple[str, list[Row]]]]:
    """Yield the rows of a batch by table, as many at a time as fit into one transaction."""
    people = [e for e in batch.evaluations if e.evaluation.evaluator_kind == "human"]
    others = [e for e in batch.evaluations if e.evaluation.evaluator_kind != "human"]
    # What cannot be read as fields is in the evaluation itself, which is stored or counted below.
    fields = [row for rows in _built(others, encode.field_rows, {}) for row in rows]
    ready: list[tuple[str, list[Row]]] = []
    room = size
    for table, nouns, to_row in (
        ("spans", batch.spans, span_row),
        ("evaluations", others, encode.evaluation_row),
        ("feedback", people, encode.evaluation_row),
        ("not_run", batch.not_run, encode.not_run_row),  # plain text, which SQLite never refuses
        ("fields", fields, tuple),
    ):
        start = 0
        while start < len(nouns):
            part = nouns[start : start + room]
            ready.append((table, list(_built(part, to_row, refused))))
            start += len(part)
            room -= len(part)
            if not room:
                yield ready
                ready, room = [], size
    if ready:
        yield ready


def _built(nouns: Iterable[Any], to_row: Any, refused: dict[str, int]) -> Iterator[Row]:
    for noun in nouns:
        try:
            yield to_row(noun)
        except Exception as error:
            reason = f"unstorable:{type(error).__name__}"
            refused[reason] = refused.get(reason, 0) + 1


def _insert(
    part: list[tuple[str, list[Row]]], bodies: texts.Bodies, connection: sqlite3.Connection
) -> None:
    for table, table_rows in part:
        if table == "spans":
            texts.replace(connection, table_rows, bodies)
        insert_rows(connection, table, table_rows)
        if table == "spans":
            settle_requests(connection, table_rows)


def insert_rows(connection: sqlite3.Connection, table: str, table_rows: list[Row]) -> None:
    """Write rows of a table, in place of those with their keys."""
    start = 0
    for size in _SIZES:
        statement = _STATEMENTS[table, size]
        while len(table_rows) - start >= size:
            values = [value for row in table_rows[start : start + size] for value in row]
            try:
                connection.execute(statement, values)
            except REFUSED:
                connection.execute(statement, [cell(value) for value in values])
            start += size


def _statement(table: str, size: int) -> str:
    columns = COLUMNS[table]
    row = f"({','.join('?' * len(columns))})"
    into = f"INSERT OR REPLACE INTO {table} ({','.join(columns)}) VALUES "  # noqa: S608
    return into + ",".join([row] * size)


_STATEMENTS = {(table, size): _statement(table, size) for table in COLUMNS for size in _SIZES}


# Keeps the store within its bounds: the traces that arrived first are deleted first, and whole.

_SLICE = 100
"""How many spans' traces one transaction deletes, so that other processes get their turn."""
_VACUUM_PAGES = 256

_LIVE = """
SELECT (page_count - freelist_count) * page_size
FROM pragma_page_count, pragma_freelist_count, pragma_page_size
"""
_FOLLOWERS = ("evaluations", "not_run", "feedback", "fields")


def live_bytes(connection: sqlite3.Connection) -> int:
    """Return the size of what is stored: the file without its free pages."""
    return int(connection.execute(_LIVE).fetchone()[0])


def _has_spans(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM spans LIMIT 1").fetchone() is not None


def _drop_oldest(connection: sqlite3.Connection, *, before_ns: int | None = None) -> int:
    """Delete a slice of the oldest traces with all that belongs to them, and what has no trace.

    Of a store of few spans a slice is a quarter, so that a small bound is no reason to empty it.

    With ``before_ns`` (nanoseconds since the epoch), only traces that began before it are deleted,
    also those that were imported after newer ones. This runs inside the caller's transaction, and
    returns how many rows it deleted.
    """
    oldest = "SELECT trace_id, start_ns FROM spans ORDER BY seq LIMIT ?"
    first = connection.execute(oldest, (4 * _SLICE,)).fetchall()
    rows = first[: max(len(first) // 4, 1)]
    if before_ns is not None:
        rows += connection.execute(_BEGAN_FIRST, (before_ns, _SLICE)).fetchall()
    traces = {trace for trace, start in rows if before_ns is None or start < before_ns}
    return drop_traces(connection, traces) + _drop_strays(connection, before_ns)


_BEGAN_FIRST = """
SELECT trace_id, start_ns FROM spans
WHERE parent_id IS NULL AND start_ns < ? ORDER BY start_ns LIMIT ?
"""


def drop_traces(connection: sqlite3.Connection, traces: set[str]) -> int:
    """Delete traces with all that belongs to them, inside the caller's transaction.

    Returns how many records those were.
    """
    texts.release(connection, traces)
    before = connection.total_changes
    for trace in traces:
        spans = "SELECT span_id FROM spans WHERE trace_id = :trace"
        for table in _FOLLOWERS:
            connection.execute(
                f"DELETE FROM {table} WHERE span_id IN ({spans}) AND trace_id = :trace",  # noqa: S608
                {"trace": trace},
            )
        connection.execute("DELETE FROM spans WHERE trace_id = ?", (trace,))
    return connection.total_changes - before


def _drop_strays(connection: sqlite3.Connection, before_ns: int | None) -> int:
    """Delete records older than the first of the spans if theirs are gone, or never came."""
    before = connection.total_changes
    first = connection.execute("SELECT start_ns FROM spans ORDER BY seq LIMIT 1").fetchone()
    limit = before_ns if before_ns is not None else (first[0] if first else (1 << 63) - 1)
    for table in _FOLLOWERS:
        connection.execute(
            f"DELETE FROM {table} WHERE time_ns < ? AND seq IN "  # noqa: S608
            f"(SELECT seq FROM {table} ORDER BY seq LIMIT ?) "
            f"AND NOT EXISTS (SELECT 1 FROM spans s WHERE s.span_id = {table}.span_id)",
            (limit, 2 * _SLICE),
        )
    return connection.total_changes - before


def _shrink(connection: sqlite3.Connection) -> bool:
    """Give free pages back to the disk if a tenth of the file is free; return whether it was."""
    free = _number(connection, "freelist_count")
    if free * 10 <= _number(connection, "page_count") or free < _VACUUM_PAGES:
        return False
    connection.execute(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})").fetchall()
    return True


def _number(connection: sqlite3.Connection, pragma: str) -> int:
    return int(connection.execute(f"PRAGMA {pragma}").fetchone()[0])
