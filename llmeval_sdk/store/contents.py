"""What a store holds at all, so that pages with nothing to show need not be offered."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from llmeval_sdk.store._schema import MAY_BE_TURN
from llmeval_sdk.store.versions import dimensions


def held(connection: sqlite3.Connection, kinds: Iterable[str]) -> set[str]:
    """Return which are there of ``sessions``, ``agents``, ``scores``, ``verdicts``, ``versions``.

    Versions are there where judges answered, since they are compared by that. Each question is
    answered by an index, or by the first row that is found.
    """
    wanted = set(kinds)
    found = {kind for kind in wanted & _ANY.keys() if _is_any(connection, kind)}
    if "versions" in wanted and _is_any(connection, "verdicts") and dimensions(connection):
        found.add("versions")
    return found


def _is_any(connection: sqlite3.Connection, kind: str) -> bool:
    return connection.execute(_ANY[kind]).fetchone() is not None


_ANY = {
    "sessions": f"SELECT 1 FROM spans WHERE {MAY_BE_TURN} LIMIT 1",  # noqa: S608 - a constant
    "scores": "SELECT 1 WHERE EXISTS (SELECT 1 FROM evaluations)"
    " OR EXISTS (SELECT 1 FROM not_run) OR EXISTS (SELECT 1 FROM feedback)",
    "agents": "SELECT 1 FROM (SELECT kind FROM spans ORDER BY seq DESC LIMIT 2000)"
    " WHERE kind IN ('agent', 'tool') LIMIT 1",
    "verdicts": "SELECT 1 FROM evaluations WHERE evaluator_kind = 'judge' LIMIT 1",
}
