"""Finds spans by the beginning of their ids."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SpanRef:
    """Enough of a span to tell it from others."""

    trace_id: str | None
    span_id: str
    name: str | None
    start_ns: int | None


def spans_like(connection: sqlite3.Connection, prefix: str, limit: int = 10) -> tuple[SpanRef, ...]:
    """Return the spans whose id begins so; of some, only evaluations may be stored."""
    bounds = {"low": prefix, "high": prefix + "\U0010ffff", "limit": limit}
    return tuple(SpanRef(*row) for row in connection.execute(_LIKE, bounds))


_LIKE = """
SELECT trace_id, span_id, name, start_ns FROM (
  SELECT trace_id, span_id, name, start_ns FROM spans WHERE span_id >= :low AND span_id < :high
  UNION ALL
  SELECT trace_id, span_id, span_name, NULL FROM evaluations
  WHERE span_id >= :low AND span_id < :high
  UNION ALL
  SELECT trace_id, span_id, span_name, NULL FROM not_run WHERE span_id >= :low AND span_id < :high
) WHERE span_id != '' GROUP BY span_id ORDER BY span_id LIMIT :limit
"""
