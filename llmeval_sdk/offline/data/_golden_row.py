"""Requests of the store as rows of a golden set, and such rows as Records."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model import Record, SpanData
from llmeval_sdk.offline.data._record import record_from
from llmeval_sdk.offline.data.exported import EXPECTED, is_exported, record_of_row
from llmeval_sdk.offline.data.spans import stored_record
from llmeval_sdk.records import OWNERS
from llmeval_sdk.store import views
from llmeval_sdk.store.encode import sparse
from llmeval_sdk.store.lookup import spans_like
from llmeval_sdk.store.reader import StoreReader


def find_request(reader: StoreReader, prefix: str) -> SpanData:
    """Return the span that is meant by an id or its beginning; a trace stands for its request.

    Raises:
        ConfigurationError: There is none, or there are several.
    """
    prefix = prefix.strip().lower()
    found = reader.read(lambda c: spans_like(c, prefix)) if prefix else ()
    spans = [ref.span_id for ref in found if ref.span_id == prefix] or [r.span_id for r in found]
    if len(spans) > 1:
        raise ConfigurationError(f"several spans have an id that begins with {prefix!r:.80}")
    span = reader.span(spans[0]) if spans else None
    if span is not None:
        return span
    traces = {trace for trace, _ in reader.read(lambda c: views.traces_like(c, prefix)) if prefix}
    if len(traces) > 1:
        raise ConfigurationError(f"several traces have an id that begins with {prefix!r:.80}")
    for trace in traces:
        members = reader.trace(trace)
        return next((span for span in members if span.kind in OWNERS), members[0])
    raise ConfigurationError(
        f"there is no span or trace whose id begins with {prefix!r:.80} in {reader.location}; "
        "`llmeval traces` lists them"
    )


def row_of(reader: StoreReader, span: SpanData, settings: Settings) -> dict[str, Any]:
    """Return a request as a row: what evaluators saw of it when it was live, and where it was."""
    record = stored_record(
        span,
        reader.trace(span.trace_id),
        retrieved=settings.retrieved_context,
        limits=settings.retrieval_limits,
    )
    fields = sparse(record)
    first = ("request_id", "request", "response", *EXPECTED)
    row = {name: fields[name] for name in first if name in fields}
    row |= {name: value for name, value in fields.items() if name not in _LAST}
    if record.value == record.response:
        row.pop("value", None)  # it is only the response again
    return {
        **row,
        "duration_seconds": record.latency_seconds or 0.0,
        "trace_id": span.trace_id,
        "span_id": span.span_id,
        "name": span.name,
        "kind": span.kind,
        "start_time": datetime.fromtimestamp(span.start_ns / 1e9, timezone.utc).isoformat(),
        "start_ns": span.start_ns,
    }


_LAST = ("latency_seconds", "trace_id", "span_id", "span_name", "span_kind")


def record_of(row: Mapping[str, Any], place: str) -> Record:
    """Return a row as evaluators see it; raises `DataError` where it cannot be read."""
    return record_of_row(row, place) if is_exported(row) else record_from(row, place=place)
