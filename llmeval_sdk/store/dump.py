"""Reads a store from end to end, a slice at a time: each span with all that was said of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from llmeval_sdk.model import EvaluationEvent, NotRun, SpanData
from llmeval_sdk.store import encode
from llmeval_sdk.store.encode import COLUMNS, Row
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.texts import columns_of


SLICE = 200
"""How many spans one reading takes. A longer one would hold up the writer's checkpoints."""


class StoredSpan(NamedTuple):
    """One span with its evaluations, the judges that did not run, and people's feedback."""

    span: SpanData
    evaluations: tuple[EvaluationEvent, ...]
    not_run: tuple[NotRun, ...]
    feedback: tuple[EvaluationEvent, ...]


class DumpScope(NamedTuple):
    """Which spans to read, by start time and name.

    ``since`` (inclusive) and ``until`` (exclusive) are nanoseconds since the epoch.
    """

    since: int | None = None
    until: int | None = None
    span_name: str | None = None

    def where(self) -> tuple[str, tuple[Any, ...]]:
        """Return the condition in SQL, and its arguments."""
        conditions = {
            "start_ns >= ?": self.since,
            "start_ns < ?": self.until,
            "name = ?": self.span_name,
        }
        present = {condition: value for condition, value in conditions.items() if value is not None}
        return " AND ".join(present) or "1", tuple(present.values())


def count(reader: StoreReader, scope: DumpScope) -> int:
    """Count the spans of a scope."""
    where, values = scope.where()
    query = f"SELECT count(*) FROM spans WHERE {where}"  # noqa: S608
    return reader.read(lambda connection: int(connection.execute(query, values).fetchone()[0]))


def dump(reader: StoreReader, scope: DumpScope) -> Iterator[StoredSpan]:
    """Yield the spans of a scope in the order in which they arrived.

    Spans that are written meanwhile are included, and spans that are pruned meanwhile are left out.
    """
    after = 0
    while True:
        batch = reader.read(partial(_slice, scope=scope, after=after))
        if not batch:
            return
        yield from (span for _, span in batch)
        after = batch[-1][0]


def _slice(
    connection: sqlite3.Connection, scope: DumpScope, after: int
) -> list[tuple[int, StoredSpan]]:
    where, values = scope.where()
    span_rows = connection.execute(
        f"SELECT seq, {columns_of('spans')} FROM spans "  # noqa: S608
        f"WHERE seq > ? AND {where} ORDER BY seq LIMIT {SLICE}",
        (after, *values),
    ).fetchall()
    spans = [(row[0], encode.span_of(row[1:])) for row in span_rows]
    ids = [span.span_id for _, span in spans]
    evaluations = _about(connection, "evaluations", ids, encode.evaluation_of)
    not_run = _about(connection, "not_run", ids, encode.not_run_of)
    feedback = _about(connection, "feedback", ids, encode.evaluation_of)
    return [
        (seq, StoredSpan(span, _of(evaluations, span), _of(not_run, span), _of(feedback, span)))
        for seq, span in spans
    ]


def _about(
    connection: sqlite3.Connection, table: str, ids: Sequence[str], read: Any
) -> dict[str, list[Any]]:
    """Return what a table holds about some spans, by span id; ``read`` turns a row into a noun."""
    query = (
        f"SELECT {','.join(COLUMNS[table])} FROM {table} "  # noqa: S608
        f"WHERE span_id IN ({','.join('?' * len(ids))}) ORDER BY time_ns, seq"
    )
    by_span: dict[str, list[Any]] = {}
    row: Row
    for row in connection.execute(query, ids):
        noun = read(row)
        by_span.setdefault(noun.target.span_id, []).append(noun)
    return by_span


def _of(by_span: dict[str, list[Any]], span: SpanData) -> tuple[Any, ...]:
    """Return what is about this span, and not about one with the same id in another trace."""
    nouns = by_span.get(span.span_id, ())
    return tuple(noun for noun in nouns if noun.target.trace_id in (None, span.trace_id))
