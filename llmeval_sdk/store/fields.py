"""The fields of answers: those that are probably wrong, and what is known of each kind of field.

A label of one field of an answer is feedback under the name of the judge of extractions, with the
field's path in its metadata. Feedback of that name without a path is about the whole answer.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from hashlib import blake2b
from typing import Any

from llmeval_sdk.model import values
from llmeval_sdk.statistics.acceptance import LabelledScore
from llmeval_sdk.store.encode import loads
from llmeval_sdk.store.labels import EXTRACTION_JUDGE, detail_of, field_of
from llmeval_sdk.store.latest import is_latest


RISK = "extraction_risk"
"""The evaluator whose chances say which fields are doubtful."""
MAX_OF_A_FIELD = 5
"""How many values of one field a list of doubtful ones has: a field that is always doubtful must
not hide the others."""
MAX_LOOKED_AT = 5_000
"""How many doubtful fields are read for one list."""


@dataclass(frozen=True, slots=True)
class ScoredField:
    """One field of an answer, and the chance that its value is wrong."""

    seq: int
    """The row in the table of fields."""
    trace_id: str
    span_id: str
    span_name: str | None
    time_ns: int
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

    @property
    def reason(self) -> str:
        """Return why it is doubtful, in a sentence; empty where nothing is said."""
        reason = self.details.get("reason")
        return reason if isinstance(reason, str) else ""


def doubtful_fields(
    connection: sqlite3.Connection,
    *,
    above: float = values.DOUBTFUL_ABOVE,
    since_ns: int = 0,
    span_name: str | None = None,
    field: str | None = None,
    most: int = 50,
    most_of_a_field: int = MAX_OF_A_FIELD,
) -> list[ScoredField]:
    """Return the fields that are most probably wrong and that nobody labelled, worst first.

    Args:
        connection: a store that is open.
        above: only fields with a greater chance of an error, 0..1.
        since_ns: only fields that were scored from this time on, in nanoseconds since the epoch.
        span_name: only answers of spans with this name.
        field: only this field; `ScoredField.field` says what it is called.
        most: how many fields to return at most.
        most_of_a_field: how many values of one field of one span name to return at most.
    """
    about = {
        "risk": RISK, "judge": EXTRACTION_JUDGE, "above": above, "since": since_ns,
        "span_name": span_name, "field": field, "limit": MAX_LOOKED_AT,
    }  # fmt: skip
    chosen: list[ScoredField] = []
    counts: Counter[tuple[str | None, str]] = Counter()
    for *row, evaluation_id, place in connection.execute(_DOUBTFUL, about):
        scored = ScoredField(*row)
        kind = scored.span_name, scored.field
        if counts[kind] < most_of_a_field:
            counts[kind] += 1
            chosen.append(_with_details(connection, scored, evaluation_id, place))
        if len(chosen) == most:
            break
    return chosen


def worst_fields(connection: sqlite3.Connection, span_ids: list[str]) -> dict[str, ScoredField]:
    """Return the field of each answer that is most probably wrong, by the id of its span."""
    worst: dict[str, ScoredField] = {}
    for span_id in span_ids:
        row = connection.execute(_WORST, {"risk": RISK, "span_id": span_id}).fetchone()
        if row is not None:
            *columns, evaluation_id, place = row
            worst[span_id] = _with_details(connection, ScoredField(*columns), evaluation_id, place)
    return worst


def scored_field(connection: sqlite3.Connection, seq: int) -> ScoredField | None:
    """Return the field in a row of the table; ``None`` if there is no such row."""
    row = connection.execute(_ROW, (seq,)).fetchone()
    if row is None:
        return None
    *columns, evaluation_id, place = row
    return _with_details(connection, ScoredField(*columns), evaluation_id, place)


def _with_details(
    connection: sqlite3.Connection, scored: ScoredField, evaluation_id: str, place: int
) -> ScoredField:
    metadata = connection.execute(_METADATA, (scored.span_id, evaluation_id)).fetchone()
    parsed = loads(metadata[0], {}) if metadata else {}
    entries = parsed.get("fields") if isinstance(parsed, dict) else None
    entries = entries if isinstance(entries, list) else []
    entry = entries[place] if place < len(entries) and isinstance(entries[place], dict) else {}
    return replace(scored, details=entry)


_COLUMNS = """
f.seq, f.trace_id, f.span_id, f.span_name, f.time_ns, f.field, f.path, f.value, f.chance,
f.id, f.place
"""
_IS_LATEST = f"""
EXISTS (SELECT 1 FROM evaluations e
  WHERE e.span_id = f.span_id AND e.id = f.id AND {is_latest("e")})
