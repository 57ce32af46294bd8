"""Whether a Record has what an evaluator needs."""

from __future__ import annotations

from collections.abc import Sequence

from llmeval_sdk.model import Record


def missing(record: Record, needs: Sequence[str]) -> str | None:
    """Name the needs that a Record does not meet, comma-separated, or ``None`` if it meets all.

    A need is a field of Record, or several joined by ``|`` of which one is enough. Only ``None`` is
    absent: an empty list, mapping or string is present.
    """
    absent = [need for need in needs if not _met(record, need)]
    return ", ".join(absent) if absent else None


def _met(record: Record, need: str) -> bool:
    if "|" not in need:
        return getattr(record, need, None) is not None
    return any(getattr(record, field, None) is not None for field in need.split("|"))
