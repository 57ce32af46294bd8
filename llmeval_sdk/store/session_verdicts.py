"""Reads from a store what was said of sessions: the newest verdicts, and those before them."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field

from llmeval_sdk.model import EvaluationEvent
from llmeval_sdk.store import _rows
from llmeval_sdk.store.reader import StoreReader


@dataclass(frozen=True, slots=True)
class StoredSession:
    """One session with its evaluations.

    Attributes:
        session_id: its id, cut to 256 characters.
        newest: the latest evaluation by each evaluator: those that count.
        history: all evaluations, the newest first; ``metadata["period"]`` says after which pause.
    """

    session_id: str
    newest: dict[str, EvaluationEvent] = field(default_factory=dict)
    history: list[EvaluationEvent] = field(default_factory=list)


def stored_sessions(
    reader: StoreReader, session_id: str | None = None, *, most: int = 1_000
) -> list[StoredSession]:
    """Return the sessions of a store that were evaluated, the latest first.

    Args:
        reader: Of the store.
        session_id: Only this session.
        most: How many evaluations are read, from the newest on.
    """
    columns = ", ".join(_rows.COLUMNS["evaluations"])
    query = (
        f"SELECT {columns} FROM evaluations WHERE instr(metadata, '\"scope\"')"  # noqa: S608
        " AND json_extract(metadata, '$.scope') = 'session'"
        " AND ifnull(json_extract(metadata, '$.session_id') = ?, 1)"
        " ORDER BY time_ns DESC, seq DESC LIMIT ?"
    )

    def read(connection: sqlite3.Connection) -> list[tuple[object, ...]]:
        return connection.execute(query, (session_id, most)).fetchall()

    sessions: dict[str, StoredSession] = {}
    for row in reader.read(read):
        event = _rows.evaluation_of(row)
        name = str(event.evaluation.metadata.get("session_id"))
        session = sessions.setdefault(name, StoredSession(name))
        session.newest.setdefault(event.evaluation.name, event)
        session.history.append(event)
    return list(sessions.values())
