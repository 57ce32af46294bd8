"""The fields of answers: those that are probably wrong, and what is known of each kind of field.

A label of one field of an answer is feedback under the name of the judge of extractions, with the
field's path in its metadata. Feedback of that name without a path is about the whole answer.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

from llmeval_sdk.errors import did_you_mean
from llmeval_sdk.model import values
from llmeval_sdk.model.structure import general_path
from llmeval_sdk.statistics.acceptance import LabelledScore
from llmeval_sdk.statistics.calibration import Calibration
from llmeval_sdk.store.encode import loads
from llmeval_sdk.store.filters import Filter
from llmeval_sdk.store.frames import ALL_TRAFFIC, DRAWN_FROM, Frame, frame_in
from llmeval_sdk.store.labels import (
    EXTRACTION_JUDGE,
    detail_of,
    field_of,
    is_good,
    json_object,
    of_people_sql,
)
from llmeval_sdk.store.latest import is_latest
from llmeval_sdk.store.selection import read_by
from llmeval_sdk.text.terminal import printable


MAX_OF_A_FIELD = 5
"""The most values of one field that a list of doubtful values shows, so that a field which is
always doubtful does not hide the others."""
MAX_LOOKED_AT = 5_000
"""The most doubtful values that are read to make one list, the worst ones."""


@dataclass(frozen=True, slots=True)
class ScoredField:
    """One field of an answer, and the chance that its value is wrong."""

    seq: int
    """The row in the table of fields."""
    trace_id: str
    span_id: str
    span_name: str | None
    field: str
    """The path as all items of its lists have it, such as ``lines.amount``."""
    path: str
    """The path in the answer, such as ``lines[2].amount``."""
    value: str | None
    chance: float | None
    """That the value is wrong, 0..1; ``None`` where nothing could be checked."""
    details: Mapping[str, Any] = dataclass_field(default_factory=dict)
    """What else the evaluation says of it: ``reason``, ``chunk_number``, ``start``, ``end``,
    ``evidence``, ``rival``."""
    verdict: Mapping[str, Any] = dataclass_field(default_factory=dict)
    """The verdict of the judge ``extraction_correctness``: ``rating``, ``rationale``, ``problem``
    and ``right_value``; empty if the judge was not asked about the field or gave no verdict."""

    @property
    def reason(self) -> str:
        """Return why it is doubtful, in a sentence; empty where nothing is said."""
        reason = self.details.get("reason")
        return reason if isinstance(reason, str) else ""


def doubtful_fields(
    connection: sqlite3.Connection,
    *,
    above: float = values.DOUBTFUL_ABOVE,
    most: int = 50,
    most_of_a_field: int = MAX_OF_A_FIELD,
    calibration: Calibration | None = None,
) -> list[ScoredField]:
    """Return the fields that are most probably wrong and that nobody labelled, worst first.

    Args:
        connection: a store that is open.
        above: only fields with a greater chance of an error, 0..1.
        most: how many fields to return at most.
        most_of_a_field: how many values of one field of one span name to return at most.
        calibration: moves the chances to the app's own rate of errors; ``above`` is then compared
            with the moved ones.
    """
    about = {
        "risk": values.EXTRACTION_RISK, "judge": EXTRACTION_JUDGE,
        "above": above if calibration is None else _raw_of(above, calibration),
        "limit": MAX_LOOKED_AT,
    }  # fmt: skip
    doubtful = _DOUBTFUL.format(fields=read_by(connection, "fields", "fields_by_chance", "f"))
    chosen: list[ScoredField] = []
    counts: Counter[tuple[str | None, str]] = Counter()
    said = _Entries(connection)
    for row in connection.execute(doubtful, about):
        kind = row[_SPAN_NAME], row[_FIELD]
        if counts[kind] < most_of_a_field:
            counts[kind] += 1
            chosen.append(moved(_field_in(said, row), calibration))
        if len(chosen) == most:
            break
    return chosen


def moved(scored: ScoredField, calibration: Calibration | None) -> ScoredField:
    """Return a field with its chance moved to the app's own rate of errors, if that is known."""
    if calibration is None or scored.chance is None:
        return scored
    return replace(scored, chance=calibration(scored.chance))


