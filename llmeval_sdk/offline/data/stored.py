"""Live requests, as the local store has them -> Records, to be judged after the fact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from llmeval_sdk.model import JUDGE_TAG, Record, SpanData
from llmeval_sdk.policy.prices import total
from llmeval_sdk.records import OWNERS, gathered_below, record_of, spent_by
from llmeval_sdk.store.dump import Selection, dump
from llmeval_sdk.store.reader import StoreReader


def stored(
    reader: StoreReader,
    *,
    since: int | None = None,
    until: int | None = None,
    span_name: str | None = None,
    retrieved: str = "last",
    limits: Any = None,
) -> Iterator[Record]:
    """Yield a Record for each workflow and agent span, with what the spans below it tell.

    ``since`` (inclusive) and ``until`` are nanoseconds since the epoch. What is below another
    workflow or agent belongs to that one; spans of judges are left out. ``retrieved`` and
    ``limits`` are the settings ``retrieved_context`` and ``retrieval_limits``.
    """
    for told in dump(reader, Selection(since, until, span_name)):
        span = told.span
        if span.kind in OWNERS and JUDGE_TAG not in span.tags:
            trace = reader.trace(span.trace_id)
            yield stored_record(span, trace, retrieved=retrieved, limits=limits)


def stored_record(
    span: SpanData, trace: Sequence[SpanData], *, retrieved: str = "last", limits: Any = None
) -> Record:
    """Build what evaluators saw of a span when it was live, as far as the store knows it."""
    left = gathered_below(span, trace)
    record = record_of(span, left, retrieved=retrieved, limits=limits)
    return replace(record, request_id=span.span_id, usage=total(spent_by(span, left)))
