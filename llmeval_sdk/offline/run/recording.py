"""Tracing of an offline run: what happens below the span of a row is that row's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from llmeval_sdk.model import Evaluation, Record
from llmeval_sdk.policy.prices import total
from llmeval_sdk.records import gathered_below, record_of, spent_by
from llmeval_sdk.tracing import Link, Recorder, Span, current, new_trace_id, settle
from llmeval_sdk.tracing._kinds import Scope


class Trail:
    """The spans below one row's span, in the order in which they ended."""

    def __init__(self, prices: Mapping[str, tuple[float, float]] | None = None) -> None:
        self._prices = prices
        self._ended: list[Span] = []

    def add(self, span: Span) -> None:
        """Take a span that ended."""
        self._ended.append(span)

    def fields(self, span: Span) -> dict[str, Any]:
        """Return the fields of Record that a row's span and those below it tell."""
        left = gathered_below(span, self._ended, whole=True)
        record = record_of(span, left)
        fields = {name: getattr(record, name) for name in _TOLD}
        fields["usage"] = total(spent_by(span, left), own=self._prices)
        return {name: value for name, value in fields.items() if value is not None}


_TOLD = (
    "retrieved_context", "extractions", "value", "confidence", "field_config", "retrieval",
    "latency_seconds",
)  # fmt: skip


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
            for number in numbers:
                self._trails.pop(number, None)

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
