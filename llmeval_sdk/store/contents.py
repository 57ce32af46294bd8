"""What a store holds at all, so that pages with nothing to show need not be offered."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from llmeval_sdk.store._schema import MAY_BE_TURN
from llmeval_sdk.store.versions import dimensions


def held(connection: sqlite3.Connection, kinds: Iterable[str]) -> set[str]:
    """Return those of ``sessions``, ``scores``, ``verdicts`` and ``versions`` that are there.

    Each question is answered by an index, or by the first row that is found.
    """
    wanted = set(kinds)
    found = {kind for kind in wanted & _ANY.keys() if connection.execute(_ANY[kind]).fetchone()}
    return found | ({"versions"} if "versions" in wanted and dimensions(connection) else set())


_ANY = {
    "sessions": f"SELECT 1 FROM spans WHERE {MAY_BE_TURN} LIMIT 1",  # noqa: S608 - a constant
    "scores": "SELECT 1 WHERE EXISTS (SELECT 1 FROM evaluations)"
    " OR EXISTS (SELECT 1 FROM not_run) OR EXISTS (SELECT 1 FROM feedback)",
    "verdicts": "SELECT 1 FROM evaluations WHERE evaluator_kind = 'judge' LIMIT 1",
}
