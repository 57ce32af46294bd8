"""Which span of a trace is its request: the one without a parent in the store.

A span is a request because of how it began and never because its parent is missing: nothing of ours
was above it. Where something else was, such as another service or another library, the id of that
parent stands in ``outside_parent``, and ``parent_id`` is null, unless the span is part of a request
after all: if its parent is stored too, if the trace has a span that nothing is above, or if another
span with the same outside parent began earlier. Then both columns have the id. So every list of
requests asks for ``parent_id IS NULL``, and this module alone decides where that holds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from llmeval_sdk.store.encode import COLUMNS, Row, dumps


_COLUMN = {name: place for place, name in enumerate(COLUMNS["spans"])}
_TRACE, _SPAN, _PARENT, _OUTSIDE = (
    _COLUMN[name] for name in ("trace_id", "span_id", "parent_id", "outside_parent")
)


def settle_requests(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    """Take back, inside the caller's transaction, which spans are no requests beside new ones.

    A local root is written as a request. What is above it mostly ends later, and so arrives later;
    whatever arrives can only show that a span is none, so those that are none need no second look.
    """
    if not connection.execute(_HAS_LOCAL_ROOTS).fetchone()[0]:  # after the rows were written
        return
    above = {(row[_TRACE], row[_SPAN]) for row in rows}
    above |= {(row[_TRACE], row[_OUTSIDE]) for row in rows if row[_OUTSIDE] is not None}
    whole = {row[_TRACE] for row in rows if row[_PARENT] is None and row[_OUTSIDE] is None}
    connection.execute(_SETTLE, {"above": dumps(list(above)), "whole": dumps(list(whole))})


_HAS_LOCAL_ROOTS = """
SELECT EXISTS (SELECT 1 FROM spans INDEXED BY spans_local_roots
  WHERE outside_parent IS NOT NULL AND parent_id IS NULL)
"""

_SETTLE = """
UPDATE spans SET parent_id = outside_parent WHERE seq IN (
  SELECT s.seq FROM json_each(:above) a CROSS JOIN spans s INDEXED BY spans_requests
  WHERE s.trace_id = json_extract(a.value, '$[0]')
    AND s.outside_parent = json_extract(a.value, '$[1]') AND s.parent_id IS NULL AND (
    EXISTS (SELECT 1 FROM spans e INDEXED BY spans_requests
      WHERE e.trace_id = s.trace_id AND e.outside_parent = s.outside_parent
        AND e.parent_id IS NULL AND (e.start_ns, e.span_id) < (s.start_ns, s.span_id))
    OR EXISTS (SELECT 1 FROM spans r INDEXED BY spans_requests
      WHERE r.trace_id = s.trace_id AND r.outside_parent IS NULL AND r.parent_id IS NULL)
    OR EXISTS (SELECT 1 FROM spans p
      WHERE p.trace_id = s.trace_id AND p.span_id = s.outside_parent))
  UNION ALL
  SELECT s.seq FROM spans s INDEXED BY spans_requests
  WHERE s.trace_id IN (SELECT value FROM json_each(:whole))
    AND s.outside_parent IS NOT NULL AND s.parent_id IS NULL)
"""
"""It looks at the spans below those that came, and beside them, however many a trace has."""


INCOMPLETE = "the span that its request began with was dropped or pruned, or is not yet written"
"""Why spans are stored of a trace that no list of requests has."""


def is_incomplete(connection: sqlite3.Connection, trace_id: str | None = None) -> bool:
    """Say whether a trace has spans but no request; without one, whether the whole store has."""
    return bool(connection.execute(_IS_INCOMPLETE, {"trace": trace_id}).fetchone()[0])


_IS_INCOMPLETE = """
SELECT CASE WHEN :trace IS NULL
  THEN EXISTS (SELECT 1 FROM spans) AND NOT EXISTS (SELECT 1 FROM spans WHERE parent_id IS NULL)
  ELSE EXISTS (SELECT 1 FROM spans WHERE trace_id = :trace)
    AND NOT EXISTS (SELECT 1 FROM spans WHERE trace_id = :trace AND parent_id IS NULL) END
"""
