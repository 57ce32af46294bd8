"""Reading a store from end to end: every span with what was said of it, a slice at a time."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from llmeval_sdk.model import EvaluationEvent, NotRun, SpanData
from llmeval_sdk.store import rows
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.rows import COLUMNS, Row


SLICE = 200
"""Spans per reading: no reading lasts long enough to hold up the writer's checkpoints."""


class Told(NamedTuple):
    """One span with all that was said of it."""

    span: SpanData
    evaluations: tuple[EvaluationEvent, ...]
    not_run: tuple[NotRun, ...]
    feedback: tuple[EvaluationEvent, ...]


class Selection(NamedTuple):
    """Which spans are wanted; ``since`` (inclusive) and ``until`` are nanoseconds."""

    since: int | None = None
    until: int | None = None
    span_name: str | None = None

    def where(self) -> tuple[str, tuple[Any, ...]]:
        """Return the condition in SQL, and its values."""
        given = {
            "start_ns >= ?": self.since,
            "start_ns < ?": self.until,
            "name = ?": self.span_name,
        }
        wanted = {condition: value for condition, value in given.items() if value is not None}
        return " AND ".join(wanted) or "1", tuple(wanted.values())


def count(reader: StoreReader, wanted: Selection) -> int:
    """Count the spans of a selection."""
    where, values = wanted.where()
    query = f"SELECT count(*) FROM spans WHERE {where}"  # noqa: S608
    return reader.read(lambda connection: int(connection.execute(query, values).fetchone()[0]))


def dump(reader: StoreReader, wanted: Selection) -> Iterator[Told]:
    """Give the spans of a selection in their order of arrival.

    What is written meanwhile comes too; a span that is pruned meanwhile is left out.
    """
    after = 0
    while True:
        found = reader.read(partial(_slice, wanted=wanted, after=after))
        if not found:
            return
        yield from (told for _, told in found)
        after = found[-1][0]


def _slice(connection: sqlite3.Connection, wanted: Selection, after: int) -> list[tuple[int, Told]]:
    where, values = wanted.where()
    found = connection.execute(
        f"SELECT seq,{','.join(COLUMNS['spans'])} FROM spans "  # noqa: S608
        f"WHERE seq > ? AND {where} ORDER BY seq LIMIT {SLICE}",
        (after, *values),
    ).fetchall()
    spans = [(row[0], rows.span_of(row[1:])) for row in found]
    ids = [span.span_id for _, span in spans]
    evaluations = _about(connection, "evaluations", ids, rows.evaluation_of)
    not_run = _about(connection, "not_run", ids, rows.not_run_of)
    feedback = _about(connection, "feedback", ids, rows.evaluation_of)
    return [
        (seq, Told(span, _of(evaluations, span), _of(not_run, span), _of(feedback, span)))
        for seq, span in spans
    ]


def _about(
    connection: sqlite3.Connection, table: str, ids: Sequence[str], read: Any
) -> dict[str, list[Any]]:
    """Return what a table holds about some spans, by span id."""
    query = (
        f"SELECT {','.join(COLUMNS[table])} FROM {table} "  # noqa: S608
        f"WHERE span_id IN ({','.join('?' * len(ids))}) ORDER BY time_ns, seq"
    )
    found: dict[str, list[Any]] = {}
    row: Row
    for row in connection.execute(query, ids):
        said = read(row)
        found.setdefault(said.target.span_id, []).append(said)
    return found


def _of(found: dict[str, list[Any]], span: SpanData) -> tuple[Any, ...]:
    """Pick what is about this span: another trace may have a span of the same id."""
    known = found.get(span.span_id, ())
    return tuple(said for said in known if said.target.trace_id in (None, span.trace_id))
