"""Tracing of an offline run: what happens below the span of a row is that row's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from llmeval_sdk.model import Chunk, Evaluation, Record
from llmeval_sdk.policy.prices import total
from llmeval_sdk.tracing import Link, Recorder, Span, Spent, current, new_trace_id, settle
from llmeval_sdk.tracing._kinds import Scope


class _Seen(NamedTuple):
    """What one finished span had to say."""

    kind: str
    start_ns: int
    retrieved: tuple[Chunk, ...] | None
    spent: Spent | None
    said: dict[str, Any]


class Trail:
    """The spans below one row's span, in the order in which they ended."""

    def __init__(self, prices: Mapping[str, tuple[float, float]] | None = None) -> None:
        self._prices = prices
        self._seen: list[_Seen] = []

    def add(self, span: Span) -> None:
        """Take a span that ended."""
        said = {
            "extractions": span._extractions,
            "value": span._value,
            "confidence": span._confidence,
            "field_config": span._field_config,
            "retrieval": span._retrieval,
        }
        usage = span._usage if span.kind == "llm" else None
        spent = None if usage is None else Spent(usage, span._spec.model_name)
        self._seen.append(_Seen(span.kind, span.start_ns, span._retrieved, spent, said))

    def fields(self) -> dict[str, Any]:
        """Return the fields of Record that the spans tell.

        What was annotated further out wins; the context is what was annotated, else what the last
        retrieval found; tokens are those of all model calls.
        """
        found: dict[str, Any] = {}
        steps = [each.said["extractions"] for each in self._seen if each.said["extractions"]]
        for seen in reversed(self._seen):
            if seen.kind not in ("workflow", "agent") and len(steps) > 1:
                seen.said["extractions"] = sum(steps, ())  # each step of the request took some
            for name, value in seen.said.items():
                if value is not None:
                    found.setdefault(name, value)
            if seen.kind != "retrieval" and seen.retrieved is not None:
                found.setdefault("retrieved_context", seen.retrieved)
        retrievals = [
            each for each in self._seen if each.kind == "retrieval" and each.retrieved is not None
        ]
        if retrievals:
            last = max(retrievals, key=lambda each: each.start_ns)
            found.setdefault("retrieved_context", last.retrieved)
        usage = total((each.spent for each in self._seen if each.spent), own=self._prices)
        if usage is not None:
            found["usage"] = usage
        return found

    def seconds(self, span: Span) -> float | None:
        """Return how long the row took."""
        return (span.end_ns - span.start_ns) / 1e9 if span.end_ns else None


class Recording:
    """A recorder that keeps the trails of rows, and hands every span on to where it belongs."""

    def __init__(
        self,
        ours: Recorder,
        others: Recorder | None,
        prices: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        self._prices = prices
        self._ours = ours
        self._others = others
        self._trails: dict[int, Trail] = {}

    @contextmanager
    def row(self, scope: Scope) -> Iterator[tuple[Span, Trail]]:
        """Open a row's span as the root of a trace of its own, and keep that trace's trail."""
        number, trail = new_trace_id(), Trail(self._prices)
        self._trails[number] = trail
        before = current.get()
        current.set(Link(number, 0, 1))
        numbers = [number]
        try:
            with scope as span:
                numbers.append(span.trace_number)  # an exporter may have given it another
                self._trails[span.trace_number] = trail
                yield span, trail
        finally:
            current.set(before)
            for each in numbers:
                self._trails.pop(each, None)

    def on_start(self, span: Span, /) -> None:
        """Take note of a span that begins."""
        target = self._of(span)
        if target is not None:
            target.on_start(span)

    def on_end(self, span: Span, /) -> None:
        """Take a span that ended."""
        trail = self._trails.get(span.trace_number)
        if trail is not None:
            settle(span)
            trail.add(span)
        target = self._of(span)
        if target is not None:
            target.on_end(span)

    def evaluate(self, span: Span, name: str, /) -> Evaluation | None:
        """Compute one heuristic at once."""
        target = self._of(span)
        return None if target is None else target.evaluate(span, name)

    def early(self, span: Span, /) -> Evaluation | None:
        """Score the context that a span holds before it ends."""
        target = self._of(span)
        return None if target is None else target.early(span)

    def take(self, read: Callable[[], Iterable[Span]], size: int, /) -> None:
        """Leave spans of other libraries to the app's own set-up."""
        if self._others is not None:
            self._others.take(read, size)

    def _of(self, span: Span) -> Recorder | None:
        return self._ours if span.trace_number in self._trails else self._others


def with_ids(record: Record, span: Span) -> Record:
    """Say in a Record which span it is about."""
    return replace(
        record,
        trace_id=span.trace_id,
        span_id=span.span_id,
        span_name=span.name,
        span_kind=span.kind,
    )
