"""``with capture() as seen:`` — what the block traced and scored, and our mistakes raised."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from llmeval_sdk.model import Batch, Evaluation, EvaluationEvent, NotRun, SpanData
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.pipeline.stats import Stats
from llmeval_sdk.process import shield
from llmeval_sdk.tracing import ids


class Captured:
    """An exporter that keeps what it receives, in order. Call `drain` before you look at it."""

    name = "captured"

    def __init__(self) -> None:
        self.spans: list[SpanData] = []
        self.evaluations: list[EvaluationEvent] = []
        self.not_run: list[NotRun] = []

    def drain(self, timeout: float = 30.0) -> Stats:
        """Wait until everything is scored, judged and delivered; else raises `TimeoutError`."""
        result = runtime.flush(timeout)
        if not result.complete:
            raise TimeoutError(f"not everything was delivered within {timeout:g} s: {result}")
        return result

    def span(self, name: str) -> SpanData:
        """Return the latest span with this name."""
        return next(span for span in reversed(self.spans) if span.name == name)

    def scores(self, span_name: str | None = None) -> dict[str, Evaluation]:
        """Return the latest evaluations by name, of the spans with this name or of all spans."""
        return {
            event.evaluation.name: event.evaluation
            for event in self.evaluations
            if span_name in (None, event.target.span_name)
        }

    def reasons(self) -> dict[str, str]:
        """Return the reason why each judge that did not run did not, by judge."""
        return {each.evaluator: each.reason for each in self.not_run}

    def export(self, batch: Batch, /) -> None:
        """Keep a batch."""
        self.spans.extend(batch.spans)
        self.evaluations.extend(batch.evaluations)
        self.not_run.extend(batch.not_run)

    def flush(self, timeout: float, /) -> None:
        """Do nothing: all is here."""

    def close(self, timeout: float, /) -> None:
        """Do nothing: nothing is held."""


@contextmanager
def capture(*, raise_again: bool = True, **configuration: Any) -> Iterator[Captured]:
    """Configure the SDK for a ``with`` block and collect what it would export.

    Args:
        raise_again: raise errors of the SDK, which it otherwise swallows, so that a test sees them.
        **configuration: arguments of ``configure()``, such as ``llm=FakeLLM("yes")``. Nothing is
            written to disk unless you ask for an exporter that does.
    """
    seen = Captured()
    exporters = [seen, *configuration.pop("exporters", ())]
    with runtime.isolated():
        runtime.configure(exporters=exporters, **configuration)
        shield.raise_again(raise_again)
        try:
            yield seen
        finally:
            shield.raise_again(False)


@contextmanager
def fixed_ids() -> Iterator[None]:
    """Give traces and spans the ids 1, 2, 3 … inside the block, for snapshot tests."""
    kept = (ids.new_trace_id, ids.new_span_id)
    ids.new_trace_id, ids.new_span_id = count(1).__next__, count(1).__next__
    try:
        yield
    finally:
        ids.new_trace_id, ids.new_span_id = kept
