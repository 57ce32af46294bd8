"""What pages and commands show beside lists: names, one trace, and the scores of one evaluator.

Every reading is bounded, and those over many rows are answered by an index alone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from llmeval_sdk.model import JUDGING, STAND_IN
from llmeval_sdk.model import values as _values
from llmeval_sdk.store import encode
from llmeval_sdk.store.effective import IS_NEWEST, UNJUDGED


MAX_NAMES = 200


@dataclass(frozen=True, slots=True)
class KnownNames:
    """The names of evaluators, spans and labels in a store, sorted; at most `MAX_NAMES` of each."""

    heuristics: tuple[str, ...] = ()
    judges: tuple[str, ...] = ()
    """All judges, including those that never ran."""
    spans: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    """The names under which people gave feedback."""
    numeric: frozenset[str] = frozenset()
    """The evaluators that give numbers, so that spans can be sorted by them."""

    @property
    def evaluators(self) -> tuple[str, ...]:
        """Return the names of all evaluators, judges first."""
        return (*self.judges, *self.heuristics)


def known_names(connection: sqlite3.Connection) -> KnownNames:
    """Return the names in a store; an index leads from one name to the next without a scan.

    What the evaluators declare of their values is known to `_values` from then on.
    """
    evaluators = names_in(connection, "evaluations", "name", MAX_NAMES)
    for name in evaluators:
        _learn_direction(connection, name)
    kinds = {name: _kind(connection, name) for name in evaluators}
    refused = names_in(connection, "not_run", "evaluator", MAX_NAMES)
    judges = {name for name, kind in kinds.items() if kind in JUDGING} | set(refused)
    return KnownNames(
        tuple(name for name in kinds if name not in judges),
        tuple(sorted(judges)),
        names_in(connection, "spans", "name", MAX_NAMES),
        names_in(connection, "feedback", "name", MAX_NAMES),
        frozenset(name for name in kinds if connection.execute(_NUMERIC, (name,)).fetchone()),
    )


def _learn_direction(connection: sqlite3.Connection, name: str) -> None:
    """Remember which values of an evaluator are better, where its latest evaluations say so."""
    for (text,) in connection.execute(_LATEST, (name,)):
        metadata = encode.loads(text, {})
        better = metadata.get(_values.BETTER) if isinstance(metadata, dict) else None
        if better in ("lower", "higher"):
            _values.declare(name, better)
            return


def decided_names(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Return the names of the evaluators whose questions a decision model answered."""
    return tuple(name for (name,) in connection.execute(_DECIDED))


def stood_in(connection: sqlite3.Connection, judges: Iterable[str]) -> list[str]:
    """Return those judges whose latest verdicts come from the rules that stand in for a model.

    The latest hundred verdicts of each judge are looked at.
    """
    mark = f'%"model":"{STAND_IN}"%'
    return [name for name in judges if connection.execute(_STOOD_IN, (name, mark)).fetchone()]


def _kind(connection: sqlite3.Connection, name: str) -> str:
    row = connection.execute(_KIND, (name,)).fetchone()
    return str(row[0]) if row else ""


def names_in(
    connection: sqlite3.Connection, table: str, column: str, most: int = -1
) -> tuple[str, ...]:
    """Return the distinct names in a column; its index leads from one to the next without a scan.

    A ``most`` of -1 stands for all of them.
    """
    rows = connection.execute(_NAMES.format(table=table, column=column), (most,))
    return tuple(name for (name,) in rows)


_NAMES = """
WITH RECURSIVE names(name) AS (
  SELECT min({column}) FROM {table}
  UNION ALL
  SELECT (SELECT min({column}) FROM {table} WHERE {column} > names.name) FROM names
  WHERE names.name IS NOT NULL
) SELECT name FROM names WHERE name IS NOT NULL LIMIT ?
"""

_KIND = """
SELECT evaluator_kind FROM evaluations WHERE name = ? ORDER BY time_ns DESC LIMIT 1
"""

_STOOD_IN = """
SELECT 1 FROM (
  SELECT metadata, error_type FROM evaluations WHERE name = ? ORDER BY time_ns DESC LIMIT 100
)
WHERE metadata LIKE ? AND error_type IS NULL LIMIT 1
"""

_LATEST = """
SELECT metadata FROM (
  SELECT metadata FROM evaluations WHERE name = ? ORDER BY time_ns DESC LIMIT 5
) WHERE metadata LIKE '%"better":%' AND json_valid(metadata)
"""
"""The latest five: among an app's own verdicts may be one of an older version of it."""

_DECIDED = """
SELECT DISTINCT name FROM evaluations WHERE probability IS NOT NULL ORDER BY name
"""

_NUMERIC = """
SELECT 1 FROM evaluations WHERE name = ? AND value IS NOT NULL AND value < '' LIMIT 1
"""

MAX_SPANS = 2_000


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


