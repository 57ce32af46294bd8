"""The verdicts of one evaluator hour by hour and group, and whether it has fallen silent.

Alerts bet on these hours, see `statistics.sequence`. Free scores predict what a missing verdict
would have been, so an hour without verdicts is evidence as long as it is by chance that nothing was
selected. If verdicts are missing for another reason, nothing corrects the predictions, and an error
in them would look like a change of quality.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from typing import Any, NamedTuple

from llmeval_sdk.model import DAY_NS, HOUR_NS, values
from llmeval_sdk.statistics.mean import Seen
from llmeval_sdk.statistics.reasons import step_of
from llmeval_sdk.store.history import imported
from llmeval_sdk.store.latest import (
    chance_of,
    decider_of,
    decision_probabilities,
    distinct_versions,
    is_newest,
    is_verdict,
    judge_version,
    model_of,
)
from llmeval_sdk.store.splits import WHOLE, Part, Split
from llmeval_sdk.text.terminal import moment


LATE_NS = 7 * DAY_NS
"""How late a record may arrive and still be counted."""


@dataclass(slots=True)
class Hour:
    """The records of one hour that one evaluator scored, or that a judge could have judged."""

    start_ns: int
    seen: list[Seen] = field(default_factory=list)
    judged: int = 0
    last_verdict_ns: int = 0
    """When the latest verdict was given; 0 where there is none."""
    lost: int = 0
    """Judgements that were selected and gave no verdict: failures, the budget, a full queue."""
    without_model: int = 0
    """Records that nobody judged because no judge model was configured."""
    unweighted: int = 0
    """Verdicts without an inclusion probability, which cannot be counted."""
    versions: set[str] = field(default_factory=set)
    """Which versions of the evaluator answered, with its models, as `latest.judge_version` says."""
    is_out_of_scale: bool = False
    """A value lies outside 0..1."""
    has_categories: bool = False
    """An answer is a word that is no number."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Selects the records of an evaluator."""

    evaluator: str
    predictor: str | None = None
    """The free score that predicts its verdicts."""
    span_name: str | None = None
    split: Split = WHOLE
    """What divides its records into groups."""
    name_of: Callable[[Part], Part] = field(default=lambda part: part, compare=False)
    """Returns the group that a part of the split counts to, so that several can share one."""


class Arrived(NamedTuple):
    """How much of a store had arrived at a moment: the last row of each table."""

    scored: int
    not_run: int


_NOTHING, _ALL = Arrived(-1, -1), Arrived(2**63 - 1, 2**63 - 1)


def hours(
    connection: sqlite3.Connection,
    wanted: Wanted,
    since_ns: int,
    until_ns: int,
    arrived: Arrived | None = None,
) -> Iterator[tuple[Part, Hour]]:
    """Yield the hours that hold any record, by time and group; one day is in memory at a time.

    Hours begin at full hours of the clock. ``until_ns`` is exclusive. With ``arrived``, records
    that came later than it are left to `late`.
    """
    start = since_ns
    while True:
        first = first_ns(connection, wanted.evaluator, start)
        if first is None or first >= until_ns:
            return
        start = max(start, first - first % HOUR_NS)
        end = min(start + DAY_NS, until_ns)
        yield from _day(connection, wanted, start, end, arrived)
        start = end


def first_ns(connection: sqlite3.Connection, evaluator: str, since_ns: int = 0) -> int | None:
    """Return the time of the first record of an evaluator since a moment, scored or not."""
    about = {"name": evaluator, "since": since_ns}
    first: int | None = connection.execute(_FIRST, about).fetchone()[0]
    return first


def largest_groups(
    connection: sqlite3.Connection, wanted: Wanted, period: tuple[int, int], most: int
) -> list[Part]:
    """Return the groups with most records of an evaluator in a period; the largest come first."""
    about = {
        "name": wanted.evaluator, "start": period[0], "end": period[1], "most": most,
    }  # fmt: skip
    rows = connection.execute(_LARGEST.replace(":part", wanted.split.part), about)
    return [part for part, _ in rows]