def _raw_of(above: float, calibration: Calibration) -> float:
    """Return the chance that a calibration moves to ``above``; it only rises."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if calibration(middle) > above else (middle, high)
    return low


def worst_fields(connection: sqlite3.Connection, span_ids: Iterable[str]) -> dict[str, ScoredField]:
    """Return the field of each answer that is most probably wrong, by the id of its span."""
    worst: dict[str, ScoredField] = {}
    said = _Entries(connection)
    for span_id in span_ids:
        about = {"risk": values.EXTRACTION_RISK, "span_id": span_id}
        row = connection.execute(_WORST, about).fetchone()
        if row is not None:
            worst[span_id] = _field_in(said, row)
    return worst


def scored_field(connection: sqlite3.Connection, seq: int) -> ScoredField | None:
    """Return the field in a row of the table; ``None`` if there is no such row."""
    row = connection.execute(_ROW, (seq,)).fetchone()
    return None if row is None else _field_in(_Entries(connection), row)


def unknown_field(connection: sqlite3.Connection, field: str, frame: Frame = ALL_TRAFFIC) -> str:
    """Say that a field has no scored value in a frame, and which one was probably meant."""
    known = [summary.field for summary in field_summaries(connection)]
    hint = did_you_mean(field, known)
    named = ", ".join(printable(name, 60) for name in dict.fromkeys(known[:10]))
    part = f" where {Frame(frame.where)}" if frame.where else ""
    return (
        f"no value of the field {field!r} was scored in this store{part}{hint and f': {hint}'}."
        f" Its fields: {named or 'none'}"
    )


def _field_in(said: _Entries, row: tuple[Any, ...]) -> ScoredField:
    """Make a field of `_COLUMNS`, with what its evaluation says of it beyond these."""
    *columns, evaluation_id, place = row
    scored = ScoredField(*columns)
    details = said.of(scored.span_id, evaluation_id, place)
    judged = {"span_id": scored.span_id, "path": scored.path, "judge": EXTRACTION_JUDGE}
    verdict = said.connection.execute(_JUDGED, judged).fetchone()
    if verdict is None:
        return replace(scored, details=details)
    return replace(scored, details=details, verdict=said.of(scored.span_id, *verdict))


class _Entries:
    """What evaluations say in their metadata of single fields.

    The metadata of the last ones are kept: those of five hundred fields may have a megabyte, and to
    read them again for each field takes seconds.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._of = lru_cache(_MAX_READ)(self._read)

    def of(self, span_id: str, evaluation_id: str, place: int) -> dict[str, Any]:
        """Return what an evaluation says of the field at one place."""
        entries = self._of(span_id, evaluation_id)
        entry = entries[place] if place < len(entries) else None
        return entry if isinstance(entry, dict) else {}

    def _read(self, span_id: str, evaluation_id: str) -> list[Any]:
        metadata = self.connection.execute(_METADATA, (span_id, evaluation_id)).fetchone()
        parsed = loads(metadata[0], {}) if metadata else {}
        entries = parsed.get("fields") if isinstance(parsed, dict) else None
        return entries if isinstance(entries, list) else []