def outline(connection: sqlite3.Connection, trace_id: str) -> tuple[list[Outline], bool]:
    """Return the first `MAX_SPANS` spans of a trace by start time, and whether these are all."""
    rows = connection.execute(_OUTLINE, (trace_id, MAX_SPANS + 1)).fetchall()
    return [Outline(*row) for row in rows[:MAX_SPANS]], len(rows) <= MAX_SPANS


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
    return connection.execute(_LIKE, bounds).fetchall()


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

_LIKE = """
SELECT trace_id, NULL FROM spans WHERE trace_id >= :low AND trace_id < :high GROUP BY trace_id
UNION ALL
SELECT trace_id, span_id FROM spans WHERE span_id >= :low AND span_id < :high
LIMIT :limit
"""


MOST_SCORES = 20_000
"""How many scores of one evaluator a page sums up; it says so when it leaves out older ones."""
MOST_JUDGED = 10_000
MOST_REFUSED = 50_000
"""The same for the judgements of a judge, and for the records that it did not judge."""


@dataclass(frozen=True, slots=True)
class Recent:
    """The latest evaluations of one evaluator, newest first."""

    times: tuple[int, ...]
    values: tuple[Any, ...]
    """A float, 0 or 1 for a bool, a text, or ``None`` if it failed or does not apply."""
    failed: int
    capped: bool
    """Whether there are more than `MOST_SCORES`."""


@dataclass(frozen=True, slots=True)
class Effort:
    """The time, tokens and money that the latest evaluations took, and how sure they were."""

    durations: tuple[float, ...]
    """Seconds, shortest first."""
    total_tokens: int
    cost_usd: float | None
    probabilities: tuple[float, ...] = ()
    """Of a good outcome, where a decision model said it; newest first."""


def recent(
    connection: sqlite3.Connection, name: str, since: int | None, *, judge: bool = False
) -> Recent:
    """Return the evaluations since a time in nanoseconds, at most `MOST_SCORES`.

    Of a judge, decisions that its judge model has replaced are left out. No other evaluator has
    any, and without that condition an index answers alone.
    """
    unjudged = f"AND {UNJUDGED.format(table='evaluations')}" if judge else ""
    arguments = {"name": name, "since": since or 0, "limit": MOST_SCORES + 1}
    rows = connection.execute(_RECENT.format(unjudged), arguments).fetchall()
    capped = len(rows) > MOST_SCORES
    rows = rows[:MOST_SCORES]
    arguments["since"] = rows[-1][0] if rows else 0
    failed = connection.execute(_FAILED, arguments).fetchone()[0]
    return Recent(tuple(row[0] for row in rows), tuple(row[1] for row in rows), failed, capped)


def window(connection: sqlite3.Connection, judge: str, since: int | None) -> int | None:
    """Return the time since which a judge has at most as many records as a page sums up.

    It is ``since``, or a later time if there are more records than that.
    """
    for sql, most in ((_NTH_JUDGED, MOST_JUDGED), (_NTH_REFUSED, MOST_REFUSED)):
        row = connection.execute(sql, (judge, since or 0, most)).fetchone()
        since = row[0] + 1 if row else since
    return since


def effort(connection: sqlite3.Connection, name: str, since: int | None) -> Effort:
    """Return what the evaluations since a time took, in seconds, tokens and US dollars."""
    rows = connection.execute(
        _EFFORT, {"name": name, "since": since or 0, "limit": MOST_SCORES}
    ).fetchall()
    durations, tokens, costs, probabilities = zip(*rows, strict=True) if rows else ((),) * 4
    paid = [cost for cost in costs if cost is not None]
    return Effort(
        tuple(sorted(duration for duration in durations if duration is not None)),
        sum(count or 0 for count in tokens),
        sum(paid) if paid else None,
        tuple(chance for chance in probabilities if chance is not None),
    )


_NEWEST = IS_NEWEST.format(table="evaluations", name=":name")
_RECENT = f"""
SELECT time_ns, value FROM evaluations WHERE name = :name AND time_ns >= :since AND {_NEWEST} {{}}
ORDER BY time_ns DESC LIMIT :limit
"""  # noqa: S608 - constants

_NTH_JUDGED = """
SELECT time_ns FROM evaluations WHERE name = ? AND time_ns >= ?
ORDER BY time_ns DESC LIMIT 1 OFFSET ?
"""
_NTH_REFUSED = """
SELECT time_ns FROM not_run WHERE evaluator = ? AND time_ns >= ?
ORDER BY time_ns DESC LIMIT 1 OFFSET ?
"""

_FAILED = f"""
SELECT count(*) FROM evaluations
WHERE name = :name AND time_ns >= :since AND value IS NULL AND error_type IS NOT NULL AND {_NEWEST}
"""  # noqa: S608

_EFFORT = """
SELECT duration, total_tokens, cost_usd, probability FROM evaluations
WHERE name = :name AND time_ns >= :since ORDER BY time_ns DESC LIMIT :limit
"""