"""  # noqa: S608 - constants
_IS_ABOUT_FIELD = f"ifnull({field_of('l')} = f.path, 1)"
_DOUBTFUL = f"""
SELECT {_COLUMNS} FROM fields f INDEXED BY fields_by_chance
WHERE f.name = :risk AND f.chance IS NOT NULL AND f.chance > :above AND f.time_ns >= :since
  AND (:span_name IS NULL OR f.span_name = :span_name) AND (:field IS NULL OR f.field = :field)
  AND {_IS_LATEST} AND NOT EXISTS (SELECT 1 FROM feedback l
    WHERE l.span_id = f.span_id AND +l.name = :judge AND l.error_type IS NULL AND {_IS_ABOUT_FIELD})
ORDER BY f.chance DESC, f.time_ns DESC LIMIT :limit
"""  # noqa: S608 - constants
_WORST = f"""
SELECT {_COLUMNS} FROM fields f
WHERE f.span_id = :span_id AND +f.name = :risk AND f.chance IS NOT NULL AND {_IS_LATEST}
ORDER BY f.chance DESC, f.place LIMIT 1
"""  # noqa: S608 - constants
_ROW = f"SELECT {_COLUMNS} FROM fields f WHERE f.seq = ?"  # noqa: S608
_METADATA = "SELECT metadata FROM evaluations WHERE span_id = ? AND id = ?"


@dataclass(frozen=True, slots=True)
class FieldSummary:
    """What is known of one field of the answers of one span name."""

    span_name: str | None
    field: str
    count: int
    """How many values were scored, or could not be checked."""
    not_checked: int
    expected_wrong: float
    """The sum of the chances: how many of the values are probably wrong."""
    doubtful: int
    """How many values have a chance above `model.values.DOUBTFUL_ABOVE`."""
    labelled: int
    """How many values people labelled."""
    wrong: int
    """How many of those they called wrong."""


def field_summaries(
    connection: sqlite3.Connection, since_ns: int = 0, span_name: str | None = None
) -> list[FieldSummary]:
    """Return what is known of each field, those with the most values that are wrong first."""
    about: dict[str, Any] = {
        "risk": RISK, "judge": EXTRACTION_JUDGE, "since": since_ns, "span_name": span_name,
        "above": values.DOUBTFUL_ABOVE,
    }  # fmt: skip
    labels: dict[tuple[str | None, str], list[float]] = {}
    latest = {
        (span_id, path): (span_name, field, value)
        for span_name, field, span_id, path, value in connection.execute(_LABELLED, about)
    }
    for name, field, value in latest.values():
        number = values.number(value)
        if number is not None:
            labels.setdefault((name, field), []).append(number)
    summaries = []
    for name, field, count, not_checked, expected, doubtful in connection.execute(_SUMMED, about):
        said = labels.get((name, field), [])
        wrong = sum(label < 0.5 for label in said)
        summaries.append(
            FieldSummary(name, field, count, not_checked, expected, doubtful, len(said), wrong)
        )
    return sorted(summaries, key=lambda each: (-each.expected_wrong, each.field))


_SUMMED = """
SELECT span_name, field, count(*), count(*) - count(chance), ifnull(sum(chance), 0.0),
  ifnull(sum(chance > :above), 0)
FROM fields INDEXED BY fields_summed
WHERE name = :risk AND time_ns >= :since AND (:span_name IS NULL OR span_name = :span_name)
GROUP BY span_name, field
"""
_LABELLED = f"""
SELECT f.span_name, f.field, f.span_id, f.path, l.value
FROM feedback l JOIN fields f ON f.span_id = l.span_id AND +f.name = :risk
WHERE l.name = :judge AND l.error_type IS NULL AND f.time_ns >= :since
  AND ifnull({detail_of("l", "source")}, '') != 'user'
  AND (:span_name IS NULL OR f.span_name = :span_name) AND {_IS_ABOUT_FIELD}
  AND ({field_of("l")} IS NOT NULL
    OR (SELECT count(*) FROM fields o WHERE o.span_id = f.span_id AND o.id = f.id) = 1)