_MAX_READ = 16
_SPAN_NAME, _FIELD = 3, 4
"""Where these two stand in a row of `_COLUMNS`."""
_COLUMNS = """
f.seq, f.trace_id, f.span_id, f.span_name, f.field, f.path, f.value, f.chance, f.id, f.place
"""
_IS_LATEST = f"""
EXISTS (SELECT 1 FROM evaluations e
  WHERE e.span_id = f.span_id AND e.id = f.id AND {is_latest("e")})
"""  # noqa: S608 - constants
_IS_OF_PEOPLE = of_people_sql("l")
_IS_ABOUT_FIELD = f"ifnull({field_of('l')} = f.path, 1)"
_DOUBTFUL = f"""
SELECT {_COLUMNS} FROM {{fields}}
WHERE f.name = :risk AND f.chance IS NOT NULL AND f.chance > :above
  AND {_IS_LATEST} AND NOT EXISTS (SELECT 1 FROM feedback l
    WHERE l.span_id = f.span_id AND +l.name = :judge AND l.error_type IS NULL AND {_IS_ABOUT_FIELD}
      AND {_IS_OF_PEOPLE})
ORDER BY f.chance DESC, f.time_ns DESC LIMIT :limit
"""  # noqa: S608 - constants
_WORST = f"""
SELECT {_COLUMNS} FROM fields f
WHERE f.span_id = :span_id AND +f.name = :risk AND f.chance IS NOT NULL AND {_IS_LATEST}
ORDER BY f.chance DESC, f.place LIMIT 1
"""  # noqa: S608 - constants
_ROW = f"SELECT {_COLUMNS} FROM fields f WHERE f.seq = ?"  # noqa: S608
_METADATA = "SELECT metadata FROM evaluations WHERE span_id = ? AND id = ?"
_JUDGED = f"""
SELECT f.id, f.place FROM fields f
WHERE f.span_id = :span_id AND f.path = :path AND +f.name = :judge AND {_IS_LATEST}
"""  # noqa: S608 - constants


@dataclass(frozen=True, slots=True)
class FieldSummary:
    """The scores and labels of one field, over all answers of the spans with one name."""

    span_name: str | None
    field: str
    count: int
    """How many values were scored, or could not be checked."""
    not_checked: int
    expected_wrong: float
    """The sum of the chances: how many of the values are probably wrong."""
    doubtful: int
    """How many values have a chance above `model.values.DOUBTFUL_ABOVE`."""
    judged: int
    """The number of values with a verdict of the judge ``extraction_correctness``."""
    judged_wrong: int
    """How many of these it called wrong."""
    labelled: int
    """How many values have a label by a person."""
    wrong: int
    """How many of the labelled values were called wrong."""


def field_summaries(
    connection: sqlite3.Connection,
    since_ns: int = 0,
    span_name: str | None = None,
    calibration: Calibration | None = None,
) -> list[FieldSummary]:
    """Return a summary of each field; those with the most values that are wrong come first.

    ``calibration`` moves the chances to the app's own rate of errors.
    """
    about: dict[str, Any] = {
        "risk": values.EXTRACTION_RISK, "judge": EXTRACTION_JUDGE, "since": since_ns,
        "span_name": span_name, "above": values.DOUBTFUL_ABOVE,
        "evaluator": values.EXTRACTION_RISK,
    }  # fmt: skip
    labels: dict[tuple[str | None, str], list[bool]] = {}
    latest = {
        (span_id, path): (span_name, field, value)
        for span_name, field, span_id, path, value in connection.execute(_LABELLED, about)
    }
    for name, field, value in latest.values():
        if (good := is_good(value)) is not None:
            labels.setdefault((name, field), []).append(good)
    by_judge = {**about, "evaluator": EXTRACTION_JUDGE, "above": 0.5}
    judged = {
        (name, field): (count, wrong)
        for name, field, count, _, _, wrong in connection.execute(_SUMMED, by_judge)
    }
    summaries = []
    if calibration is not None:
        connection.create_function("moved", 1, calibration, deterministic=True)
    summed = _SUMMED if calibration is None else _SUMMED_MOVED
    for name, field, count, not_checked, expected, doubtful in connection.execute(summed, about):
        said = labels.get((name, field), [])
        summaries.append(
            FieldSummary(
                name,
                field,
                count,
                not_checked,
                expected,
                doubtful,
                *judged.get((name, field), (0, 0)),
                len(said),
                said.count(False),
            )
        )
    return sorted(summaries, key=lambda each: (-each.expected_wrong, each.field))


