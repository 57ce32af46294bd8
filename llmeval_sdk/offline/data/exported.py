"""What ``llmeval export`` adds to spans, so that ``llmeval evaluate`` sees what was seen live.

A span of a workflow or agent is a row by itself, with what the spans below it retrieved, extracted
and used; those spans say with ``within`` that they are a part of it, and are no rows then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from llmeval_sdk.model import JUDGE_TAG, Record, SpanData
from llmeval_sdk.offline.data.columns import structured
from llmeval_sdk.offline.data.record import record_from
from llmeval_sdk.offline.data.stored import OWNERS, record_of
from llmeval_sdk.store.dump import Selection
from llmeval_sdk.store.reader import StoreReader


USAGE = ("input_tokens", "output_tokens", "total_tokens")
_SPAN_KEYS = frozenset(("trace_id", "span_id", "name", "kind", "start_time"))
_TAKEN = (
    "request", "response", "retrieved_context", "extractions", "expected_response",
    "expected_facts", "expected_retrieved_context",
)  # fmt: skip


class Whole:
    """Completes the spans of a selection by what others of their trace say."""

    def __init__(self, reader: StoreReader, wanted: Selection) -> None:
        self._wanted = wanted
        self._trace = lru_cache(64)(reader.trace)

    def columns(self, span: SpanData) -> dict[str, Any]:
        """Return the columns to add to a span's row; what is absent is left out."""
        if JUDGE_TAG in span.tags:
            return {}
        trace = self._trace(span.trace_id)
        if span.kind not in OWNERS:
            owner = _owner(span, trace)
            return {} if owner is None or not self._has(owner) else {"within": owner.span_id}
        record = record_of(span, trace)
        added = {
            "retrieved_context": record.retrieved_context,
            "extractions": record.extractions,
            "total_usage": record.usage,
        }
        return {name: value for name, value in added.items() if value is not None}

    def _has(self, span: SpanData) -> bool:
        since, until, name = self._wanted
        return (
            (since is None or span.start_ns >= since)
            and (until is None or span.start_ns < until)
            and name in (None, span.name)
        )


def _owner(span: SpanData, trace: Sequence[SpanData]) -> SpanData | None:
    """Find the workflow or agent that a span is a part of: the nearest above it."""
    by_id = {each.span_id: each for each in trace}
    above, steps = by_id.get(span.parent_id or ""), len(by_id)
    while above is not None and above.kind not in OWNERS and steps:
        above, steps = by_id.get(above.parent_id or ""), steps - 1
    return above if steps else None


def is_exported(row: Any) -> bool:
    """Say whether a row is a span that ``llmeval export`` wrote."""
    return isinstance(row, Mapping) and row.keys() >= _SPAN_KEYS


def is_part(row: Mapping[str, Any]) -> bool:
    """Say whether an exported span is told by another row, or is a judge's own run."""
    return bool(row.get("within")) or JUDGE_TAG in str(row.get("tags") or "")


def is_failed(row: Mapping[str, Any]) -> bool:
    """Say whether an exported span ended with an error of the app."""
    return bool(row.get("error") or row.get("error_type"))


def record_of_row(row: Mapping[str, Any], place: str) -> Record:
    """Read an exported span as what evaluators saw of it when it was live.

    Raises:
        DataError: a value that cannot be read.
    """
    expected = row.get("expected")  # in Parquet it is one column
    told = {**row, **(structured(expected) if isinstance(expected, str) else {})}
    columns = {name: told[name] for name in _TAKEN if told.get(name) is not None}
    columns |= {"latency_seconds": _seconds(told), "attributes": told.get("attributes")}
    columns["request_id"] = told.get("request_id") or told["span_id"]
    columns["usage"] = told.get("total_usage") or told.get("usage") or _flat_usage(told)
    return replace(
        record_from(columns, place=place),
        trace_id=told["trace_id"],
        span_id=told["span_id"],
        span_name=told["name"],
        span_kind=told["kind"],
    )


def _seconds(row: Mapping[str, Any]) -> float | None:
    if row.get("duration_seconds") is not None:
        return float(row["duration_seconds"])
    start, end = row.get("start_ns"), row.get("end_ns")
    return (end - start) / 1e9 if isinstance(start, int) and isinstance(end, int) and end else None


def _flat_usage(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    usage = {name: row[name] for name in (*USAGE, "cost_usd") if row.get(name) is not None}
    return usage or None
