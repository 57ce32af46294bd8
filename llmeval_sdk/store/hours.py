"""What one evaluator said, hour by hour, as `estimates.sequence` takes it."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field

from llmeval_sdk import _values
from llmeval_sdk.estimates.funnel import step_of
from llmeval_sdk.estimates.sequence import Seen


HOUR_NS = 3_600_000_000_000
DAY_NS = 24 * HOUR_NS
_MODEL = re.compile(r'"model":"([^"]{1,100})"')


@dataclass(slots=True)
class Hour:
    """The records of one hour that one evaluator scored, or that a judge could have judged."""

    start_ns: int
    seen: list[Seen] = field(default_factory=list)
    judged: int = 0
    lost: int = 0
    """Selected, and not scored: failures, the budget, a full queue."""
    unweighted: int = 0
    """Verdicts without an inclusion probability, which are left out."""
    versions: set[str] = field(default_factory=set)
    """Which versions of the evaluator answered, with the judge's model."""
    is_out_of_scale: bool = False
    """A value lies outside 0..1."""
    has_categories: bool = False
    """An answer is a word that is no number."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which records of which evaluator."""

    evaluator: str
    predictor: str | None = None
    """The free score that predicts its verdicts."""
    span_name: str | None = None


def hours(
    connection: sqlite3.Connection, wanted: Wanted, since_ns: int, until_ns: int
) -> Iterator[Hour]:
    """Yield the hours that hold anything, in order of time; one day is in memory at a time.

    Hours begin where those of the clock do. ``until_ns`` is exclusive.
    """
    start = since_ns
    while True:
        first = _first(connection, wanted.evaluator, start)
        if first is None or first >= until_ns:
            return
        start = max(start, first - first % HOUR_NS)
        end = min(start + DAY_NS, until_ns)
        yield from _day(connection, wanted, start, end)
        start = end


def first_ns(connection: sqlite3.Connection, evaluator: str) -> int | None:
    """Return when the first record of an evaluator stands in the store, scored or not."""
    return _first(connection, evaluator, 0)


def _first(connection: sqlite3.Connection, evaluator: str, since_ns: int) -> int | None:
    given = {"name": evaluator, "since": since_ns}
    found: int | None = connection.execute(_FIRST, given).fetchone()[0]
    return found


def _day(connection: sqlite3.Connection, wanted: Wanted, start: int, end: int) -> Iterator[Hour]:  # noqa: C901
    found: dict[int, Hour] = {}
    given = {"name": wanted.evaluator, "span": wanted.span_name, "start": start, "end": end}
    predicted = {}
    if wanted.predictor is not None:
        about = {"name": wanted.predictor, "start": start - HOUR_NS, "end": end}
        predicted = dict(connection.execute(_PREDICTED, about).fetchall())

    def at(time_ns: int) -> Hour:
        begin = time_ns - time_ns % HOUR_NS
        hour = found.get(begin)
        if hour is None:
            hour = found[begin] = Hour(begin)
        return hour

    for time_ns, span_id, value, chance, version, metadata in connection.execute(_SCORED, given):
        hour = at(time_ns)
        number = value if type(value) is float else _values.number(value)
        if number is None:
            hour.has_categories |= value is not None and not _values.is_neutral(value)
            continue
        if not chance:
            hour.unweighted += 1
            continue
        hour.is_out_of_scale |= not 0 <= number <= 1
        model = _MODEL.search(metadata) if metadata else None
        hour.versions.add(f"{version or ''}{f', {model[1]}' if model else ''}")
        hour.judged += 1
        hour.seen.append(Seen(number, min(chance, 1.0), predicted.get(span_id)))
    steps: dict[str, str | None] = {}
    for time_ns, span_id, reason in connection.execute(_NOT_RUN, given):
        if reason not in steps:
            steps[reason] = step_of(reason)
        step = steps[reason]
        if step in (None, "eligible"):  # it was scored elsewhere, or could not have been
            continue
        hour = at(time_ns)
        hour.lost += step != "selected"
        hour.seen.append(Seen(None, 1.0, predicted.get(span_id)))
    for begin in sorted(found):
        yield _without_losses(found[begin])


def _without_losses(hour: Hour) -> Hour:
    """Let what was scored stand for what was selected and lost: the chance to be scored counts."""
    if hour.lost and hour.judged:
        part = hour.judged / (hour.judged + hour.lost)
        hour.seen = [
            each if each.value is None else each._replace(chance=each.chance * part)
            for each in hour.seen
        ]
    return hour


_FIRST = """
SELECT min(t) FROM (
  SELECT min(time_ns) AS t FROM evaluations WHERE name = :name AND time_ns >= :since
  UNION ALL
  SELECT min(time_ns) FROM not_run WHERE evaluator = :name AND time_ns >= :since
)
"""

_SCORED = """
SELECT time_ns, span_id, value, inclusion_probability, evaluator_version,
  CASE evaluator_kind WHEN 'judge' THEN metadata END
FROM evaluations
WHERE name = :name AND time_ns >= :start AND time_ns < :end AND error_type IS NULL
  AND ifnull(span_name = :span, :span IS NULL)
"""

_NOT_RUN = """
SELECT time_ns, span_id, reason FROM not_run
WHERE evaluator = :name AND time_ns >= :start AND time_ns < :end
  AND ifnull(span_name = :span, :span IS NULL)
"""

_PREDICTED = """
SELECT span_id, value FROM evaluations
WHERE name = :name AND time_ns >= :start AND time_ns < :end AND typeof(value) = 'real'
"""