# Whether an evaluation is the latest is asked once, and not again for each of its fields: of
# answers with twenty fields, that is less than half of the time.
def _summed(chance: str) -> str:
    """Return the query that sums fields up, by an expression for the chance of an error."""
    return f"""
SELECT span_name, field, count(*), count(*) - count(chance), ifnull(sum({chance}), 0.0),
  ifnull(sum({chance} > :above), 0)
FROM fields f
WHERE name = :evaluator AND time_ns >= :since AND (:span_name IS NULL OR span_name = :span_name)
  AND (f.span_id, f.id) IN (
    SELECT e.span_id, e.id FROM evaluations e WHERE e.name = :evaluator AND {is_latest("e")})
GROUP BY span_name, field
"""  # noqa: S608 - constants


_SUMMED = _summed("chance")
_SUMMED_MOVED = _summed("CASE WHEN chance IS NOT NULL THEN moved(chance) END")
_LABELLED = f"""
SELECT f.span_name, f.field, f.span_id, f.path, l.value
FROM feedback l JOIN fields f ON f.span_id = l.span_id AND +f.name = :risk
WHERE l.name = :judge AND l.error_type IS NULL AND f.time_ns >= :since
  AND {_IS_OF_PEOPLE} AND (:span_name IS NULL OR f.span_name = :span_name) AND {_IS_ABOUT_FIELD}
  AND ({field_of("l")} IS NOT NULL
    OR (SELECT count(*) FROM fields o WHERE o.span_id = f.span_id AND o.id = f.id) = 1)
ORDER BY l.time_ns, l.seq
"""  # noqa: S608 - constants


# Values drawn at random, whose labels say which values need no look.
#
# The values of a field are handed out in the order of a hash. So those that somebody has seen in
# one draw, from the first to the last that was labelled, are a random sample of the values that
# were there when they were drawn. Labels of several draws are no such sample together: the traffic
# grew between them, and the values that were there before had more chances.

ACCEPT = "accept"
"""The purpose, in a label's metadata, of the labels of values that were drawn at random."""
PURPOSE, DRAWN = "purpose", "drawn"
"""Keys of a label's metadata: what the label is for, and the `Draw` that its value comes from."""
MAX_TRAFFIC = 200_000
"""The most values of a field that are read, the latest ones."""
MAX_DRAWS = 20
"""The most draws among which the one with the most labels is looked for."""


class Draw(NamedTuple):
    """The values of a field from which some were drawn at random."""

    up_to: int
    """The last row of the table of fields that was there."""
    frame: Frame
    """The conditions on their requests, and the time from which on they were scored."""
    span_name: str | None
    """The name of their spans; ``None`` stands for all names."""

    def covers(self, frame: Frame, span_name: str | None) -> bool:
        """Say whether the values of a frame and a name are all, or a part, of these values."""
        return self.span_name in (None, span_name) and self.frame.covers(frame)

    def as_metadata(self) -> dict[str, Any]:
        """Return what a label says of its draw, which `_draw_in` reads.

        Labels drawn from all requests say no more than release 0.1.0 reads.
        """
        where = {"where": sorted(self.frame.where)} if self.frame.where else {}
        return {
            "up_to": self.up_to, "since_ns": self.frame.since_ns, "span_name": self.span_name,
            **where,
        }  # fmt: skip


def _draw_in(metadata: str | None) -> Draw | None:
    """Return the draw that a label's metadata name; ``None`` for that of an app that draws itself.

    A part of the traffic that cannot be read covers nothing.
    """
    drawn = json_object(metadata)
    up_to, name = drawn.get("up_to"), drawn.get("span_name")
    if not isinstance(up_to, int) or not isinstance(drawn.get("since_ns"), int):
        return None
    return Draw(up_to, frame_in({DRAWN_FROM: drawn}), None if name is None else str(name))


