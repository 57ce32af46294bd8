"""What people said of judged records, for `statistics.labels`.

Feedback is a label of a judge where it has the judge's name, or the name in ``report --labels``.
All other feedback, and all with ``metadata={"source": "user"}``, is what users of the app say: see
`opinions`. They choose themselves what to speak of, so it corrects nothing.
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

from llmeval_sdk.errors import DataError
from llmeval_sdk.model import values


@dataclass(frozen=True, slots=True)
class Label:
    """What a person said of a span, 0..1, and the chance with which its record was drawn."""

    value: float
    chance: float | None = None


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
    number = values.number(value)
    if is_of_user(metadata) or number is None or not 0 <= number <= 1:
        return None
    return Label(number, _chance(_object(metadata).get("inclusion_probability")))


def is_of_user(metadata: str | None) -> bool:
    """Say whether what might be a label of a judge was said by a user of the app."""
    return _object(metadata).get("source") == "user"


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
        value = values.number(row.get("label"))
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
