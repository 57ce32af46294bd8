"""Reads sessions from a store: their turns page by page, and what all of them add up to.

A turn is a workflow, an agent or a root span of the session that lies inside no other one that says
what was asked or answered. A span around a whole chat that says neither is no turn.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from llmeval_sdk.model import EvaluationEvent
from llmeval_sdk.store import encode
from llmeval_sdk.store._schema import MAY_BE_TURN, OF_SESSION, SESSION
from llmeval_sdk.store.encode import dumps
from llmeval_sdk.store.latest import latest_of_session
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.texts import whole


# Reads from a store what was said of sessions: the verdicts that count, and those before them.

MAX_ID_LENGTH = 256
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
    sql = _ALL_VERDICTS if session_id is None else _VERDICTS_OF_ONE
    about = {"session": (session_id or "")[:MAX_ID_LENGTH], "most": most}
    rows = reader.read(lambda c: c.execute(sql, about).fetchall())
    return _by_session(map(encode.evaluation_of, rows))


def _by_session(events: Iterable[EvaluationEvent]) -> list[StoredSession]:
    """Group evaluations, the newest first, by the session that they are about."""
    sessions: dict[str, StoredSession] = {}
    for event in events:
        name = str(event.evaluation.metadata.get("session_id"))
        sessions.setdefault(name, StoredSession(name)).history.append(event)
    for session in sessions.values():
        session.newest.update(
            (event.evaluation.name, event) for event in latest_of_session(session.history)
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

_COLUMNS = ", ".join(encode.COLUMNS["evaluations"])
_ALL_VERDICTS = f"""
SELECT {_COLUMNS} FROM evaluations WHERE {OF_SESSION} AND {SESSION} IS NOT NULL
ORDER BY time_ns DESC, span_id DESC, seq DESC LIMIT :most
"""  # noqa: S608 - constants
_VERDICTS_OF_ONE = f"""
SELECT {_COLUMNS} FROM evaluations WHERE {OF_SESSION} AND {SESSION} = :session AND {A_NAME}
ORDER BY time_ns DESC, span_id DESC, seq DESC LIMIT :most
"""  # noqa: S608 - constants


PAGE_TURNS = 30
MAX_TURNS = 100_000
"""How many turns of one session are added up."""
READ_TEXT = 60_000
"""A question or answer is read as JSON if it has at most so many characters, else as its start."""
_START = 4_000
_MAX_CALLS = 500
"""Spans of one turn's trace among which its tool calls are looked for."""


class SessionTurn(NamedTuple):
    """One turn of a session, as the store has it."""

    trace_id: str
    span_id: str
    name: str
    kind: str
    start_ns: int
    end_ns: int
    error_type: str | None
    request: str | None
    """JSON; ``None`` if it was not captured or is longer than `READ_TEXT`."""
    response: str | None
    request_start: str | None
    """The first characters of the request's JSON; so is `response_start` of the response's."""
    response_start: str | None


@dataclass(frozen=True, slots=True)
class SessionTotals:
    """Sums over the turns of a session."""

    turns: int
    first_ns: int
    last_ns: int
    busy_ns: int
    """How long its turns took together."""
    errors: int
    """How many turns raised an error."""
    is_whole: int
    """Whether all turns are counted; if not, the first `MAX_TURNS` of them are."""
    calls: int
    """How many calls of models said what they used, all of which are counted."""
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    priced: int
    """The number of counted calls that have a cost."""


def session_totals(connection: sqlite3.Connection, session_id: str) -> SessionTotals | None:
    """Return the sums over the turns of a session; ``None`` if the store has no turn of it."""
    about = {"session": session_id, "most": MAX_TURNS}
    summed = connection.execute(_SUMS, about).fetchone()
    if not summed[0]:
        return None
    spent = connection.execute(_SPENT, (session_id,)).fetchone()
    return SessionTotals(*summed, *spent)