class _Value(NamedTuple):
    """One scored value of a field."""

    seq: int
    span_id: str
    path: str
    chance: float | None
    span_name: str | None
    time_ns: int

    @property
    def key(self) -> tuple[str, str]:
        return self.span_id, self.path

    @property
    def lot(self) -> bytes:
        """Its place in the order of all draws, which nothing that is said of the value moves."""
        return _lot(self.key)


def _lot(key: tuple[str, str]) -> bytes:
    return blake2b(f"{key[0]} {key[1]}".encode("utf-8", "replace"), digest_size=8).digest()


@dataclass(frozen=True, slots=True)
class Drawn:
    """Some values of a field, each of which was drawn with the same chance."""

    draw: Draw
    total: int
    """The number of values from which they were drawn."""
    count: int
    """The number of values that were drawn, whether or not they have a label."""
    waiting: tuple[tuple[int, str], ...]
    """The row and the path of each value without a label, in the order in which to show them."""

    @property
    def chance(self) -> float:
        """Return the chance of each value to be drawn, 0..1."""
        return self.count / self.total if self.total else 0.0


@dataclass(frozen=True, slots=True)
class FieldTraffic:
    """The values of a field, and the labels of a random sample of them."""

    scores: tuple[float | None, ...]
    """The chance of an error of each value; ``None`` where nothing could be checked."""
    labels: tuple[LabelledScore, ...]
    unlabelled: int
    """How many values of the sample were handed out and have no label, because they were skipped.
    If people skip the hard ones, the labels promise too much."""
    span_names: tuple[str, ...]
    in_lists: bool
    """Whether one answer may hold several of the values."""
    version: str
    """The version of the score; empty where there are no values."""
    left_out: int = 0
    """How many values were labelled in draws from a later period, from spans of one name or from a
    part of the traffic, which say nothing of the others."""


def draw_values(
    connection: sqlite3.Connection,
    field: str,
    count: int,
    frame: Frame = ALL_TRAFFIC,
    span_name: str | None = None,
) -> Drawn:
    """Draw values of a field at random, the same ones as long as the traffic is the same.

    ``frame`` has the conditions of the connection's selection, as `selection.frame_of` says them.
    """
    traffic, _ = _traffic(connection, field, frame.since_ns, span_name)
    chosen = sorted(traffic, key=lambda value: value.lot)[:count]
    labelled, _ = _labels_for_accept(connection)
    waiting = tuple((value.seq, value.path) for value in chosen if value.key not in labelled)
    draw = Draw(max((value.seq for value in traffic), default=0), frame, span_name)
    return Drawn(draw, len(traffic), len(chosen), waiting)


def field_traffic(
    connection: sqlite3.Connection,
    field: str,
    frame: Frame = ALL_TRAFFIC,
    span_name: str | None = None,
) -> FieldTraffic:
    """Return the values of a field, with the largest random sample of them that has labels.

    ``frame`` has the conditions of the connection's selection, as `selection.frame_of` says them.
    What was drawn from more than these values is a random sample of them as well.
    """
    traffic, version = _traffic(connection, field, frame.since_ns, span_name)
    labelled, keys_by_draw = _labels_for_accept(connection)
    lots = {value.key: value.lot for value in traffic}
    counts: dict[Draw | None, int] = {}
    left_out = 0
    for draw, keys in keys_by_draw.items():
        count = sum(key in lots for key in keys)
        if draw is None or draw.covers(frame, span_name):
            counts[draw] = count
        else:
            left_out += count
    labels: list[LabelledScore] = []
    unlabelled = 0
    for draw in sorted(counts, key=lambda draw: -counts[draw])[:MAX_DRAWS]:
        keys = keys_by_draw[draw]
        last = max(map(_lot, keys))  # also of values outside of the frame, which were shown as well
        sample = [
            value
            for value in traffic
            if (
                value.key in keys
                if draw is None
                else value.seq <= draw.up_to
                and value.time_ns >= draw.frame.since_ns
                and lots[value.key] <= last
            )
        ]
        own = [
            LabelledScore(value.chance, not labelled[value.key])
            for value in sample
            if value.key in labelled
        ]
        if len(own) > len(labels):
            labels, unlabelled = own, len(sample) - len(own)
    return FieldTraffic(
        tuple(value.chance for value in traffic),
        tuple(labels),
        unlabelled,
        tuple(sorted({value.span_name or "" for value in traffic})),
        any("[" in value.path for value in traffic),
        version,
        left_out,
    )


