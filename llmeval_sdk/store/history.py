"""Takes what was exported elsewhere, or at another time, into a store.

Nothing that the store holds is changed: a record that is there already is only counted, and one
whose ids belong to another record is left out and reported. All that one call of `take_in` writes
is written in one transaction, so that an import that breaks off can simply be run again.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from llmeval_sdk.errors import ConfigurationError, ExportError
from llmeval_sdk.model import EvaluationEvent, NotRun, SpanData
from llmeval_sdk.store import encode
from llmeval_sdk.store.encode import COLUMNS, Row, cell
from llmeval_sdk.store.requests import settle_requests
from llmeval_sdk.store.texts import Bodies, LongTexts, replace
from llmeval_sdk.store.writer import StoreWriter, insert_rows


WAIT_SECONDS = 60.0
"""How long an import waits for other processes that write the store."""
BATCH = 10_000
"""Arrivals that are written in one transaction, in about two seconds, for which an app that writes
the same store waits. With fewer, the same pages of the indices are written more often."""
BATCH_CHARACTERS = 64 << 20
IMPORTED = "imported"
"""The key in the table ``meta`` of the rows that no process of an app wrote."""
MAX_RANGES = 10_000


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
    characters: int
    """The length of its texts."""


def arrival(
    place: str, span: SpanData | None, events: Iterable[EvaluationEvent | NotRun] = ()
) -> Arrival:
    """Make an arrival of nouns; raises ``ValueError`` for an id that no store can hold."""
    row = None if span is None else encode.span_row(span)
    rows = list(map(_event_row, events))
    for event in rows:
        event.row[_ID].encode()  # with half a surrogate pair it would not be known again
    everything = (row or (), *(event.row for event in rows))
    length = sum(len(value) for values in everything for value in values if type(value) is str)
    return Arrival(place, row, rows, length)


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


def take_in(writer: StoreWriter, arrivals: Sequence[Arrival]) -> Taken:
    """Write what is new in some arrivals, in one transaction.

    Raises:
        ConfigurationError: the file cannot be written; nothing of the arrivals is.
    """
    try:
        taken = writer.transact(partial(_take_in, arrivals=arrivals))
    except ExportError as error:
        why = f"{error}\nWhat was imported so far is in it whole: run the import again."
        raise ConfigurationError(f"the store cannot be written: {why}") from error
    if writer.fallback_reason is not None:
        raise ConfigurationError(
            writer.fallback_reason.removesuffix("; scores are kept in memory only")
        )
    return taken


def _take_in(connection: sqlite3.Connection, arrivals: Sequence[Arrival]) -> Taken:
    """Write what is new in some arrivals, inside the caller's transaction."""
    held, before, taken = _Held(connection, arrivals), _last_rows(connection), Taken()
    rows: dict[str, list[Row]] = {table: [] for table in COLUMNS}
    for arrival in arrivals:
        if arrival.span is not None and not _take_span(arrival, held, taken, rows):
            continue
        for table, event, fields in arrival.events:
            row = held.with_its_kind(event) if arrival.span is None else event
            outcome = held.add(table, row)
            if outcome == "new":
                rows[table].append(row)
                rows["fields"] += fields
            elif outcome == "conflicts":
                what = f"the store has something else as {row[_NAME]!r} of the span {row[_SPAN]}"
                taken.told.append((arrival.place, what))
            getattr(taken, outcome)[table] += 1
    long_texts, bodies = LongTexts(), Bodies()
    rows["spans"] = [long_texts.taken_out(row, bodies) for row in rows["spans"]]
    replace(connection, rows["spans"], bodies, room=sys.maxsize)
    for table, table_rows in rows.items():
        insert_rows(connection, table, table_rows)
    settle_requests(connection, rows["spans"])
    _note_imported(connection, before)
    return taken


