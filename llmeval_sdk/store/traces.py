"""One trace: its spans without their texts, the tool calls of a run, and ids by their beginning."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from llmeval_sdk.model.records import EFFECT_TAG, OWNERS
from llmeval_sdk.store.encode import dumps
from llmeval_sdk.store.texts import whole


MAX_OUTLINE_SPANS = 2_000


class Outline(NamedTuple):
    """One span of a trace without its texts, as the time line shows it."""

    span_id: str
    parent_id: str | None
    name: str
    kind: str
    start_ns: int
    end_ns: int
    error_type: str | None
    evaluations: int
    """How many evaluations the span has."""
    chunks: bool
    """Whether the span retrieved something."""


@dataclass(frozen=True, slots=True)
class JudgeRun:
    """The root span of a judge's own trace, made while it judged a span."""

    trace_id: str
    span_id: str
    judge: str
    start_ns: int
    error_type: str | None


def outline_of(connection: sqlite3.Connection, trace_id: str) -> tuple[list[Outline], bool]:
    """Return the first spans of a trace by start time, and whether these are all."""
    rows = connection.execute(_OUTLINE, (trace_id, MAX_OUTLINE_SPANS + 1)).fetchall()
    return [Outline(*row) for row in rows[:MAX_OUTLINE_SPANS]], len(rows) <= MAX_OUTLINE_SPANS


def judge_runs(connection: sqlite3.Connection, span_id: str) -> list[JudgeRun]:
    """Return the runs of judges that link to a span, in the order in which they began."""
    return [JudgeRun(*row) for row in connection.execute(_LINKED, (span_id,))]


def traces_like(
    connection: sqlite3.Connection, prefix: str, limit: int = 2
) -> list[tuple[str, str | None]]:
    """Return a trace id and a span id for each id that begins with ``prefix``.

    The span id is ``None`` where the id of the trace itself begins so.
    """
    bounds = {"low": prefix, "high": prefix + "g", "limit": limit}  # no hexadecimal digit is a g
    return connection.execute(_TRACES_LIKE, bounds).fetchall()


_OUTLINE = """
SELECT span_id, parent_id, name, kind, start_ns, end_ns, error_type,
  (SELECT count(*) FROM evaluations e WHERE e.span_id = s.span_id),
  retrieved_context IS NOT NULL
FROM spans s WHERE trace_id = ? ORDER BY start_ns, seq LIMIT ?
"""

_LINKED = """
SELECT trace_id, span_id, name, start_ns, error_type FROM spans
WHERE substr(links, 39, 16) = ? AND links IS NOT NULL AND parent_id IS NULL
ORDER BY start_ns, seq LIMIT 100
"""

_TRACES_LIKE = """
SELECT trace_id, NULL FROM spans WHERE trace_id >= :low AND trace_id < :high GROUP BY trace_id
UNION ALL
SELECT trace_id, span_id FROM spans WHERE span_id >= :low AND span_id < :high
LIMIT :limit
"""


# Spans by the beginning of their ids.


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
    return tuple(SpanRef(*row) for row in connection.execute(_SPANS_LIKE, bounds))


_SPANS_LIKE = """
SELECT trace_id, span_id, name, start_ns FROM (
  SELECT trace_id, span_id, name, start_ns FROM spans WHERE span_id >= :low AND span_id < :high
  UNION ALL
  SELECT trace_id, span_id, span_name, NULL FROM evaluations
  WHERE span_id >= :low AND span_id < :high
  UNION ALL
  SELECT trace_id, span_id, span_name, NULL FROM not_run WHERE span_id >= :low AND span_id < :high
) WHERE span_id != '' GROUP BY span_id ORDER BY span_id LIMIT :limit
"""


# The run of an agent: the spans without their texts, and the texts of a few calls.

MAX_RUN_SPANS = 20_000
"""Spans of a trace that are read, the first by start time."""
MAX_READ_TEXT = 60_000
"""Arguments and results are read as JSON if they have at most so many characters."""
_START = 4_000


class RunSpan(NamedTuple):
    """One span of a trace without its texts."""

    span_id: str
    parent_id: str | None
    name: str
    kind: str
    start_ns: int
    end_ns: int
    error: str | None
    effect: str | None