def spans_without(
    connection: sqlite3.Connection, field: str, where: Filter, since_ns: int, span_name: str | None
) -> int:
    """Return how many selected spans with values of a field do not meet conditions on tags.

    Other spans of their requests do.
    """
    arguments = {
        **where.arguments(), "risk": values.EXTRACTION_RISK, "field": field, "since": since_ns,
        "span_name": span_name,
    }  # fmt: skip
    tests = " AND ".join(f"({part.test_sql(place)})" for place, part in enumerate(where.conditions))
    statement = _WITHOUT.format(tests=tests or "1")
    (count,) = connection.execute(statement, arguments).fetchone()
    return int(count)


class LabelledChance(NamedTuple):
    """A value that was drawn at random, with its chance of an error and a person's label."""

    span_id: str
    path: str
    chance: float
    """The score's chance of an error, 0..1."""
    good: bool
    """Whether the person called the value right."""
    drawn: float
    """The chance of the value to be drawn, above 0 and at most 1."""
    version: str
    """The version of the score."""


def labelled_chances(connection: sqlite3.Connection) -> list[LabelledChance]:
    """Return the values, of any field, that were drawn at random and labelled, each once.

    What was drawn from the requests of a filter is left out: its chance holds among these alone.
    """
    latest: dict[tuple[str, str], LabelledChance] = {}
    about = {"judge": EXTRACTION_JUDGE, "purpose": ACCEPT, "risk": values.EXTRACTION_RISK}
    for span_id, path, chance, value, drawn, version, origin in connection.execute(_CHANCES, about):
        good = is_good(value)
        if (draw := _draw_in(origin)) is not None and draw.frame.where:
            continue
        if good is not None and isinstance(drawn, float) and 0 < drawn <= 1:
            one = LabelledChance(span_id, path, chance, good, drawn, str(version or "1"))
            latest[span_id, path] = one
    return list(latest.values())


def audited_labels(
    connection: sqlite3.Connection,
    field: str,
    saved_ns: int,
    span_name: str | None = None,
    *,
    is_of_group: bool = False,
) -> list[bool]:
    """Return the labels of the values that a threshold accepted and that were audited.

    ``True`` stands for each that is right. Audited values are drawn at random from those that would
    have been accepted, so their labels show how often accepted values are wrong.

    Args:
        connection: a store that is open.
        field: the threshold's field.
        saved_ns: when it was saved, by which the audits name it.
        span_name: the name of its spans.
        is_of_group: whether it is of a group. Audits of release 0.1.0, which named no threshold,
            are of none.
    """
    about = {
        "acceptance": values.ACCEPTANCE, "judge": EXTRACTION_JUDGE, "saved": saved_ns,
        "span_name": span_name, "is_of_group": is_of_group,
    }  # fmt: skip
    latest: dict[tuple[str, str], bool] = {}
    for span_id, asked, path, value in connection.execute(_AUDITED, about):
        said = path or asked
        is_asked = asked is None or asked in (said, general_path(str(said)))
        good = is_good(value)
        if said is not None and general_path(str(said)) == field and is_asked and good is not None:
            latest[span_id, str(said)] = good
    return list(latest.values())


def _traffic(
    connection: sqlite3.Connection, field: str, since_ns: int, span_name: str | None
) -> tuple[list[_Value], str]:
    """Return a field's values by the newest version of the score, each once, and that version."""
    about = {
        "risk": values.EXTRACTION_RISK, "field": field, "since": since_ns, "span_name": span_name,
        "limit": MAX_TRAFFIC,
    }  # fmt: skip
    rows = connection.execute(_TRAFFIC, about).fetchall()
    traffic: dict[tuple[str, str], _Value] = {}
    for *columns, version in rows:
        if version == rows[0][-1]:
            value = _Value(*columns)
            traffic.setdefault(value.key, value)
    return list(traffic.values()), str(rows[0][-1] or "") if rows else ""


