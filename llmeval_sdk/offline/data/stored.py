"""Live requests, as the local store has them -> Records, to be judged after the fact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from llmeval_sdk.model import JUDGE_TAG, Record, SpanData
from llmeval_sdk.offline.data.traces import derive, steps_of
from llmeval_sdk.store.dump import Selection, dump
from llmeval_sdk.store.reader import StoreReader


OWNERS = ("workflow", "agent")


def stored(
    reader: StoreReader,
    *,
    since: int | None = None,
    until: int | None = None,
    span_name: str | None = None,
) -> Iterator[Record]:
    """Yield a Record for each workflow and agent span, with what the spans below it tell.

    ``since`` (inclusive) and ``until`` are nanoseconds since the epoch. What is below another
    workflow or agent belongs to that one; spans of judges are left out.
    """
    for told in dump(reader, Selection(since, until, span_name)):
        span = told.span
        if span.kind in OWNERS and JUDGE_TAG not in span.tags:
            yield record_of(span, reader.trace(span.trace_id))


def record_of(span: SpanData, trace: Sequence[SpanData]) -> Record:
    """Build what evaluators saw of a span when it was live, as far as the store knows it."""
    fields: dict[str, Any] = derive(steps_of(_own(span, trace)))
    fields.update(span.expected)
    fields.setdefault("value", fields.get("response"))
    return Record(
        **fields,
        request_id=span.span_id,
        attributes=span.attributes,
        trace_id=span.trace_id,
        span_id=span.span_id,
        span_name=span.name,
        span_kind=span.kind,
    )


def _own(span: SpanData, trace: Sequence[SpanData]) -> list[SpanData]:
    """Return a span and those below it, up to the next that is evaluated by itself."""
    below: dict[str | None, list[SpanData]] = {}
    for each in trace:
        below.setdefault(each.parent_id, []).append(each)
    found, waiting, seen = [span], [span.span_id], {span.span_id}
    while waiting:
        for each in below.get(waiting.pop(), ()):
            if each.kind not in OWNERS and each.span_id not in seen:
                seen.add(each.span_id)
                found.append(each)
                waiting.append(each.span_id)
    return found
