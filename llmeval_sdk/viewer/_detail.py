"""Everything that the store knows about one span, arranged for its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from llmeval_sdk import _values
from llmeval_sdk._terminal import number
from llmeval_sdk.estimates.funnels import FAILED
from llmeval_sdk.model import (
    JUDGE_TAG,
    JUDGING,
    Chunk,
    EvaluationEvent,
    Extraction,
    NotRun,
    SpanData,
    Target,
    is_stand_in,
)
from llmeval_sdk.store import views
from llmeval_sdk.store.effective import counting
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.reasons import Reason, explain
from llmeval_sdk.store.said import has_abstained
from llmeval_sdk.store.views import JudgeRun, Outline
from llmeval_sdk.viewer._cells import Cell, MarkedText, cell, cell_of, colourless, marked, places
from llmeval_sdk.viewer._content import Content, content_of
from llmeval_sdk.viewer._render import as_text


MAX_CHUNKS = 200
MAX_CHUNK_TEXT = 3_000
_WORST_FIRST = ("bad", "fair", "good", "plain", "quiet")
_ARRAYS = ("ratings", "rationales", "error_messages")
_NAMED = ("model_name", "model_provider", "session_id")
"""Attributes that repeat a field of the span."""


@dataclass(frozen=True, slots=True)
class ShownVerdict:
    """What one evaluator said about the span."""

    event: EvaluationEvent
    cell: Cell
    why: str
    """Why a judge ran; empty for a heuristic."""
    details: Mapping[str, str]
    """The metadata that the page does not show elsewhere."""
    sides: tuple[str, str] | None
    """Two labels: what people choose to agree with the verdict, and what they choose to disagree.
    ``None`` for a verdict that is neither good nor bad."""
    said: str
    """The latest label that a person gave under the same name, or an empty text."""

    @property
    def judge(self) -> bool:
        """Whether the evaluator is a judge, whichever kind of model answered."""
        return self.event.evaluation.evaluator_kind in JUDGING

    @property
    def stand_in(self) -> bool:
        """Whether the rule-based stand-in gave this verdict, and no model."""
        return is_stand_in(self.event.evaluation)


@dataclass(frozen=True, slots=True)
class RetrievedChunk:
    """One retrieved chunk, with what was extracted from it and how judges rated it."""

    rank: int
    chunk: Chunk
    text: MarkedText
    """The text of the chunk, in which the evidence that extractions quote is marked."""
    cited_by: tuple[int, ...]
    ratings: tuple[tuple[str, Cell, str], ...]
    """A triple for each judge that rated the chunk: its name, the rating as shown, its reason."""


@dataclass(frozen=True, slots=True)
class Detail:
    """All that the page shows of one span."""

    span: SpanData
    request: Content
    response: Content
    unsupported: bool
    """Whether parts of the response are marked because the context does not support them."""
    verdicts: tuple[ShownVerdict, ...]
    refusals: tuple[tuple[NotRun, Reason], ...]
    people: tuple[tuple[EvaluationEvent, Cell, str], ...]
    """A triple for each label that a person gave: the event, the cell that shows it, the person."""
    said: Mapping[str, str]
    """The latest label under each name."""
    runs: tuple[JudgeRun, ...]
    passages: tuple[RetrievedChunk, ...]
    retrieved_by: Outline | None
    extractions: tuple[Extraction, ...]
    facts: Mapping[str, str]
    """Metadata, tags, metrics and whatever else the app annotated."""
    judged: Target | None
    """What was judged, if the span is a judge's own run."""


def read(reader: StoreReader, span: SpanData, source: Outline | None) -> Detail:
    """Read everything that the store knows about a span.

    ``source`` is the retrieval whose chunks the span was given, if it is another span.
    """
    events = reader.evaluations_of(span.span_id)
    counted = counting(events)
    failed = {event.evaluation.name for event in events if event.evaluation.error}
    refusals = [
        refusal
        for refusal in reader.not_run_of(span.span_id)
        if refusal.evaluator not in failed or refusal.reason not in FAILED
    ]
    holder = span if source is None or source.span_id == span.span_id else None
    if source is not None and holder is None:
        holder = reader.span(source.span_id, span.trace_id)
    chunks = holder.retrieved_context if holder is not None else None
    extractions = span.extractions or ()
    people = reader.feedback_of(span.span_id)
    labels = {label.evaluation.name: as_text(label.evaluation.value) for label in people}
    verdicts = (_verdict(event, labels.get(event.evaluation.name, "")) for event in events)
    if has_abstained({e.evaluation.name: e.evaluation.value for e in counted}):
        verdicts = (replace(verdict, cell=colourless(verdict.cell)) for verdict in verdicts)
    unsupported = _unsupported(counted) if isinstance(span.response, str) else ()
    return Detail(
        span,
        content_of(span.request),
        content_of(span.response, unsupported),
        bool(unsupported),
        tuple(sorted(verdicts, key=_first_to_look_at)),
        tuple((refusal, explain(refusal.reason)) for refusal in refusals),
        tuple((label, cell_of(label.evaluation), _who(label)) for label in people),
        labels,
        tuple(reader.read(lambda c: views.judge_runs(c, span.span_id))),
        _passages(chunks or (), extractions, counted),
        source,
        extractions,
        _facts(span),
        span.links[0] if span.links and JUDGE_TAG in span.tags else None,
    )