def _labels_for_accept(
    connection: sqlite3.Connection,
) -> tuple[dict[tuple[str, str], bool], dict[Draw | None, set[tuple[str, str]]]]:
    """Return whether each labelled value is right, and the values that were labelled in each draw.

    Values are named by span and path, and may lie outside of the connection's selection. ``None``
    stands for the draw of an app that draws by itself.
    """
    labelled: dict[tuple[str, str], bool] = {}
    keys_by_draw: dict[Draw | None, set[tuple[str, str]]] = {}
    about = {"judge": EXTRACTION_JUDGE, "purpose": ACCEPT}
    for span_id, path, value, drawn in connection.execute(_FOR_ACCEPT, about):
        if (good := is_good(value)) is not None:
            labelled[span_id, path] = good
            keys_by_draw.setdefault(_draw_in(drawn), set()).add((span_id, path))
    return labelled, keys_by_draw


_CHANCES = f"""
SELECT l.span_id, f.path, f.chance, l.value, l.inclusion_probability, e.evaluator_version,
  {detail_of("l", DRAWN)}
FROM feedback l JOIN fields f ON f.span_id = l.span_id AND +f.name = :risk
  AND f.path = {field_of("l")}
JOIN evaluations e ON e.span_id = f.span_id AND e.id = f.id
WHERE l.name = :judge AND l.error_type IS NULL AND {_IS_OF_PEOPLE}
  AND {detail_of("l", PURPOSE)} = :purpose AND f.chance IS NOT NULL AND {is_latest("e")}
ORDER BY l.time_ns, l.seq
"""  # noqa: S608 - constants
_AUDITED = f"""
SELECT e.span_id, {field_of("e")}, {field_of("l")}, l.value
FROM evaluations e JOIN main.feedback l ON l.span_id = e.span_id AND +l.name = :judge
WHERE e.name = :acceptance AND e.value = 'audit' AND e.time_ns >= :saved
  AND CASE WHEN {detail_of("e", values.THRESHOLDS)} IS NULL THEN NOT :is_of_group
    ELSE :saved IN (SELECT value FROM json_each(e.metadata, '$.{values.THRESHOLDS}')) END
  AND (:span_name IS NULL OR e.span_name = :span_name)
  AND l.error_type IS NULL AND {_IS_OF_PEOPLE}
ORDER BY l.time_ns, l.seq
"""  # noqa: S608 - constants
_TRAFFIC = f"""
SELECT f.seq, f.span_id, f.path, f.chance, f.span_name, f.time_ns, e.evaluator_version
FROM fields f JOIN evaluations e ON e.span_id = f.span_id AND e.id = f.id
WHERE f.name = :risk AND f.field = :field AND f.time_ns >= :since
  AND (:span_name IS NULL OR f.span_name = :span_name) AND {is_latest("e")}
ORDER BY f.seq DESC LIMIT :limit
"""  # noqa: S608 - constants
_FOR_ACCEPT = f"""
SELECT l.span_id, {field_of("l")}, l.value, {detail_of("l", DRAWN)}
FROM main.feedback l
WHERE l.name = :judge AND l.error_type IS NULL AND {_IS_OF_PEOPLE}
  AND {detail_of("l", PURPOSE)} = :purpose AND {field_of("l")} IS NOT NULL
ORDER BY l.time_ns, l.seq
"""  # noqa: S608 - constants
_WITHOUT = """
SELECT count(DISTINCT f.span_id) FROM fields f JOIN spans r ON r.span_id = f.span_id
WHERE f.name = :risk AND f.field = :field AND f.time_ns >= :since
  AND (:span_name IS NULL OR f.span_name = :span_name) AND NOT ifnull({tests}, 0)
"""
