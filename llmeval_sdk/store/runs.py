"""Reads the run of an agent from a store: which tools were called below a span, and what with.

The spans of a trace are read without their texts, and the texts of a few calls by themselves, so
that a run of ten thousand calls costs no more than the page that shows some of them.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from llmeval_sdk.model.records import EFFECT_TAG, OWNERS


MOST_SPANS = 20_000
"""Spans of a trace that are read, the first by start time."""
READ_TEXT = 60_000
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
    """What a tool was called with, and what it returned, as JSON."""

    request: str | None
    """``None`` if it was not captured or is longer than `READ_TEXT`; so is ``response``."""
    response: str | None
    request_start: str | None
    """The first characters; so is ``response_start``."""
    response_start: str | None


def spans_of_run(connection: sqlite3.Connection, trace_id: str) -> tuple[list[RunSpan], bool]:
    """Return the first `MOST_SPANS` spans of a trace in order, and whether these are all."""
    rows = connection.execute(_SPANS, (trace_id, MOST_SPANS + 1)).fetchall()
    return [RunSpan(*row) for row in rows[:MOST_SPANS]], len(rows) <= MOST_SPANS


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
    wanted = list(span_ids)
    sql = _TEXTS.format(",".join("?" * len(wanted)))
    return {row[0]: CallTexts(*row[1:]) for row in connection.execute(sql, (trace_id, *wanted))}


def longest_calls(
    connection: sqlite3.Connection, trace_id: str, most: int = 3, longest: int = 4_000_000
) -> list[str]:
    """Return the ids of the model calls of a trace with the longest messages."""
    rows = connection.execute(_LONGEST, (trace_id, MOST_SPANS, longest, most))
    return [span_id for (span_id,) in rows]


_SPANS = f"""
SELECT span_id, parent_id, name, kind, start_ns, end_ns,
  error_type || ifnull(': ' || substr(error_message, 1, 300), ''),
  CASE WHEN kind = 'tool' AND json_valid(tags) THEN json_extract(tags, '$."{EFFECT_TAG}"') END
FROM spans WHERE trace_id = ? ORDER BY start_ns, seq LIMIT ?
"""  # noqa: S608 - constants

_TEXTS = f"""
SELECT span_id, CASE WHEN length(request) <= {READ_TEXT} THEN request END,
  CASE WHEN length(response) <= {READ_TEXT} THEN response END,
  substr(request, 1, {_START}), substr(response, 1, {_START})
FROM spans WHERE trace_id = ? AND span_id IN ({{}})
"""  # noqa: S608

_LONGEST = """
SELECT span_id FROM (
  SELECT span_id, length(request) AS size FROM spans
  WHERE trace_id = ? AND kind = 'llm' AND request IS NOT NULL LIMIT ?
) WHERE size <= ? ORDER BY size DESC LIMIT ?
"""