def session_turns(
    connection: sqlite3.Connection, session_id: str, first: int = 1, *, most: int = PAGE_TURNS
) -> list[SessionTurn]:
    """Return some turns of a session in the order in which they began.

    Args:
        connection: a store that is open.
        session_id: the whole id.
        first: the number of the first turn to return, beginning with 1.
        most: how many turns are returned.
    """
    about = {"session": session_id, "most": most, "before": max(first, 1) - 1}
    seqs = [seq for (seq,) in connection.execute(_PLACES, about)]
    rows = connection.execute(_TURNS, (dumps(seqs),))
    by_seq = {row[0]: SessionTurn(*row[1:]) for row in rows}
    return [by_seq[seq] for seq in seqs]


class ToolUse(NamedTuple):
    """A call of a tool during a turn."""

    name: str
    error_type: str | None
    start_ns: int


def tool_uses(connection: sqlite3.Connection, trace_ids: Sequence[str]) -> dict[str, list[ToolUse]]:
    """Return the tool calls among the first `_MAX_CALLS` spans of each of some traces."""
    uses = {}
    for trace_id in dict.fromkeys(trace_ids):
        rows = connection.execute(_TOOLS, (trace_id, _MAX_CALLS))
        uses[trace_id] = [ToolUse(*row) for row in rows]
    return uses


class ListedSession(NamedTuple):
    """One session of a list, with its latest turn."""

    session_id: str
    seq: int
    start_ns: int
    request: str | None
    """The first 300 characters of the latest request as JSON."""
    turns: int
    """At most `MAX_COUNTED`."""


@dataclass(frozen=True, slots=True)
class SessionPage:
    """Some sessions, the latest first, and how far the search for them went."""

    items: tuple[ListedSession, ...]
    next: tuple[int, int] | None
    """Time and ``seq`` after which the next page begins; ``None`` at the end."""
    looked_at: int


PAGE_SESSIONS = 50
PAGE_SECONDS = 0.12
MAX_COUNTED = 100
"""A list counts at most so many turns of each session."""


def sessions_page(
    connection: sqlite3.Connection,
    after: tuple[int, int] | None = None,
    *,
    user: Sequence[str] | None = None,
    rows: int = PAGE_SESSIONS,
    seconds: float = PAGE_SECONDS,
) -> SessionPage:
    """List sessions by their latest root span, as far as a page's time goes.

    With the forms of a ``user``'s id, these are the sessions in which a request has that user, by
    the latest of those.
    """
    deadline = time.monotonic() + seconds
    items: list[ListedSession] = []
    looked_at = 0
    start, seq = after or _END
    sql = _LATEST if user is None else _LATEST_OF_USER
    arguments = {"start": start, "seq": seq, "user": dumps(list(user or ()))}
    for seq, start, session_id, request, is_latest in connection.execute(sql, arguments):
        looked_at += 1
        after = start, seq
        if is_latest:
            about = {"session": session_id, "most": MAX_COUNTED}
            count = connection.execute(_COUNTED, about).fetchone()[0]
            items.append(ListedSession(session_id, seq, start, request, count))
        if len(items) == rows or (not looked_at % 100 and time.monotonic() > deadline):
            break
    else:
        after = None
    return SessionPage(tuple(items), after, looked_at)


def users_of(connection: sqlite3.Connection, span_ids: Sequence[str]) -> list[str]:
    """Return the ids of the users whom some spans name, each once."""
    return [user for (user,) in connection.execute(_USERS, (dumps(list(span_ids)),))]


def is_of_user(span: str) -> str:
    """Return the condition in SQL under which a span, by its table's name, names a user.

    The forms of the user's id are the argument ``user``, as a list in JSON.
    """
    forms = "(SELECT value FROM json_each(:user))"
    return f"""(json_valid({span}.tags) AND (
  CAST(json_extract({span}.tags, '$.user_id') AS TEXT) IN {forms}
  OR CAST(json_extract({span}.tags, '$."user.id"') AS TEXT) IN {forms}))"""


def is_request_of_user(span: str) -> str:
    """Return the condition for a request: the span or another span of its trace names the user."""
    return f"""({is_of_user(span)} OR EXISTS (
  SELECT 1 FROM spans u WHERE u.trace_id = {span}.trace_id AND u.tags IS NOT NULL
    AND {is_of_user("u")}))"""  # noqa: S608 - constants


