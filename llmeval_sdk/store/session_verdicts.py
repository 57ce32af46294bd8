"""Reads from a store what was said of sessions: the verdicts that count, and those before them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from llmeval_sdk.model import EvaluationEvent
from llmeval_sdk.store import _rows
from llmeval_sdk.store._schema import OF_SESSION, SESSION
from llmeval_sdk.store.effective import counting_of_session
from llmeval_sdk.store.reader import StoreReader


LONGEST_ID = 256
"""Characters of a session's id that its verdicts keep."""


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
    which = f"{SESSION} IS NOT NULL" if session_id is None else _OF_ONE
    about = {"session": (session_id or "")[:LONGEST_ID], "most": most}
    rows = reader.read(lambda c: c.execute(_VERDICTS.format(which), about).fetchall())
    return _by_session(map(_rows.evaluation_of, rows))


def _by_session(events: Iterable[EvaluationEvent]) -> list[StoredSession]:
    """Group evaluations, the newest first, by the session that they are about."""
    sessions: dict[str, StoredSession] = {}
    for event in events:
        name = str(event.evaluation.metadata.get("session_id"))
        sessions.setdefault(name, StoredSession(name)).history.append(event)
    for session in sessions.values():
        session.newest.update(
            (event.evaluation.name, event) for event in counting_of_session(session.history)
        )
    return list(sessions.values())


A_NAME = f"""name IN (WITH RECURSIVE names(name) AS (
  SELECT min(name) FROM evaluations WHERE {OF_SESSION}
  UNION ALL
  SELECT (SELECT min(name) FROM evaluations WHERE {OF_SESSION} AND name > names.name) FROM names
  WHERE names.name IS NOT NULL
) SELECT name FROM names)
"""  # noqa: S608 - constants
"""The index begins with the evaluator's name, so the few names that there are come first."""
_OF_ONE = f"{SESSION} = :session AND {A_NAME}"

_VERDICTS = f"""
SELECT {", ".join(_rows.COLUMNS["evaluations"])} FROM evaluations
WHERE {OF_SESSION} AND {{}} ORDER BY time_ns DESC, span_id DESC, seq DESC LIMIT :most
"""  # noqa: S608
