"""A Record of its own for code of others, which may change what it is given."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from llmeval_sdk.model import Record


_OPEN = ("request", "value", "field_config", "retrieval", "attributes")
"""Fields that may hold dicts and lists; the others are frozen all through."""


def own_copy(record: Record) -> Record:
    """Return the record with dicts and lists of its own: no exporter sees what changes there."""
    changed = {
        name: _copied(value)
        for name in _OPEN
        if (value := getattr(record, name)) and type(value) is not str
    }
    return replace(record, **changed) if changed else record


def _copied(value: Any) -> Any:
    cls = type(value)
    if cls is dict:
        return {key: _copied(item) for key, item in value.items()}
    if cls is list or cls is tuple:
        return cls(_copied(item) for item in value)
    return value
