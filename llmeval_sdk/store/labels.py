"""What people said of judged records, for `estimates.correction`.

Feedback is a label of a judge where it has the judge's name, or the name in ``report --labels``.
All other feedback, and all with ``metadata={"source": "user"}``, is what users of the app clicked.
Users choose themselves what to click on, so their clicks are counted as thumbs and correct nothing.
A label whose record was drawn with a known chance says so in its metadata, such as
``{"inclusion_probability": 0.1}``.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmeval_sdk import _values
from llmeval_sdk.errors import DataError


@dataclass(frozen=True, slots=True)
class Label:
    """What a person said of a span, 0..1, and the chance with which its record was drawn."""

    value: float
    chance: float | None = None


@dataclass(frozen=True, slots=True)
class Thumbs:
    """What users of the app clicked under one name. It is shown, but it corrects nothing."""

    name: str
    count: int
    mean: float
    share: float
    """The part of the traces, 0..1, whose users said anything; a session's counts as one."""
    unmatched: int = 0
    """How many are about a trace that the store does not have: unknown, or pruned. They are in the
    mean, because somebody said so, and not in the share."""


def labels_of(connection: sqlite3.Connection, name: str) -> dict[str, Label]:
    """Return what people said under a name, by span; users' clicks are left out."""
    labels: dict[str, Label] = {}
    for span_id, value, metadata in connection.execute(_LABELS, (name,)):
        label = read_label(value, metadata)
        if label is not None:
            labels[span_id] = label
    return labels


def read_label(value: Any, metadata: str | None) -> Label | None:
    """Read a label from the store; ``None`` for a user's click, and for what is no label."""
    about = _object(metadata)
    number = _values.number(value)
    if about.get("source") == "user" or number is None or not 0 <= number <= 1:
        return None
    return Label(number, _chance(about.get("inclusion_probability")))


def thumbs(
    connection: sqlite3.Connection, judges: set[str], since_ns: int | None = None
) -> list[Thumbs]:
    """Return what users clicked: all feedback that is no label of a judge.

    Of what was said of one trace, the latest counts; what was said of a session counts each time.
    """
    clicks: dict[str, dict[str | int, tuple[float, bool]]] = {}
    for seq, name, span_id, trace_id, value, metadata, matches in connection.execute(
        _ALL, (since_ns or 0,)
    ):
        number = _values.number(value)
        is_users = name not in judges or _object(metadata).get("source") == "user"
        if number is not None and is_users and 0 <= number <= 1:
            clicks.setdefault(name, {})[trace_id or span_id or seq] = number, bool(matches)
    if not clicks:
        return []
    (traces,) = connection.execute(_TRACES, (since_ns or 0,)).fetchone()
    return [
        _summed(name, list(by_trace.values()), traces) for name, by_trace in sorted(clicks.items())
    ]


def _summed(name: str, said: list[tuple[float, bool]], traces: int) -> Thumbs:
    """Sum up what was said under a name: numbers, and whether the store has their trace."""
    matched = sum(matches for _, matches in said)
    mean = sum(number for number, _ in said) / len(said)
    return Thumbs(name, len(said), mean, matched / max(traces, matched, 1), len(said) - matched)


def about(said: Thumbs) -> str:
    """Say of how much of the traffic users said anything: ``3 traces, 1.2% of all``."""
    unknown = f" ({said.unmatched:,} not in this store)" if said.unmatched else ""
    traces = "trace" if said.count == 1 else "traces"
    return f"{said.count:,} {traces}{unknown}, {said.share:.1%} of all"


def labels_from(path: str) -> dict[str, Label]:
    """Read labels from JSON lines such as ``{"span_id": "…", "label": "yes"}``.

    ``inclusion_probability`` may say with what chance the record was chosen. Raises `DataError`,
    which names the line, if a line is not a label.
    """
    labels: dict[str, Label] = {}
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        row = _object(line)
        value = _values.number(row.get("label"))
        if not isinstance(row.get("span_id"), str) or value is None or not 0 <= value <= 1:
            raise DataError(
                f"line {number} of {path} is no label: expected"
                ' {"span_id": "…", "label": "yes"} or a label from 0 to 1'
            )
        labels[row["span_id"]] = Label(value, _chance(row.get("inclusion_probability")))
    return labels


def _chance(value: Any) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and 0 < value <= 1 else None


def _object(text: str | None) -> Mapping[str, Any]:
    try:
        value = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


_LABELS = """
SELECT span_id, value, metadata FROM feedback
WHERE name = ? AND span_id != '' AND error_type IS NULL ORDER BY time_ns, seq
"""

_ALL = """
SELECT seq, name, span_id, trace_id, value, metadata, ifnull(trace_id, '') = '' AND span_id = ''
    OR EXISTS (SELECT 1 FROM spans WHERE spans.span_id = feedback.span_id)
    OR EXISTS (SELECT 1 FROM spans WHERE spans.trace_id = feedback.trace_id)
FROM feedback WHERE time_ns >= ? AND error_type IS NULL ORDER BY time_ns, seq
"""

_TRACES = "SELECT count(*) FROM spans WHERE parent_id IS NULL AND start_ns >= ?"
