"""What people said of spans, as lists filter by it and pages show its course.

Of several things that were said of a span under one name, the latest counts. What was said of no
span, but of a session, counts each time: nothing tells whose earlier word it would replace.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llmeval_sdk.model import values as _values
from llmeval_sdk.store.views import MOST_SCORES, Recent


ANY = "*"
"""Stands for all names."""
MOST_SAID = 10_000
"""How much feedback the overview looks at: the latest."""

_THUMB = "thumb"
LAST_SAID = """
NOT EXISTS (SELECT 1 FROM feedback o WHERE o.span_id = {table}.span_id AND +o.name = {table}.name
  AND {table}.span_id != '' AND (o.time_ns, o.seq) > ({table}.time_ns, {table}.seq))
"""
"""SQL: leaves out what somebody replaced by saying something else."""
SAID_SO = f"ifnull({_THUMB}({{table}}.value) = :said_good, :said_good IS NULL)"
"""SQL: whether feedback is good, or bad, where one of the two is asked for; see `teach`."""
SAID_OF_SPAN = f"""
EXISTS (SELECT 1 FROM feedback f WHERE f.span_id = s.span_id AND f.error_type IS NULL
  AND (:said = '{ANY}' OR +f.name = :said) AND {LAST_SAID.format(table="f")}
  AND {SAID_SO.format(table="f")})
"""  # noqa: S608 - constants


def teach(connection: sqlite3.Connection) -> None:
    """Give a connection the SQL function that says which feedback is good."""
    connection.create_function(_THUMB, 1, is_good, deterministic=True)


def is_good(value: Any) -> bool | None:
    """Say whether feedback is good, half of its scale or more; ``None`` for what is neither."""
    number = _values.number(value)
    return None if number is None or not 0 <= number <= 1 else number >= 0.5


def recent_said(connection: sqlite3.Connection, name: str, since: int | None) -> Recent:
    """Return the latest feedback under a name since a time in nanoseconds, newest first."""
    arguments = {"name": name, "since": since or 0, "limit": MOST_SCORES + 1}
    rows = connection.execute(_RECENT, arguments).fetchall()
    capped = len(rows) > MOST_SCORES
    rows = rows[:MOST_SCORES]
    return Recent(tuple(row[0] for row in rows), tuple(row[1] for row in rows), 0, capped)


@dataclass(frozen=True, slots=True)
class SaidInPeriod:
    """What people said under one name in a period, and in the one before."""

    name: str
    count: int
    mean: float | None
    """Of what was said as a number, with words such as yes and no as 1 and 0."""
    before: float | None
    times: tuple[int, ...]
    values: tuple[Any, ...]

    @property
    def can_be_bad(self) -> bool:
        """Whether any of it counts as good or bad; stars and free text count as neither."""
        return any(is_good(value) is not None for value in self.values)


@dataclass(frozen=True, slots=True)
class Voices:
    """What people said in a period."""

    by_name: tuple[SaidInPeriod, ...]
    traces: int
    """Of how many traces anything was said."""
    capped: bool
    """Whether earlier feedback of the period was left out."""


def voices(connection: sqlite3.Connection, since_ns: int, until_ns: int) -> Voices:
    """Sum up what people said in a period, and in the one of the same length before it."""
    rows = connection.execute(_LATEST, (MOST_SAID + 1,)).fetchall()
    start = 2 * since_ns - until_ns
    reaches_back = len(rows) <= MOST_SAID or rows[MOST_SAID][0] < start
    capped = len(rows) > MOST_SAID and rows[MOST_SAID][0] >= since_ns
    last: dict[tuple[str, str | int], tuple[int, Any, str]] = {}
    for time_ns, seq, name, span_id, trace_id, value in sorted(rows[:MOST_SAID]):
        if start <= time_ns < until_ns:
            last[name, span_id or seq] = time_ns, value, trace_id or span_id
    now: dict[str, list[tuple[int, Any]]] = {}
    earlier: dict[str, list[Any]] = {}
    for (name, _), (time_ns, value, _) in last.items():
        if time_ns >= since_ns:
            now.setdefault(name, []).append((time_ns, value))
        elif reaches_back:
            earlier.setdefault(name, []).append(value)
    by_name = []
    for name, feedback in sorted(now.items()):
        times, values = zip(*feedback, strict=True)
        before = _mean(earlier.get(name, ()))
        by_name.append(SaidInPeriod(name, len(values), _mean(values), before, times, values))
    traces = {trace for time_ns, _, trace in last.values() if trace and time_ns >= since_ns}
    return Voices(tuple(by_name), len(traces), capped)


def _mean(values: Sequence[Any]) -> float | None:
    return mean([number for value in values if (number := _values.number(value)) is not None])


def mean(numbers: Sequence[float]) -> float | None:
    """Return the mean of some numbers; ``None`` of none.

    Each is divided before they are added up, so that huge ones do not become infinite.
    """
    return sum(number / len(numbers) for number in numbers) if numbers else None


_RECENT = f"""
SELECT time_ns, value FROM feedback AS f WHERE name = :name AND time_ns >= :since
  AND error_type IS NULL AND {LAST_SAID.format(table="f")}
ORDER BY time_ns DESC LIMIT :limit
"""  # noqa: S608 - constants

_LATEST = """
SELECT time_ns + 0, seq, name, span_id, trace_id, value FROM feedback
WHERE error_type IS NULL ORDER BY seq DESC LIMIT ?
"""


def has_abstained(values: Mapping[str, Any]) -> bool:
    """Say whether a record has no answer, by the values of its evaluations by evaluator."""
    return values.get(_values.ABSTENTION) is not None
