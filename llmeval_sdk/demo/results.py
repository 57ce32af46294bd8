"""What the SDK delivered about a run, read back from the store as any other tool would read it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llmeval_sdk.model import Chunk, Evaluation, NotRun, SpanData
from llmeval_sdk.store.reader import StoreReader


SPAN = "extract_field"
JUDGE = "context_recall_llm"


@dataclass(frozen=True, slots=True)
class Result:
    """One request: its span, what evaluators said of it, and which judges did not run."""

    span: SpanData
    evaluations: Mapping[str, Evaluation]
    not_run: tuple[NotRun, ...]
    chunks: tuple[Chunk, ...]
    """What the search found, in rank order."""
    steps: Mapping[str, float]
    """Seconds that each span below took, by its name."""

    @property
    def field(self) -> str:
        """Which field was asked for."""
        return self.span.tags.get("field", "")

    @property
    def outcome(self) -> str:
        """How the answer compares with the header: a key of ``grading.OUTCOMES``."""
        return str(self.value("against_header") or "")

    @property
    def answered(self) -> bool:
        """Whether the app gave a value."""
        return self.outcome in ("right", "wrong", "invented")

    @property
    def verdict(self) -> Evaluation | None:
        """What the judge said, or that it failed; ``None`` if it did not run."""
        return self.evaluations.get(JUDGE)

    @property
    def seconds(self) -> float:
        """How long the whole request took."""
        return (self.span.end_ns - self.span.start_ns) / 1e9

    def value(self, name: str) -> Any:
        """Return what one evaluator said, ``None`` if nothing."""
        found = self.evaluations.get(name)
        return None if found is None else found.value

    def reasons(self, threshold: float) -> tuple[str, ...]:
        """Say why the plain rule flags this record; empty where it does not."""
        recall = self.value("context_recall_heuristic")
        low = recall is not None and recall < threshold
        cut = self.value("recall_warning") == "HIT_RETRIEVAL_LIMIT"
        return (("recall below threshold",) if low else ()) + (("hit limit",) if cut else ())


def read(store: str | os.PathLike[str], since_ns: int) -> list[Result]:
    """Read the requests that began since a moment (nanoseconds since the epoch), oldest first."""
    with StoreReader(store) as reader:
        refs = [
            ref
            for ref in reader.find("", limit=1_000_000)
            if ref.name == SPAN and ref.trace_id and (ref.start_ns or 0) >= since_ns
        ]
        found = [_result(reader, ref.trace_id or "", ref.span_id) for ref in refs]
    return sorted((each for each in found if each), key=lambda each: each.span.start_ns)


def _result(reader: StoreReader, trace_id: str, span_id: str) -> Result | None:
    spans = reader.trace(trace_id)
    span = next((span for span in spans if span.span_id == span_id), None)
    if span is None:
        return None
    return Result(
        span,
        {event.evaluation.name: event.evaluation for event in reader.evaluations_of(span_id)},
        reader.not_run_of(span_id),
        next((each.retrieved_context for each in spans if each.retrieved_context), ()),
        {each.name: (each.end_ns - each.start_ns) / 1e9 for each in spans if each is not span},
    )