def is_turn(span: str) -> str:
    """Return the condition in SQL under which a span, by its table's name, is a turn.

    The session's id is the argument ``session``. An index alone answers it for a session whose
    turns have nothing inside them.
    """
    return f"""
session_id = :session AND {MAY_BE_TURN}
AND (parent_id IS NULL OR NOT EXISTS (SELECT 1 FROM spans p
  WHERE p.trace_id = {span}.trace_id AND p.span_id = {span}.parent_id
    AND p.session_id = {span}.session_id AND (p.request IS NOT NULL OR p.response IS NOT NULL)))
AND NOT (EXISTS (SELECT 1 FROM spans WHERE session_id = :session AND {MAY_BE_TURN}
    AND parent_id IS NOT NULL)
  AND EXISTS (SELECT 1 FROM spans c WHERE c.session_id = {span}.session_id AND {MAY_BE_TURN}
    AND c.start_ns BETWEEN {span}.start_ns AND {span}.end_ns AND c.parent_id IS NOT NULL
    AND c.seq != {span}.seq AND c.trace_id = {span}.trace_id)
  AND request IS NULL AND response IS NULL)
"""  # noqa: S608 - constants


_IS_TURN = is_turn("spans")

_SUMS = f"""
SELECT count(*), min(start_ns), max(end_ns), sum(max(end_ns - start_ns, 0)), count(error_type),
  count(*) < :most
FROM (SELECT start_ns, end_ns, error_type FROM spans WHERE {_IS_TURN} LIMIT :most)
"""  # noqa: S608

_PLACES = f"""
SELECT seq FROM spans WHERE {_IS_TURN}
ORDER BY start_ns, end_ns, parent_id, error_type, seq LIMIT :most OFFSET :before
"""  # noqa: S608

_REQUEST, _RESPONSE = whole("request"), whole("response")
_TURNS = f"""
SELECT seq, trace_id, span_id, name, kind, start_ns, end_ns, error_type,
  CASE WHEN length({_REQUEST}) <= {READ_TEXT} THEN {_REQUEST} END,
  CASE WHEN length({_RESPONSE}) <= {READ_TEXT} THEN {_RESPONSE} END,
  substr({_REQUEST}, 1, {_START}), substr({_RESPONSE}, 1, {_START})
FROM spans WHERE seq IN (SELECT value FROM json_each(?))
"""  # noqa: S608

_COUNTED = f"SELECT count(*) FROM (SELECT 1 FROM spans WHERE {_IS_TURN} LIMIT :most)"  # noqa: S608

_SPENT = """
SELECT count(*), ifnull(sum(input_tokens), 0), ifnull(sum(output_tokens), 0), sum(cost_usd),
  count(cost_usd)
FROM spans WHERE session_id = ? AND kind = 'llm' AND input_tokens IS NOT NULL
"""

_TOOLS = """
SELECT name, error_type, start_ns FROM (
  SELECT name, error_type, start_ns, kind FROM spans WHERE trace_id = ? LIMIT ?
) WHERE kind = 'tool' ORDER BY start_ns
"""

_END = 2**63 - 1, 2**63 - 1


def _latest_roots_sql(of_user: str, same_user: str) -> str:
    return f"""
SELECT seq, start_ns, session_id, substr({_REQUEST}, 1, 300),
  CASE WHEN session_id IS NOT NULL AND {of_user} THEN seq = (
    SELECT r.seq FROM spans r WHERE r.session_id = spans.session_id
      AND {MAY_BE_TURN} AND r.parent_id IS NULL AND {same_user}
    ORDER BY r.start_ns DESC, r.end_ns DESC, r.seq DESC LIMIT 1) END
FROM spans WHERE parent_id IS NULL AND (start_ns, seq) < (:start, :seq)
ORDER BY start_ns DESC, seq DESC
"""  # noqa: S608 - constants


_LATEST = _latest_roots_sql("1", "1")
_LATEST_OF_USER = _latest_roots_sql(is_request_of_user("spans"), is_request_of_user("r"))

_USERS = """
SELECT DISTINCT CAST(t.value AS TEXT) FROM spans, json_each(
  CASE WHEN json_valid(tags) THEN tags ELSE '{}' END) t
WHERE span_id IN (SELECT value FROM json_each(?)) AND t.key IN ('user_id', 'user.id')
"""
