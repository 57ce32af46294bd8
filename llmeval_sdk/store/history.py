"""Takes what was exported elsewhere, or at another time, into a store.

Nothing that the store holds is changed: a record that is there already is only counted, and one
whose ids belong to another record is left out and reported. All that one call of `take_in` writes
is written in one transaction, so that an import that breaks off can simply be run again.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model import EvaluationEvent, NotRun, SpanData
from llmeval_sdk.store import encode
from llmeval_sdk.store.encode import COLUMNS, Row, cell
from llmeval_sdk.store.files import Unusable, is_locked, open_file, path_of
from llmeval_sdk.store.requests import settle_requests
from llmeval_sdk.store.texts import Bodies, LongTexts, columns_of, replace
from llmeval_sdk.store.writer import REFUSED


WAIT_SECONDS = 60.0
"""How long an import waits for other processes that write the store."""
CACHE_KIB = 256_000
"""Memory for pages of the file: ids are random, so each of them needs another page of an index."""
WAL_PAGES = 131_072
"""Pages of the log (512 MB) from which on it is moved into the file: most were changed again by
then, and are written once."""
BATCH = 10_000
"""Arrivals that are written in one transaction, in about two seconds, for which an app that writes
the same store waits. With fewer, the same pages of the indices are written more often."""
BATCH_CHARACTERS = 64 << 20
IMPORTED = "imported"
"""The key in the table ``meta`` of the rows that no process of an app wrote."""
MAX_RANGES = 10_000
_IDS = 500
_TABLES = ("evaluations", "feedback", "not_run")
_READERS: dict[str, Callable[[Row], Any]] = {
    "spans": encode.span_of,
    "evaluations": encode.evaluation_of,
    "feedback": encode.evaluation_of,
    "not_run": encode.not_run_of,
}
_T = TypeVar("_T")


class EventRow(NamedTuple):
    """Something that was said of a span, or why nothing was."""

    table: str
    row: Row
    fields: list[Row]
    """Its rows in the table of fields."""


class Arrival(NamedTuple):
    """What one line of a file says: a span, what was said of it, or both, as rows."""

    place: str
    """As messages name it: ``line 17``."""
    span: Row | None
    events: list[EventRow]
    is_whole: bool
    """Whether the file carries all that a store holds, so that it can be compared."""
    characters: int
    """The length of its texts."""


def arrival(
    place: str,
    span: SpanData | None,
    events: Iterable[EvaluationEvent | NotRun] = (),
    *,
    is_whole: bool,
) -> Arrival:
    """Make an arrival of nouns; raises ``ValueError`` for an id that no store can hold."""
    row = None if span is None else encode.span_row(span)
    rows = list(map(_event_row, events))
    for event in rows:
        event.row[_ID].encode()  # with half a surrogate pair it would not be known again
    length = sum(map(_length, (row or (), *(event.row for event in rows))))
    return Arrival(place, row, rows, is_whole, length)


def _length(row: Row) -> int:
    return sum([len(value) for value in row if type(value) is str])


def _event_row(event: EvaluationEvent | NotRun) -> EventRow:
    if isinstance(event, NotRun):
        return EventRow("not_run", encode.not_run_row(event), [])
    if event.evaluation.evaluator_kind == "human":
        return EventRow("feedback", encode.evaluation_row(event), [])
    fields: list[Row] = []
    if "fields" in event.evaluation.metadata:
        with suppress(Exception):  # what cannot be read as fields is in the evaluation all the same
            fields = encode.field_rows(event)
    return EventRow("evaluations", encode.evaluation_row(event), fields)


@dataclass(slots=True)
class Taken:
    """What became of some arrivals, counted by table."""

    new: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    """Records that the store had already."""
    conflicts: Counter[str] = field(default_factory=Counter)
    """Records that were left out because the store has others with their ids."""
    told: list[tuple[str, str]] = field(default_factory=list)
    """Where each conflict stands, and what it is."""
    oldest_ns: int | None = None
    """When the first of the new spans began."""


class HistoryWriter:
    """Writes arrivals to a store, which is created if there is none yet.

    Unlike the writer of an app it deletes nothing that is too old or too much.

    Raises:
        ConfigurationError: the file cannot be used; the message says why.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path_of(path)
        self._connection = self._patiently(lambda: open_file(self.path))
        self._connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}").fetchall()
        self._connection.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}").fetchall()

    def take_in(self, arrivals: Sequence[Arrival]) -> Taken:
        """Write what is new in some arrivals, in one transaction.

        Raises:
            ConfigurationError: the file cannot be written; nothing of the arrivals is.
        """
        return self._patiently(lambda: self._once(arrivals))

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _once(self, arrivals: Sequence[Arrival]) -> Taken:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            taken = take_in(connection, arrivals)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return taken

    def _patiently(self, work: Callable[[], _T]) -> _T:
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                return work()
            except (Unusable, sqlite3.Error) as error:
                if not is_locked(error) or time.monotonic() > deadline:
                    raise ConfigurationError(
                        f"{self.path} cannot be written: {error}\n"
                        "What was imported so far is in it whole: run the import again."
                    ) from error
                time.sleep(0.005)