def _first_to_look_at(verdict: ShownVerdict) -> tuple[bool, int, str]:
    """Return a key that sorts judges before heuristics, and bad verdicts before good ones."""
    evaluation = verdict.event.evaluation
    is_judge = evaluation.evaluator_kind in JUDGING
    return not is_judge, _WORST_FIRST.index(verdict.cell.tone), evaluation.name


def _unsupported(events: Sequence[EvaluationEvent]) -> Sequence[Sequence[int]]:
    for event in events:
        if event.evaluation.name == "groundedness_risk":
            ranges = event.evaluation.metadata.get("unsupported_spans")
            return ranges if isinstance(ranges, list) else ()
    return ()


def _verdict(event: EvaluationEvent, label: str) -> ShownVerdict:
    evaluation = event.evaluation
    shown_elsewhere = {*_ARRAYS, "why", "unsupported_spans"}
    outcome = (evaluation.value, evaluation.label, evaluation.explanation)
    details = {
        name[:100]: _short(value)
        for name, value in evaluation.metadata.items()
        if name not in shown_elsewhere and value not in (None, [], "") and value not in outcome
    }
    why = as_text(evaluation.metadata.get("why") or "")[:500]
    return ShownVerdict(event, cell_of(evaluation), why, details, _sides(event), label)


def _who(event: EvaluationEvent) -> str:
    submitter = event.evaluation.metadata.get("submitter")
    return as_text(submitter.get("id", ""))[:100] if isinstance(submitter, dict) else ""


def _short(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return ", ".join(value)[:500]
    return number(value) if isinstance(value, float) else as_text(value)[:500]


def _sides(event: EvaluationEvent) -> tuple[str, str] | None:
    """Return the labels, ``yes`` or ``no``, for a thumb up and a thumb down on an evaluation.

    ``yes`` always means a good outcome, even for a risk; `llmeval agreement` reads it the same way.
    """
    good = _values.goodness_of(event.evaluation)
    if good is None:
        return None
    return ("yes", "no") if good >= 0.5 else ("no", "yes")


def _passages(
    chunks: Sequence[Chunk], extractions: Sequence[Extraction], events: Sequence[EvaluationEvent]
) -> tuple[RetrievedChunk, ...]:
    passages = []
    for rank, chunk in enumerate(chunks[:MAX_CHUNKS], 1):
        citing = [n for n, e in enumerate(extractions, 1) if e.chunk_number == rank]
        content = chunk.content or ""
        quotes = [extractions[n - 1].evidence for n in citing]
        shown = marked(content, places(content, quotes), MAX_CHUNK_TEXT)
        ratings = tuple(_ratings(rank, len(chunks), events))
        passages.append(RetrievedChunk(rank, chunk, shown, tuple(citing), ratings))
    return tuple(passages)


def _ratings(
    rank: int, count: int, events: Sequence[EvaluationEvent]
) -> list[tuple[str, Cell, str]]:
    chunk_ratings = []
    for event in events:
        arrays = [event.evaluation.metadata.get(name) for name in _ARRAYS]
        ratings, reasons, errors = (
            array if isinstance(array, list) and len(array) == count else [None] * count
            for array in arrays
        )
        rating, error = ratings[rank - 1], errors[rank - 1]
        if error is not None:
            chunk_ratings.append((event.evaluation.name, Cell("failed", "bad"), as_text(error)))
        elif isinstance(rating, (str, float, bool)):
            name = event.evaluation.name
            chunk_ratings.append((name, cell(name, rating), as_text(reasons[rank - 1] or "")))
    return chunk_ratings


def _facts(span: SpanData) -> dict[str, str]:
    facts: dict[str, Any] = {
        "model": " ".join(filter(None, (span.model_provider, span.model_name))),
        "session": span.session_id,
        **span.tags,
        **span.metrics,
        **span.attributes,
        **span.expected,
    }
    if span.usage is not None:
        facts["tokens"] = f"{span.usage.input_tokens:,} in, {span.usage.output_tokens:,} out"
        facts["cost"] = None if span.usage.cost_usd is None else f"${span.usage.cost_usd:.4f}"
    if span.prompt is not None:
        named = {"prompt": span.prompt.id, "prompt version": span.prompt.version}
        facts |= {**named, "prompt template": span.prompt.template}
    shown_elsewhere = {*_NAMED, as_text(span.request), as_text(span.response)}
    return {
        name[:100]: shown
        for name, value in facts.items()
        if value not in (None, "") and name not in shown_elsewhere
        if (shown := as_text(value)[:2_000]) not in shown_elsewhere
    }
