"""Labels that the viewer and ``llmeval label`` wrote into the store."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.store.labels import read_label
from llmeval_sdk.store.reader import StoreReader


MOST_AT_ONCE = 500


def new_labels(store: Path, after: int) -> tuple[list[tuple[str, str, float, float]], int]:
    """Return labels that came after the one of that number, and the number of the last one.

    Each is a judge's name, a span id, how bad a person found the record, and the chance that it was
    labelled once it was judged. Where there is no store, or none that can be read, there are none.
    """
    if not store.exists():
        return [], after
    try:
        with StoreReader(store) as reader:
            rows = reader.read(lambda store: _rows(store, after))
    except (ConfigurationError, sqlite3.Error, OSError):
        return [], after
    labels = []
    for _, name, span_id, value, metadata in rows:
        label = read_label(value, metadata)
        if label is not None:
            labels.append((name, span_id, 1 - label.value, label.chance or 1.0))
    return labels, max((row[0] for row in rows), default=after)


def _rows(store: sqlite3.Connection, after: int) -> list[tuple[int, str, str, object, str | None]]:
    return store.execute(_NEW, (after, MOST_AT_ONCE)).fetchall()


_NEW = """
SELECT seq, name, span_id, value, metadata FROM feedback
WHERE seq > ? AND span_id != '' AND error_type IS NULL ORDER BY seq LIMIT ?
"""