def take_in(connection: sqlite3.Connection, arrivals: Sequence[Arrival]) -> Taken:
    """Write what is new in some arrivals, inside the caller's transaction."""
    held = _Held(connection, arrivals)
    before = _last_rows(connection)
    taken = Taken()
    rows: dict[str, list[Row]] = {table: [] for table in COLUMNS}
    for arrival in arrivals:
        _take(arrival, held, taken, rows)
    long_texts, bodies = LongTexts(), Bodies()
    rows["spans"] = [long_texts.taken_out(row, bodies) for row in rows["spans"]]
    replace(connection, rows["spans"], bodies, room=sys.maxsize)
    for table, table_rows in rows.items():
        _insert(connection, table, table_rows)
    settle_requests(connection, rows["spans"])
    _note_imported(connection, before)
    return taken


def _take(arrival: Arrival, held: _Held, taken: Taken, rows: dict[str, list[Row]]) -> None:
    """Put what is new in one arrival among the rows."""
    place, row, events, is_whole, _ = arrival
    is_alone = row is None
    if row is not None:
        key = row[_OF_TRACE], row[_OF_SPAN]
        known = held.spans.get(key)
        if known is None:
            held.spans[key] = row
            rows["spans"].append(row)
            taken.new["spans"] += 1
            start = row[_START]
            taken.oldest_ns = start if taken.oldest_ns is None else min(start, taken.oldest_ns)
        elif _is_same_span(row, known, is_whole=is_whole):
            taken.known["spans"] += 1
        else:
            taken.conflicts["spans"] += 1
            what = f"the store has another span {key[1]} in the trace {key[0]}"
            taken.told.append((place, what))
            return
    for table, row, fields in events:
        row = held.completed(row) if is_alone else row  # noqa: PLW2901
        known = held.events.get((table, row[_SPAN], row[_ID]))
        if known is None and not held.has_twin(table, row):
            held.add(table, row)
            rows[table].append(row)
            rows["fields"] += fields
            taken.new[table] += 1
        elif known is None or _is_same(table, row, known, is_whole=is_whole):
            taken.known[table] += 1
        else:
            taken.conflicts[table] += 1
            what = f"the store has something else as {row[_NAME]!r} of the span {row[_SPAN]}"
            taken.told.append((place, what))


_COLUMN = {name: place for place, name in enumerate(COLUMNS["evaluations"])}
_ID, _TRACE, _SPAN, _KIND, _NAME, _TIME = (
    _COLUMN[name] for name in ("id", "trace_id", "span_id", "span_kind", "name", "time_ns")
)
"""The tables of what was said of spans begin with the same columns."""
_SAME = tuple(_COLUMN[name] for name in ("span_id", "name", "time_ns", "value", "evaluator_kind"))
_OF_TRACE, _OF_SPAN, _OF_KIND, _START, _END = (
    COLUMNS["spans"].index(name) for name in ("trace_id", "span_id", "kind", "start_ns", "end_ns")
)


def _insert(connection: sqlite3.Connection, table: str, rows: list[Row]) -> None:
    """Write rows; those of the table ``fields`` may be there from an evaluation that is gone."""
    columns = COLUMNS[table]
    marks = ",".join("?" * len(columns))
    statement = f"INSERT OR REPLACE INTO {table} ({','.join(columns)}) VALUES ({marks})"  # noqa: S608
    try:
        connection.executemany(statement, rows)
    except REFUSED:
        connection.executemany(statement, [tuple(map(cell, row)) for row in rows])


