"""Which evaluators, spans and labels a store knows: a jump per name, not a scan."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass


MAX_NAMES = 200


@dataclass(frozen=True, slots=True)
class Known:
    """The names in a store, sorted; at most `MAX_NAMES` of each."""

    heuristics: tuple[str, ...] = ()
    judges: tuple[str, ...] = ()
    """Also those that never ran."""
    spans: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    """What people's feedback is called."""
    numeric: frozenset[str] = frozenset()
    """The evaluators that give numbers, by which spans can be sorted."""

    @property
    def evaluators(self) -> tuple[str, ...]:
        """Judges first."""
        return (*self.judges, *self.heuristics)


def known(connection: sqlite3.Connection) -> Known:
    """Return the names in a store."""
    kinds = {name: _kind(connection, name) for name in _names(connection, "evaluations", "name")}
    refused = _names(connection, "not_run", "evaluator")
    judges = {name for name, kind in kinds.items() if kind == "judge"} | set(refused)
    return Known(
        tuple(name for name in kinds if name not in judges),
        tuple(sorted(judges)),
        _names(connection, "spans", "name"),
        _names(connection, "feedback", "name"),
        frozenset(name for name in kinds if connection.execute(_NUMERIC, (name,)).fetchone()),
    )


def _kind(connection: sqlite3.Connection, name: str) -> str:
    row = connection.execute(_KIND, (name,)).fetchone()
    return str(row[0]) if row else ""


def _names(connection: sqlite3.Connection, table: str, column: str) -> tuple[str, ...]:
    found = connection.execute(_NAMES.format(table=table, column=column), (MAX_NAMES,))
    return tuple(row[0] for row in found if row[0] is not None)


_KIND = """
SELECT evaluator_kind FROM evaluations WHERE name = ? ORDER BY time_ns DESC LIMIT 1
"""

_NUMERIC = """
SELECT 1 FROM evaluations WHERE name = ? AND value IS NOT NULL AND value < '' LIMIT 1
"""

_NAMES = """
WITH RECURSIVE each(name) AS (
  SELECT min({column}) FROM {table}
  UNION ALL
  SELECT (SELECT min({column}) FROM {table} WHERE {column} > each.name) FROM each
  WHERE each.name IS NOT NULL
) SELECT name FROM each LIMIT ?
"""
