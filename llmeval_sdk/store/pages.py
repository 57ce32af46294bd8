"""Pages of a list of spans: filtered, in order, and each read within a bounded time.

A page walks along one index (see `walks`) and checks the other filters row by row, until it is full
or its time is up. It then says how many spans it looked at and where the next page begins. So a
rare match in a store of millions costs several short pages instead of one long wait.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from llmeval_sdk.model import values
from llmeval_sdk.model.chat import question
from llmeval_sdk.store import walks
from llmeval_sdk.store.effective import STANDING
from llmeval_sdk.store.encode import cell, dumps, loads
from llmeval_sdk.store.said import teach
from llmeval_sdk.store.walks import Place, Query


_BEGINNING = 300
"""Characters of a request or response that a list has."""
PAGE_ROWS = 50
PAGE_SECONDS = 0.12
"""How long a page looks for matches before it returns those that it has."""


@dataclass(frozen=True, slots=True)
class ListedSpan:
    """One span of a page, with the beginnings of its texts."""

    seq: int
    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    kind: str
    start_ns: int
    end_ns: int
    error_type: str | None
    session_id: str | None
    request: str | None
    """The first 300 characters of the request as JSON; of a chat, those of the last message that a
    user wrote. `response` is cut in the same way."""
    response: str | None


@dataclass(frozen=True, slots=True)
class Page:
    """Some spans of a list in order, and how far the search for them went."""

    items: tuple[ListedSpan, ...]
    next: Place | None
    """The place after which the next page begins; ``None`` at the end of the list."""
    looked_at: int
    """How many spans were checked against the filters."""
    full: bool
    """Whether the page has all the rows that it may have; if not, time or spans ran out."""


def page(
    connection: sqlite3.Connection,
    query: Query,
    after: Place | None = None,
    *,
    rows: int = PAGE_ROWS,
    seconds: float = PAGE_SECONDS,
) -> Page:
    """Read the page of a list that begins after a place, or the first page without one."""
    deadline = time.monotonic() + seconds
    matching: dict[int, None] = {}  # ordered, and each span once, however often it was scored
    looked_at, end = 0, False
    teach(connection)
    sql, arguments = walks.choose(query).candidates(after)
    for key, seq, span, matches in connection.execute(sql, arguments):
        looked_at += 1
        after = Place(key, seq)
        if matches:
            matching[span] = None
        if len(matching) == rows or time.monotonic() >= deadline:
            break
    else:
        end = True
    items = _items(connection, matching)
    return Page(items, None if end else after, looked_at, full=len(matching) == rows)


def _items(connection: sqlite3.Connection, wanted: Iterable[int]) -> tuple[ListedSpan, ...]:
    seqs = list(wanted)
    sql = _ITEMS.format(",".join("?" * len(seqs)))
    listed = (ListedSpan(*row) for row in connection.execute(sql, seqs))
    by_seq = {item.seq: replace(item, request=_asked(item.request)) for item in listed}
    return tuple(by_seq[seq] for seq in seqs)


def _asked(stored: Any) -> Any:
    """Return the beginning of a request, or of the last question where it is a chat.

    All chats of an app begin with the same instructions.
    """
    if not (isinstance(stored, str) and stored.startswith(_CHAT)):
        return stored
    try:
        asked = question(loads(stored))
    except (ValueError, RecursionError):
        asked = None
    return (cell(dumps(asked)) if asked else stored)[:_BEGINNING]


@dataclass(frozen=True, slots=True)
class Said:
    """What a list shows under one name for a span: a score, a refusal or a person's label."""

    name: str
    value: Any = None
    """The value as the store holds it: a float, 0 or 1 for a bool, a text, or ``None``."""
    label: str | None = None
    error: str | None = None
    reason: str | None = None
    """Why a judge did not run; the other fields are then empty."""
    near_constant: bool = False
    """Whether the metadata says that the score is nearly the same whatever happened."""


def said_of(
    connection: sqlite3.Connection, span_ids: Iterable[str]
) -> tuple[dict[str, dict[str, Said]], dict[str, dict[str, Said]]]:
    """Return the latest scores and the latest labels of some spans, by span id and name."""
    wanted = list(span_ids)
    marks = ",".join("?" * len(wanted))
    scores: dict[str, dict[str, Said]] = {}
    for span_id, name, reason in connection.execute(_REFUSALS.format(marks), wanted):
        scores.setdefault(span_id, {})[name] = Said(name, reason=reason)
    people: dict[str, dict[str, Said]] = {}
    for table, into in (("evaluations", scores), ("feedback", people)):
        for span_id, name, value, label, error, same in connection.execute(
            _SAID.format(table, marks), wanted
        ):
            said = Said(
                name,
                value,
                label,
                error,
                near_constant=bool(same),
            )
            into.setdefault(span_id, {})[name] = said
    return scores, people


_CHAT = '{"messages":['
_IS_CHAT = f"substr(request, 1, {len(_CHAT)}) = '{_CHAT}'".replace("{", "{{")
_LONGEST_CHAT = 200_000
"""Characters of the longest chat, as JSON, that is searched for its last question."""
_ITEMS = f"""
SELECT seq, trace_id, span_id, parent_id, name, kind, start_ns, end_ns, error_type, session_id,
  CASE WHEN {_IS_CHAT} AND length(request) <= {_LONGEST_CHAT} THEN request
    ELSE substr(request, 1, {_BEGINNING}) END, substr(response, 1, {_BEGINNING})
FROM spans WHERE seq IN ({{}})
"""  # noqa: S608 - constants

_SAID = f"""
SELECT span_id, name, value, label, error_type,
  instr(ifnull(metadata, ''), '"{values.NEAR_CONSTANT}":true') FROM {{}}
WHERE span_id IN ({{}}) ORDER BY {STANDING}, time_ns, seq
"""  # noqa: S608

_REFUSALS = "SELECT span_id, evaluator, reason FROM not_run WHERE span_id IN ({}) ORDER BY seq"