class _Held:
    """What the store holds under the ids of some arrivals."""

    def __init__(self, connection: sqlite3.Connection, arrivals: Sequence[Arrival]) -> None:
        ids = _span_ids(arrivals)
        self.spans: dict[tuple[str, str], Row] = {
            (row[_OF_TRACE], row[_OF_SPAN]): row for row in _rows(connection, "spans", ids)
        }
        self.events: dict[tuple[str, str, str], Row] = {}
        self._all_may_be_twins = any(not arrival.is_whole for arrival in arrivals)
        self._derived: dict[Row, bool] = {}
        """Whether the id of an evaluation was derived, by what makes it unique without one."""
        for table in _TABLES:
            for row in _rows(connection, table, ids):
                self.add(table, row)
        for arrival in arrivals:
            for table, row, _ in arrival.events:
                if not row[_SPAN]:
                    self._look_up(connection, table, row)

    def _look_up(self, connection: sqlite3.Connection, table: str, event: Row) -> None:
        """Look for an event about no span, of which the store may have any number."""
        name = "evaluator" if table == "not_run" else "name"
        query = (
            f"SELECT {','.join(COLUMNS[table])} FROM {table} "  # noqa: S608
            f"WHERE {name} = ? AND time_ns = ? AND span_id = ''"
        )
        for row in connection.execute(query, tuple(map(cell, (event[_NAME], event[_TIME])))):
            self.add(table, row)

    def add(self, table: str, row: Row) -> None:
        """Note a row that the store has, or will have."""
        self.events[table, row[_SPAN], row[_ID]] = row
        if table != "not_run" and (self._all_may_be_twins or _is_derived(row)):
            key = tuple(row[place] for place in _SAME)
            self._derived[key] = self._derived.get(key, False) or _is_derived(row)

    def has_twin(self, table: str, row: Row) -> bool:
        """Say whether the store has an evaluation under another id, one of them being derived."""
        if table == "not_run" or not self._derived:
            return False
        is_derived = self._derived.get(tuple(row[place] for place in _SAME))
        return is_derived is not None and (is_derived or _is_derived(row))

    def completed(self, row: Row) -> Row:
        """Say of what kind the span is that an evaluation is about, where only the store knows."""
        known = self.spans.get((row[_TRACE], row[_SPAN]))
        if known is None or row[_KIND] is not None:
            return row
        return (*row[:_KIND], known[_OF_KIND], *row[_KIND + 1 :])


DERIVED = "otlp-"
"""Begins the ids of evaluations that came without one, and that their content was made to one."""


def _is_derived(row: Row) -> bool:
    event_id: str = row[_ID]
    return event_id.startswith(DERIVED)


def _span_ids(arrivals: Sequence[Arrival]) -> list[str]:
    ids = {arrival.span[_OF_SPAN] for arrival in arrivals if arrival.span is not None}
    ids.update(row[_SPAN] for arrival in arrivals for _, row, _ in arrival.events)
    return sorted(ids - {""})


def _rows(connection: sqlite3.Connection, table: str, ids: Sequence[str]) -> Iterator[Row]:
    columns, rest = columns_of(table), iter(ids)
    while part := list(islice(rest, _IDS)):
        marks = ",".join("?" * len(part))
        query = f"SELECT {columns} FROM {table} WHERE span_id IN ({marks})"  # noqa: S608
        yield from connection.execute(query, part)


def _is_same_span(row: Row, known: Row, *, is_whole: bool) -> bool:
    if is_whole:
        return _is_equal("spans", row, known)
    return (row[_START], row[_END]) == (known[_START], known[_END])


def _is_same(table: str, row: Row, known: Row, *, is_whole: bool) -> bool:
    if is_whole:
        return _is_equal(table, row, known)
    is_same = all(row[place] == known[place] for place in (_NAME, _TIME))
    return is_same and known[_TRACE] in (None, row[_TRACE])


def _is_equal(table: str, row: Row, known: Row) -> bool:
    """Say whether two rows say the same; an earlier release may have written it in other JSON."""
    if row == known or tuple(map(cell, row)) == known:
        return True
    read = _READERS[table]
    try:
        return bool(read(tuple(map(cell, row))) == read(known))
    except (TypeError, ValueError):
        return False


# Which rows were imported: alarms must not take them for verdicts that arrived late.


def _last_rows(connection: sqlite3.Connection) -> list[int]:
    return list(connection.execute(_LAST).fetchone())


def _note_imported(connection: sqlite3.Connection, before: Sequence[int]) -> None:
    """Note the rows that this transaction has written."""
    ranges = imported(connection)
    for table, first, last in zip(
        ("evaluations", "not_run"), before, _last_rows(connection), strict=True
    ):
        if last > first:
            of_table = ranges[table]
            if of_table and of_table[-1][1] == first:
                of_table[-1] = (of_table[-1][0], last)
            else:
                of_table.append((first + 1, last))
            del of_table[:-MAX_RANGES]
    text = json.dumps(ranges)
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (IMPORTED, text))


def imported(connection: sqlite3.Connection) -> dict[str, list[tuple[int, int]]]:
    """Return the first and last ``seq`` of the rows that were imported, by table."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (IMPORTED,)).fetchone()
    ranges: dict[str, list[tuple[int, int]]] = {"evaluations": [], "not_run": []}
    if row is None:
        return ranges
    try:
        plain = json.loads(row[0])
        return {
            table: [(int(first), int(last)) for first, last in plain[table]] for table in ranges
        }
    except (ValueError, TypeError, KeyError, RecursionError):  # only a file made by hand
        return ranges


_LAST = """
SELECT (SELECT ifnull(max(seq), 0) FROM evaluations), (SELECT ifnull(max(seq), 0) FROM not_run)
"""


def batches(arrivals: Iterable[Arrival]) -> Iterator[list[Arrival]]:
    """Yield arrivals, as many at a time as are to be written in one transaction."""
    batch: list[Arrival] = []
    characters = 0
    for arrival in arrivals:
        batch.append(arrival)
        characters += arrival.characters
        if len(batch) >= BATCH or characters >= BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch
