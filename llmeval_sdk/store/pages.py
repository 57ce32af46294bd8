"""Pages of spans for a list: filtered, in order, and each within a bounded time.

A page walks one index (see `walks`) and checks the other filters row by row, until it is full or
its time is up. Then it says how far it looked and where to go on, so a rare match in a
store of millions costs several short pages instead of one long wait.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from llmeval_sdk import _values
from llmeval_sdk.store import walks
from llmeval_sdk.store.query import Place, Query


PAGE_ROWS = 50
PAGE_SECONDS = 0.12
"""How long a page looks for matches; what it has by then is the page."""


@dataclass(frozen=True, slots=True)
class Item:
    """One span of a page, with the beginning of what it holds."""

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
    """The first 300 characters of its JSON."""
    response: str | None


@dataclass(frozen=True, slots=True)
class Page:
    """Some spans in order, and how far the search for them went."""

    items: tuple[Item, ...]
    next: Place | None
    """Where the next page begins; ``None`` at the end."""
    looked_at: int
    """How many spans were checked against the filters."""
    full: bool
    """All the rows that were asked for were found; otherwise time or spans ran out."""


def page(
    connection: sqlite3.Connection,
    query: Query,
    after: Place | None = None,
    *,
    rows: int = PAGE_ROWS,
    seconds: float = PAGE_SECONDS,
) -> Page:
    """Read the page of ``query`` that begins after a place."""
    deadline = time.monotonic() + seconds
    found: dict[int, None] = {}  # in order, and each span once, however often it was scored
    looked_at, end = 0, False
    sql, given = walks.choose(query).candidates(after)
    for key, seq, span, matches in connection.execute(sql, given):
        looked_at += 1
        after = Place(key, seq)
        if matches:
            found[span] = None
        if len(found) == rows or time.monotonic() >= deadline:
            break
    else:
        end = True
    items = _items(connection, found)
    return Page(items, None if end else after, looked_at, full=len(found) == rows)


def _items(connection: sqlite3.Connection, wanted: Iterable[int]) -> tuple[Item, ...]:
    seqs = list(wanted)
    sql = _ITEMS.format(",".join("?" * len(seqs)))
    by_seq = {row[0]: Item(*row) for row in connection.execute(sql, seqs)}
    return tuple(by_seq[seq] for seq in seqs)


@dataclass(frozen=True, slots=True)
class Said:
    """One score, refusal or label of a span, as a list shows it."""

    name: str
    value: Any = None
    """As stored: a float, 0 or 1 for a bool, a text, or ``None``."""
    label: str | None = None
    error: str | None = None
    reason: str | None = None
    """Why it did not run; then there is nothing else."""
    judge: bool = False
    near_constant: bool = False
    """Its metadata says that the score is nearly the same whatever happened."""


def said_of(
    connection: sqlite3.Connection, span_ids: Iterable[str]
) -> tuple[dict[str, dict[str, Said]], dict[str, dict[str, Said]]]:
    """Return what evaluators and what people said of some spans, the latest of each name."""
    wanted = list(span_ids)
    marks = ",".join("?" * len(wanted))
    scores: dict[str, dict[str, Said]] = {}
    for span_id, name, reason in connection.execute(_REFUSALS.format(marks), wanted):
        scores.setdefault(span_id, {})[name] = Said(name, reason=reason, judge=True)
    people: dict[str, dict[str, Said]] = {}
    for table, into in (("evaluations", scores), ("feedback", people)):
        for span_id, name, value, label, error, kind, same in connection.execute(
            _SAID.format(table, marks), wanted
        ):
            said = Said(name, value, label, error, judge=kind == "judge", near_constant=bool(same))
            into.setdefault(span_id, {})[name] = said
    return scores, people


_ITEMS = """
SELECT seq, trace_id, span_id, parent_id, name, kind, start_ns, end_ns, error_type, session_id,
  substr(request, 1, 300), substr(response, 1, 300)
FROM spans WHERE seq IN ({})
"""

_SAID = f"""
SELECT span_id, name, value, label, error_type, evaluator_kind,
  instr(ifnull(metadata, ''), '"{_values.NEAR_CONSTANT}":true') FROM {{}}
WHERE span_id IN ({{}}) ORDER BY time_ns, seq
"""  # noqa: S608

_REFUSALS = "SELECT span_id, evaluator, reason FROM not_run WHERE span_id IN ({}) ORDER BY seq"