def arrived(connection: sqlite3.Connection) -> Arrived:
    """Return how much of the store has arrived by now."""
    return Arrived(*connection.execute(_ARRIVED).fetchone())


def late(
    connection: sqlite3.Connection,
    wanted: Wanted,
    before_ns: int,
    after: Arrived,
    *,
    left_out: Callable[[Part], Collection[int]],
    arrived: Arrived | None = None,
) -> dict[Part, tuple[Hour, int]]:
    """Collect what arrived after ``after`` and belongs to the seven days before ``before_ns``.

    What was imported is left out: it may be history that was counted before, when it was new.
    Records of the hours that ``left_out`` returns for a group are not collected: what else happened
    in these hours was not counted either, and verdicts without the records that nobody chose would
    be a bad sample.

    Returns:
        The late records of each group as one hour, which ends at ``before_ns``, and how many were
        left out.
    """
    by_group: dict[Part, tuple[Hour, Hour]] = {}

    def at(time_ns: int, group: Part) -> Hour:
        if group not in by_group:
            by_group[group] = Hour(before_ns - HOUR_NS), Hour(0)
        return by_group[group][time_ns - time_ns % HOUR_NS in left_out(group)]

    def predicted(span_id: str) -> float | None:
        about = {"span": span_id, "name": wanted.evaluator, "predictor": wanted.predictor}
        row = connection.execute(_PREDICTED_ONE, about).fetchone()
        return None if row is None else float(row[0])

    period = before_ns - LATE_NS, before_ns
    _collect(connection, wanted, period, predicted, at, after, arrived)
    return {
        group: (_finished(hour), len(dropped.seen)) for group, (hour, dropped) in by_group.items()
    }


def went_on(connection: sqlite3.Connection, wanted: Wanted, last_verdict_ns: int) -> bool:
    """Say whether there still were requests of the same kind a day after the last verdict.

    Of the same kind are spans with the names that the evaluator scored last.
    """
    about = {
        "name": wanted.evaluator,
        "span": wanted.span_name,
        "last": last_verdict_ns,
        "later": last_verdict_ns + DAY_NS,
    }
    return bool(connection.execute(_WENT_ON, about).fetchone()[0])


def _day(
    connection: sqlite3.Connection, wanted: Wanted, start: int, end: int, arrived: Arrived | None
) -> Iterator[tuple[Part, Hour]]:
    by_start: dict[int, dict[Part, Hour]] = {}
    predicted: Mapping[str, float] = {}
    if wanted.predictor is not None:
        about = {"name": wanted.predictor, "start": start - HOUR_NS, "end": end}
        predicted = dict(connection.execute(_PREDICTED, about).fetchall())
    predicted = (
        decision_probabilities(connection, wanted.evaluator, start - HOUR_NS, end) or predicted
    )

    def at(time_ns: int, group: Part) -> Hour:
        begin = time_ns - time_ns % HOUR_NS
        groups = by_start.setdefault(begin, {})
        hour = groups.get(group)
        if hour is None:
            hour = groups[group] = Hour(begin)
        return hour

    _collect(connection, wanted, (start, end), predicted.get, at, arrived=arrived)
    for begin in sorted(by_start):
        for group, hour in by_start[begin].items():
            yield group, _finished(hour)


