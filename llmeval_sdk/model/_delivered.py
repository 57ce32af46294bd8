"""What the pipeline delivers to exporters: spans, evaluations, and judges that did not run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from llmeval_sdk._quick_init import quicken
from llmeval_sdk.model._nouns import (
    Chunk,
    Evaluation,
    Extraction,
    Failure,
    Prompt,
    SpanKind,
    Usage,
)


@dataclass(frozen=True, slots=True)
class Target:
    """The span that an evaluation is about; all ``None`` when it was submitted outside any."""

    trace_id: str | None = None
    span_id: str | None = None
    span_name: str | None = None
    span_kind: SpanKind | None = None
    marks: tuple[tuple[str, Any], ...] = ()
    """What the metadata of each of its evaluations says beside: such as their scope."""


@dataclass(frozen=True, slots=True)
class EvaluationEvent:
    """An Evaluation on its way to the exporters."""

    id: str
    """The same for the same evaluation delivered twice."""
    target: Target
    evaluation: Evaluation
    timestamp_ns: int


@dataclass(frozen=True, slots=True)
class NotRun:
    """A judge that did not run on a span, and why (the reasons are named in `policy.decisions`)."""

    id: str
    target: Target
    evaluator: str
    reason: str
    detail: str
    timestamp_ns: int


@dataclass(frozen=True, slots=True)
class SpanData:
    """A finished span, as exporters see it."""

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    kind: SpanKind
    start_ns: int
    end_ns: int
    request: Any = None
    response: Any = None
    retrieved_context: tuple[Chunk, ...] | None = None
    extractions: tuple[Extraction, ...] | None = None
    error: Failure | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """Free metadata of the app."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    prompt: Prompt | None = None
    usage: Usage | None = None
    session_id: str | None = None
    model_name: str | None = None
    model_provider: str | None = None
    links: tuple[Target, ...] = ()
    """Spans of other traces this one is about: a judge's run links to what it judged."""
    evaluations: tuple[Evaluation, ...] = ()
    """The scores of the inline heuristics, made while the span was open."""
    trace_flags: int = 1
    expected: Mapping[str, Any] = field(default_factory=dict)
    """Ground truth that the app annotated, by its Record field."""
    context: Any = None
    """What exporters with live hooks left on the span, by their names."""
    value: Any = None
    """The aggregated value of an extraction, where the app annotated one."""
    confidence: float | str | None = None
    field_config: Mapping[str, Any] | None = None
    retrieval: Mapping[str, Any] | None = None

    @property
    def arguments(self) -> Mapping[str, Any] | None:
        """What the function was called with, as far as the request still says it."""
        return self.request if type(self.request) is dict else None


@dataclass(frozen=True, slots=True)
class Batch:
    """What a delivery hands to an exporter at once."""

    spans: tuple[SpanData, ...] = ()
    evaluations: tuple[EvaluationEvent, ...] = ()
    not_run: tuple[NotRun, ...] = ()

    def __len__(self) -> int:
        """Count the records that delivery accounts for."""
        return len(self.spans) + len(self.evaluations)


quicken(Target, NotRun, SpanData, EvaluationEvent)  # made at each request