class ToolSpan(NamedTuple):
    """The span of a tool call below the span of a run."""

    span: RunSpan
    agent: str | None
    """The innermost agent or workflow between the two."""
    inside: str | None
    """The id of the tool's span that it was called in, if it was called by another tool."""


class CallTexts(NamedTuple):
    """The arguments and the result of a tool call, as JSON."""

    request: str | None
    """``None`` if it was not captured or is longer than `MAX_READ_TEXT`; so is ``response``."""
    response: str | None
    request_start: str | None
    """The first characters; so is ``response_start``."""
    response_start: str | None


def spans_of_run(connection: sqlite3.Connection, trace_id: str) -> tuple[list[RunSpan], bool]:
    """Return the first `MAX_RUN_SPANS` spans of a trace in order, and whether these are all."""
    rows = connection.execute(_SPANS, (trace_id, MAX_RUN_SPANS + 1)).fetchall()
    return [RunSpan(*row) for row in rows[:MAX_RUN_SPANS]], len(rows) <= MAX_RUN_SPANS


def tools_below(spans: Iterable[RunSpan], top: RunSpan) -> list[ToolSpan]:
    """Return the tool calls of a run in order, as evaluators see them.

    Calls of agents below an agent belong to both. What is below another agent or workflow than
    ``top`` belongs to that one only, if ``top`` is no agent.
    """
    children: defaultdict[str | None, list[RunSpan]] = defaultdict(list)
    for span in spans:
        children[span.parent_id].append(span)
    calls: list[ToolSpan] = []
    seen = {top.span_id}
    waiting: list[tuple[RunSpan, str | None, str | None]] = [(top, None, None)]
    while waiting:
        above, agent, inside = waiting.pop()
        for span in children[above.span_id]:
            if span.span_id in seen:  # parents may be in a circle
                continue
            seen.add(span.span_id)
            if span.kind in OWNERS:
                if top.kind == "agent":
                    waiting.append((span, span.name, inside))
            elif span.kind == "tool":
                calls.append(ToolSpan(span, agent, inside))
                waiting.append((span, agent, span.span_id))
            else:
                waiting.append((span, agent, inside))
    return sorted(calls, key=lambda call: call.span.start_ns)


def texts_of(
    connection: sqlite3.Connection, trace_id: str, span_ids: Iterable[str]
) -> dict[str, CallTexts]:
    """Return what some spans were called with and returned, by span id."""
    about = trace_id, dumps(list(span_ids))
    return {row[0]: CallTexts(*row[1:]) for row in connection.execute(_TEXTS, about)}


def longest_calls(
    connection: sqlite3.Connection, trace_id: str, most: int = 3, longest: int = 4_000_000
) -> list[str]:
    """Return the ids of the model calls of a trace with the longest messages."""
    rows = connection.execute(_LONGEST_CALLS, (trace_id, MAX_RUN_SPANS, longest, most))
    return [span_id for (span_id,) in rows]


_SPANS = f"""
SELECT span_id, parent_id, name, kind, start_ns, end_ns,
  error_type || ifnull(': ' || substr(error_message, 1, 300), ''),
  CASE WHEN kind = 'tool' AND json_valid(tags) THEN json_extract(tags, '$."{EFFECT_TAG}"') END
FROM spans WHERE trace_id = ? ORDER BY start_ns, seq LIMIT ?
"""  # noqa: S608 - constants

_REQUEST, _RESPONSE = whole("request"), whole("response")
_TEXTS = f"""
SELECT span_id, CASE WHEN length({_REQUEST}) <= {MAX_READ_TEXT} THEN {_REQUEST} END,
  CASE WHEN length({_RESPONSE}) <= {MAX_READ_TEXT} THEN {_RESPONSE} END,
  substr({_REQUEST}, 1, {_START}), substr({_RESPONSE}, 1, {_START})
FROM spans WHERE trace_id = ? AND span_id IN (SELECT value FROM json_each(?))
"""  # noqa: S608

_LONGEST_CALLS = f"""
SELECT span_id FROM (
  SELECT span_id, length({_REQUEST}) AS size FROM spans
  WHERE trace_id = ? AND kind = 'llm' AND request IS NOT NULL LIMIT ?
) WHERE size <= ? ORDER BY size DESC LIMIT ?
"""  # noqa: S608 - constants