def _collect(  # noqa: PLR0917 - one reading of two tables, for two callers
    connection: sqlite3.Connection,
    wanted: Wanted,
    period: tuple[int, int],
    predicted: Callable[[str], float | None],
    at: Callable[[int, Part], Hour],
    after: Arrived | None = None,
    arrived: Arrived | None = None,
) -> None:
    """Put each row of a period into the hour that ``at`` returns for its time and group."""
    about: dict[str, Any] = {
        "name": wanted.evaluator, "span": wanted.span_name, "start": period[0], "end": period[1],
    }  # fmt: skip
    left_out = imported(connection) if after else {"evaluations": [], "not_run": []}
    after, arrived = after or _NOTHING, arrived or _ALL
    part, name_of = wanted.split.part, wanted.name_of
    about |= {"after": after.scored, "last": arrived.scored}
    about["imported"] = json.dumps(left_out["evaluations"])
    for row in connection.execute(_SCORED.replace(":part", part), about):
        time_ns, span_id, group, *score = row
        _add_score(at(time_ns, name_of(group)), time_ns, score, partial(predicted, span_id))
    steps: dict[str, str | None] = {}
    about |= {"after": after.not_run, "last": arrived.not_run}
    about["imported"] = json.dumps(left_out["not_run"])
    for row in connection.execute(_NOT_RUN.replace(":part", part), about):
        time_ns, span_id, group, reason = row
        if reason not in steps:
            steps[reason] = step_of(reason)
        step = steps[reason]
        if reason == "no_judge_model":
            at(time_ns, name_of(group)).without_model += 1
        if step in (None, "eligible"):  # it was scored elsewhere, or could not have been
            continue
        hour = at(time_ns, name_of(group))
        hour.lost += step != "selected"
        hour.seen.append(Seen(None, 1.0, predicted(span_id)))


def _add_score(
    hour: Hour, time_ns: int, row: Sequence[Any], predicted: Callable[[], float | None]
) -> None:
    value, chance, *version = row
    number = value if type(value) is float else values.number(value)
    if number is None:
        hour.has_categories |= value is not None and not values.is_neutral(value)
        return
    if not chance:
        hour.unweighted += 1
        return
    hour.is_out_of_scale |= not 0 <= number <= 1
    hour.versions.add(judge_version(*version))
    hour.judged += 1
    hour.last_verdict_ns = max(hour.last_verdict_ns, time_ns)
    hour.seen.append(Seen(number, chance, predicted()))


def _finished(hour: Hour) -> Hour:
    """Name each version once, and let the verdicts stand for the lost judgements as well.

    A request was scored if it was selected and its judgement was not lost. So each chance is
    multiplied by the part of the selected requests that were scored.
    """
    hour.versions = distinct_versions(hour.versions)
    if hour.lost and hour.judged:
        part = hour.judged / (hour.judged + hour.lost)
        hour.seen = [
            seen if seen.value is None else seen._replace(chance=seen.chance * part)
            for seen in hour.seen
        ]
    return hour


_FIRST = """
SELECT min(t) FROM (
  SELECT min(time_ns) AS t FROM evaluations WHERE name = :name AND time_ns >= :since
  UNION ALL
  SELECT min(time_ns) FROM not_run WHERE evaluator = :name AND time_ns >= :since
)
"""

_LARGEST = """
SELECT :part AS part, count(*) FROM (
  SELECT trace_id FROM evaluations WHERE name = :name AND time_ns >= :start AND time_ns < :end
  UNION ALL
  SELECT trace_id FROM not_run WHERE evaluator = :name AND time_ns >= :start AND time_ns < :end
) GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT :most
"""

_ARRIVED = """
SELECT (SELECT ifnull(max(seq), 0) FROM evaluations), (SELECT ifnull(max(seq), 0) FROM not_run)
"""

_CAME_BY_ITSELF = """
(:after < 0 OR NOT EXISTS (SELECT 1 FROM json_each(:imported) part
  WHERE seq BETWEEN json_extract(part.value, '$[0]') AND json_extract(part.value, '$[1]')))
"""
"""Leaves imported rows out of the late ones. Rows of the hours themselves pass unchecked, because
it would take time to check each of them."""

