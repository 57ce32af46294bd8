"""Requests without an answer: those whose answer got lost, and those on which the app abstained.

A request that failed is counted as failed. Where content is not captured, nobody knows whether
there was an answer, and there is no figure.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from llmeval_sdk.model import JUDGE_TAG
from llmeval_sdk.store._schema import MAYBE_UNANSWERED


State = Literal["given", "abstained", "lost"]
_LOOKED_AT = 200
"""Spans of a name among which one with a request says that content is captured."""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The requests of one span name that did not fail, and how many have no answer."""

    span_name: str
    requests: int
    lost: int
    """Those without an answer, though the app did not say that it abstains."""
    abstained: int

    @property
    def no_answer(self) -> float:
        """The share of the requests, 0..1, whose answer got lost."""
        return self.lost / self.requests


def unanswered(
    connection: sqlite3.Connection,
    since: int | None = None,
    until: int | None = None,
    span_name: str | None = None,
) -> list[Unanswered]:
    """Count the workflows and agents without an answer, by span name.

    Times are nanoseconds since the epoch, of the requests' begin. Names whose content was not
    captured are left out.
    """
    scope = {"since": since or 0, "until": until or 1 << 62, "name": span_name, "most": _LOOKED_AT}
    counts: dict[str, dict[str, int]] = {}
    for name, state, count in connection.execute(_STATES, scope):
        counts.setdefault(name, {})[state] = count
    return [
        Unanswered(
            name,
            requests,
            counts.get(name, {}).get("lost", 0),
            counts.get(name, {}).get("abstained", 0),
        )
        for name, requests in connection.execute(_REQUESTS, scope)
    ]


def lost_requests(
    connection: sqlite3.Connection,
    since: int | None = None,
    until: int | None = None,
    span_name: str | None = None,
) -> Iterator[str]:
    """Yield the traces whose first span is a workflow or agent whose answer got lost."""
    scope = {"since": since or 0, "until": until or 1 << 62, "name": span_name}
    return (trace_id for (trace_id,) in connection.execute(_LOST, scope))


def why_unanswered(
    connection: sqlite3.Connection, span_ids: Iterable[str]
) -> dict[str, Literal["abstained", "lost"]]:
    """Return why some requests have no answer, by span id; those that have one are left out."""
    ids = list(span_ids)
    scope: dict[str, Any] = {"since": 0, "until": 1 << 62, "name": None}
    scope |= {f"id{place}": span_id for place, span_id in enumerate(ids)}
    marks = ",".join(f":id{place}" for place in range(len(ids)))
    found = connection.execute(_WHY.format(marks), scope)
    return {span_id: state for span_id, state in found if state != "given"}


def answers(
    connection: sqlite3.Connection, version: str, arguments: dict[str, str], since: int, until: int
) -> Iterator[tuple[str | None, str, int, State]]:
    """Yield version, span name, time and answer of the requests of all names that lack some.

    ``version`` is SQL for the version of a span, which is called both ``e`` and ``s``, and
    ``arguments`` are its parameters.
    """
    scope = {"since": since, "until": until, "name": None, **arguments}
    if connection.execute(f"SELECT EXISTS ({_STATES})", scope).fetchone()[0]:
        yield from connection.execute(_ANSWERS.format(version=version), scope)


_MAYBE = re.sub(r"\b(kind|error_type|request|value|response|expected)\b", r"s.\1", MAYBE_UNANSWERED)
_ABSTAINED = """instr(ifnull({table}.expected, ''), '"abstained"') > 0"""
_STATE = f"""CASE WHEN {_ABSTAINED.format(table="s")} THEN 'abstained'
  WHEN EXISTS (SELECT 1 FROM spans c WHERE c.trace_id = s.trace_id AND c.span_id != s.span_id
    AND c.value IS NOT NULL) THEN 'given'
  WHEN EXISTS (SELECT 1 FROM spans c WHERE c.trace_id = s.trace_id AND c.span_id != s.span_id
    AND {_ABSTAINED.format(table="c")}) THEN 'abstained'
  ELSE 'lost' END"""  # noqa: S608 - constants
"""What a span without an answer of its own has: a step below may have noted the value, or that the
app abstains."""
_SCOPE = f"""s.kind IN ('workflow', 'agent') AND s.error_type IS NULL
  AND s.start_ns >= :since AND s.start_ns < :until AND (:name IS NULL OR s.name = :name)
  AND (s.tags IS NULL OR instr(s.tags, '"{JUDGE_TAG}"') = 0)"""
_COMPLETE = """(s.attributes IS NULL OR instr(s.attributes, '"cancelled"') = 0)"""
"""Who was waiting for a request that was cancelled did not want its answer any more."""

_STATES = f"""
SELECT s.name, {_STATE} AS state, count(*) FROM spans s
WHERE {_MAYBE} AND {_SCOPE} AND {_COMPLETE} GROUP BY s.name, state
"""  # noqa: S608 - constants

_LOST = f"""
SELECT s.trace_id FROM spans s
WHERE {_MAYBE} AND {_SCOPE} AND {_COMPLETE} AND s.parent_id IS NULL AND {_STATE} = 'lost'
"""  # noqa: S608 - constants

_WHY = f"""
SELECT s.span_id, {_STATE} FROM spans s
WHERE s.span_id IN ({{}}) AND {_MAYBE} AND {_SCOPE} AND {_COMPLETE}
"""  # noqa: S608 - constants

_REQUESTS = f"""
SELECT s.name, count(*) FROM spans s WHERE {_SCOPE} GROUP BY s.name
HAVING EXISTS (SELECT 1 FROM (
  SELECT kind, request FROM spans t WHERE t.name = s.name ORDER BY start_ns DESC LIMIT :most)
  WHERE request IS NOT NULL AND kind IN ('workflow', 'agent'))
ORDER BY s.name
"""  # noqa: S608 - constants

_ANSWERS = f"""
SELECT {{version}}, s.name, s.start_ns, CASE WHEN {_MAYBE} THEN {_STATE} ELSE 'given' END
FROM spans s JOIN spans e ON e.seq = s.seq
WHERE {_SCOPE} AND {_COMPLETE} AND s.request IS NOT NULL AND s.name IN (
  SELECT s.name FROM spans s WHERE {_MAYBE} AND {_SCOPE})
"""  # noqa: S608 - constants
