"""The rows of ``llmeval export``: how they are written, and what ``llmeval evaluate`` reads there.

The span of a workflow or agent is exported as a complete row: it has the chunks, extractions and
tokens of the spans below it. Those spans name it in ``within``, and are not evaluated as rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from datetime import datetime, timezone
from functools import cache, lru_cache
from typing import Any

from llmeval_sdk.model import JUDGE_TAG, Record, SpanData, Target
from llmeval_sdk.model.chat import messages_of
from llmeval_sdk.model.records import OWNERS
from llmeval_sdk.offline.data.record import record_from, structured
from llmeval_sdk.offline.data.spans import own_chunks, stored_record
from llmeval_sdk.store import encode
from llmeval_sdk.store.dump import DumpScope, StoredSpan
from llmeval_sdk.store.reader import StoreReader


USAGE = ("input_tokens", "output_tokens", "total_tokens")
_SPAN_KEYS = frozenset(("trace_id", "span_id", "name", "kind", "start_time"))
EXPECTED = ("expected_facts", "expected_response", "expected_retrieved_context")
"""Ground truth: columns of their own in JSON lines, one column ``expected`` in Parquet."""
TRUTH = (*EXPECTED, "expected_trajectory", "abstained")
"""All that a span may expect or say of its answer, by the columns of JSON lines."""
ADDED = ("total_usage", "within")
"""What other spans of the trace fill in, beside fields of the span itself."""
OWN = "own"
"""What a workflow holds itself, in the columns in which its row has what spans below it told."""
EVENTS = ("evaluations", "not_run", "feedback")
_GATHERED = (
    "retrieved_context", "extractions", "value", "confidence", "field_config", "retrieval",
    *EXPECTED, "abstained",
)  # fmt: skip
"""Fields that a workflow or agent may take from the spans below it."""
_TAKEN = ("request", "response", *_GATHERED, "steps", "tools", "expected_trajectory")


VALUES = ("value", "confidence")
"""Columns of Parquet that hold any value; see `cell`."""


def cell(value: object) -> str | None:
    """Write any value as text: a text as it is, unless it would be read as something else."""
    if value is None or (isinstance(value, str) and _read_cell(value) == value):
        return value
    return encode.dumps(value)


def _read_cell(text: object) -> Any:
    """Read what `cell` wrote."""
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


class Whole:
    """Completes the spans of a selection with data from the other spans of their traces."""

    def __init__(self, reader: StoreReader, wanted: DumpScope) -> None:
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
        record = stored_record(span, trace)
        added = {name: getattr(record, name) for name in _GATHERED}
        added["total_usage"] = record.usage
        if record.value == record.response:
            del added["value"]  # it is only the response again
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


def row_of(dumped: StoredSpan, whole: Whole) -> dict[str, Any]:
    """Return a span and the events about it as plain values; what is absent is left out.

    A workflow has the chunks and extractions of the spans below it, and their ``total_usage``.
    Where it has others itself, they stand in ``own``, with null for what it has not.
    """
    span = _sparse(dumped.span)
    expected = span.pop("expected", {})
    if not span["outside_parent"]:
        del span["outside_parent"]
    started = datetime.fromtimestamp(dumped.span.start_ns / 1e9, timezone.utc)
    row = {
        "request_id": dumped.span.span_id,  # what `llmeval evaluate` tells rows apart by
        **span,
        "start_time": started.isoformat(),
        **expected,
    }
    gathered = {name: _sparse(value) for name, value in whole.columns(dumped.span).items()}
    own = {
        name: row.get(name)
        for name, value in gathered.items()
        if name not in ADDED and (name not in row or row[name] != value)
    }
    row |= gathered
    if own:
        row[OWN] = own
    for name in EVENTS:
        events = getattr(dumped, name)
        if events:
            row[name] = [_plain_event(event, dumped.span) for event in events]
    return row


def _plain_event(event: Any, span: SpanData) -> dict[str, Any]:
    """Flatten an event. Its target is left out where it is just the span whose row this is in."""
    plain = _sparse(event)
    if event.target == Target(span.trace_id, span.span_id, span.name, span.kind):
        del plain["target"]
    return {**plain.pop("evaluation", {}), **plain}


def _sparse(value: Any) -> Any:
    """Turn nouns into mappings of the fields that hold something.

    An empty list or mapping is something where a field may also be absent.
    """
    if is_dataclass(value):
        kind: Any = type(value)
        return {
            name: _sparse(item)
            for name, can_be_absent in _optional(kind).items()
            if (item := getattr(value, name)) is not None
            and (can_be_absent or not isinstance(item, (tuple, Mapping)) or item)
        }
    return [_sparse(item) for item in value] if isinstance(value, tuple) else value


@cache
def _optional(kind: Any) -> dict[str, bool]:
    """Return the fields of a noun, each with whether ``None`` stands for its absence."""
    return {field.name: field.default is None for field in fields(kind)}


def is_exported(row: object) -> bool:
    """Say whether a row is a span that ``llmeval export`` wrote."""
    return isinstance(row, Mapping) and row.keys() >= _SPAN_KEYS


def is_part(row: Mapping[str, object]) -> bool:
    """Return whether an exported span belongs to another row, or is a judge's own run."""
    return bool(row.get("within")) or JUDGE_TAG in str(row.get("tags") or "")


def is_failed(row: Mapping[str, object]) -> bool:
    """Say whether an exported span ended with an error of the app."""
    return bool(row.get("error") or row.get("error_type"))


def record_of_row(row: Mapping[str, Any], place: str) -> Record:
    """Turn an exported span into the Record that evaluators saw when it was live.

    Raises:
        DataError: a value that cannot be read.
    """
    fields = dict(row) if "start_ns" in row else _unflattened(row)
    columns = {name: fields[name] for name in _TAKEN if fields.get(name) is not None}
    for name in ("retrieved_context", "expected_retrieved_context"):
        if name in columns:
            chunks = structured(columns[name])
            columns[name] = own_chunks(chunks) or chunks  # where it has none, say which is wrong
    columns |= {"latency_seconds": _seconds(fields), "attributes": fields.get("attributes")}
    columns["request_id"] = fields.get("request_id") or fields["span_id"]
    columns["usage"] = fields.get("total_usage") or fields.get("usage") or _flat_usage(fields)
    columns.setdefault("value", fields.get("response"))
    request = columns.get("request")
    if isinstance(request, Mapping) and messages_of(request) is None:
        del columns["request"]  # the arguments of the function: no column of a data set, but known
    else:
        request = None
    record = record_from(columns, place=place)
    return replace(
        record,
        request=record.request if request is None else request,
        trace_id=fields["trace_id"],
        span_id=fields["span_id"],
        span_name=fields["name"],
        span_kind=fields["kind"],
    )


def _unflattened(row: Mapping[str, Any]) -> dict[str, Any]:
    """Read a row of Parquet, where what is nested is JSON text and ground truth is one column."""
    expected = structured(row.get("expected"))
    fields = {**row, **(expected if isinstance(expected, Mapping) else {})}
    for name in ("request", "response"):
        fields[name] = structured(fields.get(name))
    for name in VALUES:
        fields[name] = _read_cell(fields.get(name))
    return fields


def _seconds(row: Mapping[str, Any]) -> float | None:
    if row.get("duration_seconds") is not None:
        return float(row["duration_seconds"])
    start, end = row.get("start_ns"), row.get("end_ns")
    return (end - start) / 1e9 if isinstance(start, int) and isinstance(end, int) and end else None


def _flat_usage(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    usage = {name: row[name] for name in (*USAGE, "cost_usd") if row.get(name) is not None}
    return usage or None