_SCORED = f"""
SELECT time_ns, span_id, :part, value, {chance_of("evaluations")}, evaluator_version,
  {model_of("evaluations")}, {decider_of("evaluations")}
FROM evaluations
WHERE name = :name AND time_ns >= :start AND time_ns < :end AND seq > :after AND seq <= :last
  AND {_CAME_BY_ITSELF}
  AND error_type IS NULL AND ifnull(span_name = :span, :span IS NULL)
  AND {is_verdict("evaluations")}
  AND {is_newest("evaluations", ":name")}
"""  # noqa: S608 - our own words

_NOT_RUN = f"""
SELECT time_ns, span_id, :part, reason FROM not_run
WHERE evaluator = :name AND time_ns >= :start AND time_ns < :end AND seq > :after AND seq <= :last
  AND {_CAME_BY_ITSELF}
  AND ifnull(span_name = :span, :span IS NULL)
"""  # noqa: S608 - our own words

_PREDICTED = """
SELECT span_id, value FROM evaluations
WHERE name = :name AND time_ns >= :start AND time_ns < :end AND typeof(value) = 'real'
"""

_PREDICTED_ONE = """
SELECT CASE evaluator_kind WHEN 'decision' THEN probability ELSE value END AS score FROM evaluations
WHERE span_id = :span AND typeof(score) = 'real' AND (
  name = :predictor OR (name = :name AND evaluator_kind = 'decision'))
ORDER BY evaluator_kind = 'decision' DESC, seq DESC LIMIT 1
"""

_WENT_ON = """
SELECT EXISTS (
  SELECT 1 FROM spans WHERE start_ns > :later AND name IN (
    SELECT span_name FROM (
      SELECT span_name FROM evaluations
      WHERE name = :name AND time_ns <= :last AND ifnull(span_name = :span, :span IS NULL)
      ORDER BY time_ns DESC LIMIT 1000
    )
  )
)
"""


EXPECTED_VERDICTS = 7
"""How many expected verdicts have to be missing. By chance that happens once in 1,100 times."""


@dataclass(slots=True)
class Silence:
    """The events since the last verdict."""

    last_verdict_ns: int = 0
    """When the last verdict was given; 0 where there never was one."""
    requests: int = 0
    """Requests since then that could have been judged."""
    lost: int = 0
    """Judgements since then that were selected and gave no verdict."""
    without_model: int = 0
    """Requests since then that nobody judged because no judge model was configured."""
    went_on: bool = False
    """Whether the app still served requests a day after the last verdict."""

    def note(self, hour: Hour) -> None:
        """Take in one hour; a verdict in it ends the silence."""
        if hour.judged:
            self.requests = self.lost = self.without_model = 0
            self.went_on = False
            self.last_verdict_ns = max(self.last_verdict_ns, hour.last_verdict_ns)
        else:
            self.requests += len(hour.seen)
            self.lost += hour.lost
            self.without_model += hour.without_model

    def sentence(self, usual_share: float) -> str:
        """Say that verdicts are missing, and why if that is known; empty if none are.

        ``usual_share`` is the part of the requests, 0..1, that was judged so far.
        """
        since = "no verdict so far"
        if self.last_verdict_ns:
            since = f"no verdict since {moment(self.last_verdict_ns)}"
        later = " later" if self.last_verdict_ns else ""
        if self.lost == 1:
            return f"{since}: the only{later} judgement was lost"
        if self.lost:
            return f"{since}: all {self.lost:,}{later} judgements were lost"
        if self.without_model:
            return f"{since}: no judge model was configured for {self.without_model:,} requests"
        expected = self.requests * usual_share
        if expected >= EXPECTED_VERDICTS:
            return (
                f"{since}, although about {expected:,.0f} of the {self.requests:,} requests since"
                " then would usually have been judged"
            )
        return f"{since}, although the app went on serving requests" if self.went_on else ""

    def as_plain(self) -> dict[str, Any]:
        """Return the state as types of JSON, for `from_plain`."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Silence:
        """Restore the state that `as_plain` returned."""
        return cls(**{each.name: plain[each.name] for each in fields(cls)})