def _take_span(arrival: Arrival, held: _Held, taken: Taken, rows: dict[str, list[Row]]) -> bool:
    """Put a span among the rows if it is new; return whether it is not another one's ids."""
    row = arrival.span or ()
    key, about = (row[_OF_TRACE], row[_OF_SPAN]), (row[_START], row[_END], row[_OF_KIND])
    known = held.spans.setdefault(key, about)
    if known is about:
        rows["spans"].append(row)
        taken.new["spans"] += 1
        taken.oldest_ns = min(about[0], about[0] if taken.oldest_ns is None else taken.oldest_ns)
    elif known[:2] == about[:2]:
        taken.known["spans"] += 1
    else:
        taken.conflicts["spans"] += 1
        what = f"the store has another span {key[1]} in the trace {key[0]}"
        taken.told.append((arrival.place, what))
        return False
    return True


_ABOUT = ("id", "trace_id", "span_id", "span_kind", "name", "time_ns", "value", "evaluator_kind")
_COLUMN = {name: place for place, name in enumerate(COLUMNS["evaluations"])}
_ID, _TRACE, _SPAN, _KIND, _NAME, _TIME, _VALUE, _BY = (_COLUMN[name] for name in _ABOUT)
"""The tables of what was said of spans begin with the same columns."""
_OF_TRACE, _OF_SPAN, _OF_KIND, _START, _END = (
    COLUMNS["spans"].index(name) for name in ("trace_id", "span_id", "kind", "start_ns", "end_ns")
)


class _Held:
    """What the store holds under the ids of some arrivals, and what is added to it."""

    def __init__(self, connection: sqlite3.Connection, arrivals: Sequence[Arrival]) -> None:
        events = [event.row for arrival in arrivals for event in arrival.events]
        ids = {arrival.span[_OF_SPAN] for arrival in arrivals if arrival.span is not None}
        wanted = {
            "spans": json.dumps(sorted(ids | {row[_SPAN] for row in events})),
            "events": json.dumps(sorted({row[_ID] for row in events})),
        }
        self.spans = {
            (trace, span): (start, end, kind)
            for trace, span, start, end, kind in connection.execute(_SPANS, wanted)
        }
        self._by_id: dict[tuple[str, str, str], tuple[object, Row]] = {}
        self._twins: set[Row] = set()
        """What makes an evaluation unique without its id, which OTLP may lack."""
        for table in ("evaluations", "feedback", "not_run"):
            query = f"SELECT {','.join(COLUMNS[table])} FROM {table} {_OF_THESE}"  # noqa: S608
            for row in connection.execute(query, wanted):
                self.add(table, row)

    def add(self, table: str, row: Row) -> str:
        """Note a row; return ``new``, or ``known`` or ``conflicts`` beside one that was noted."""
        outcome = () if table == "not_run" else (cell(row[_VALUE]), row[_BY])
        facts = (table, row[_SPAN], row[_NAME], row[_TIME], *outcome)
        key = (table, row[_SPAN], row[_ID])
        if key in self._by_id:
            trace, known = self._by_id[key]
            is_same = known == facts and trace in (None, row[_TRACE])
            return "known" if is_same else "conflicts"
        if facts in self._twins and outcome:
            return "known"
        self._by_id[key] = row[_TRACE], facts
        self._twins.add(facts)
        return "new"

    def with_its_kind(self, row: Row) -> Row:
        """Say of what kind the span is that an evaluation is about, where only the store knows."""
        known = self.spans.get((row[_TRACE], row[_SPAN]))
        if known is None or row[_KIND] is not None:
            return row
        return (*row[:_KIND], known[2], *row[_KIND + 1 :])


_SPANS = """
SELECT trace_id, span_id, start_ns, end_ns, kind FROM spans
WHERE span_id IN (SELECT value FROM json_each(:spans))
"""
_OF_THESE = """
WHERE span_id IN (SELECT value FROM json_each(:spans))
  AND (span_id <> '' OR id IN (SELECT value FROM json_each(:events)))
"""
"""Of events about no span, which the store may have any number of, only those with the same ids."""


# Which rows were imported: alarms must not take them for verdicts that arrived late.


def _last_rows(connection: sqlite3.Connection) -> Sequence[int]:
    last: Sequence[int] = connection.execute(_LAST).fetchone()
    return last


def _note_imported(connection: sqlite3.Connection, before: Sequence[int]) -> None:
    """Note the rows that this transaction has written."""
    ranges = imported(connection)
    for of_table, first, last in zip(ranges.values(), before, _last_rows(connection), strict=True):
        if last > first:
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