ORDER BY l.time_ns, l.seq
"""  # noqa: S608 - constants


# Values drawn at random, whose labels say which values need no look.

ACCEPT = "accept"
"""What labels of values that were drawn at random are for, in their metadata."""
PURPOSE = "purpose"
"""The key of a label's metadata that says so."""
MAX_TRAFFIC = 200_000
"""How many values of a field are read: the latest."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """Values of one field that were drawn at random, each with the same chance."""

    field: str
    total: int
    """How many values they were drawn from."""
    rows: tuple[int, ...]
    """The rows of those without a label, in the order in which to show them."""
    count: int
    """How many were drawn, with those that have a label."""

    @property
    def chance(self) -> float:
        """Return the chance of each value to be drawn, 0..1."""
        return self.count / self.total if self.total else 0.0


@dataclass(frozen=True, slots=True)
class FieldTraffic:
    """The scores of a field's values, and what people said of those drawn at random."""

    scores: tuple[float | None, ...]
    labels: tuple[LabelledScore, ...]
    span_names: tuple[str, ...]


def draw_values(
    connection: sqlite3.Connection,
    field: str,
    count: int,
    since_ns: int = 0,
    span_name: str | None = None,
) -> Drawn:
    """Draw values of a field at random, the same ones as long as the traffic is the same.

    The order is that of a hash of span and path, which nothing that is said of a value moves.
    """
    about = _about_traffic(field, since_ns, span_name)
    rows = connection.execute(_TRAFFIC, about).fetchall()
    rows.sort(key=lambda row: _lot(row[1], row[2]))
    chosen = rows[:count]
    labelled = _labels_for_accept(connection, about)
    waiting = tuple(row[0] for row in chosen if (row[1], row[2]) not in labelled)
    return Drawn(field, len(rows), waiting, len(chosen))


def field_traffic(
    connection: sqlite3.Connection, field: str, since_ns: int = 0, span_name: str | None = None
) -> FieldTraffic:
    """Return the scores of a field, and the labels of its values that were drawn at random."""
    about = _about_traffic(field, since_ns, span_name)
    rows = connection.execute(_TRAFFIC, about).fetchall()
    said = _labels_for_accept(connection, about)
    labels = tuple(
        LabelledScore(chance, said[span_id, path] < 0.5)
        for _, span_id, path, chance, _ in rows
        if (span_id, path) in said
    )
    names = tuple(sorted({name or "" for *_, name in rows}))
    return FieldTraffic(tuple(row[3] for row in rows), labels, names)


def _about_traffic(field: str, since_ns: int, span_name: str | None) -> dict[str, Any]:
    return {
        "risk": RISK, "judge": EXTRACTION_JUDGE, "field": field, "since": since_ns,
        "span_name": span_name, "limit": MAX_TRAFFIC, "purpose": ACCEPT,
    }  # fmt: skip


def _labels_for_accept(
    connection: sqlite3.Connection, about: Mapping[str, Any]
) -> dict[tuple[str, str], float]:
    """Return the latest label, 0..1, of each value that was drawn, by span and path."""
    rows = connection.execute(_FOR_ACCEPT, about)
    numbers = ((span_id, path, values.number(value)) for span_id, path, value in rows)
    return {(span_id, path): number for span_id, path, number in numbers if number is not None}


def _lot(span_id: str, path: str) -> bytes:
    return blake2b(f"{span_id} {path}".encode("utf-8", "replace"), digest_size=8).digest()


_TRAFFIC = """
SELECT seq, span_id, path, chance, span_name FROM fields
WHERE name = :risk AND field = :field AND time_ns >= :since
  AND (:span_name IS NULL OR span_name = :span_name)
ORDER BY seq DESC LIMIT :limit
"""
_FOR_ACCEPT = f"""
SELECT l.span_id, {field_of("l")}, l.value FROM feedback l
WHERE l.name = :judge AND l.error_type IS NULL AND {detail_of("l", PURPOSE)} = :purpose
ORDER BY l.time_ns, l.seq
"""  # noqa: S608 - constants
