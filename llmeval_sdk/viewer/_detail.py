"""Everything that is known of one span, arranged for its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from llmeval_sdk import _values
from llmeval_sdk.model import (
    Chunk,
    EvaluationEvent,
    Extraction,
    NotRun,
    SpanData,
    Target,
    is_stand_in,
)
from llmeval_sdk.store import traces
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.reasons import Reason, explain
from llmeval_sdk.store.traces import JudgeRun, Outline
from llmeval_sdk.viewer._cells import Cell, cell, cell_of, colourless
from llmeval_sdk.viewer._format import number, text
from llmeval_sdk.viewer._marks import Marked, marked, places
from llmeval_sdk.viewer._waterfall import last_retrieval


MAX_CHUNKS = 200
MAX_CHUNK_TEXT = 3_000
_WORST_FIRST = ("bad", "fair", "good", "plain", "quiet")
_ARRAYS = ("ratings", "rationales", "error_messages")
_NAMED = ("model_name", "model_provider", "session_id")
"""Attributes that say again what a field of the span says."""
_FAILURES = ("error", "timeout")
"""Reasons that also leave an evaluation with an error: shown once, with that."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one evaluator said of the span."""

    event: EvaluationEvent
    cell: Cell
    why: str
    """Why a judge ran."""
    details: Mapping[str, str]
    """Its metadata, but what is shown elsewhere."""
    sides: tuple[str, str] | None
    """What a person who agrees and one who does not would say; ``None`` where that is not clear."""
    said: str
    """What a person said under the same name, the latest of them."""

    @property
    def judge(self) -> bool:
        """Whether a judge said it."""
        return self.event.evaluation.evaluator_kind == "judge"

    @property
    def stand_in(self) -> bool:
        """Whether rules said it that stand in for a model."""
        return is_stand_in(self.event.evaluation)


@dataclass(frozen=True, slots=True)
class Passage:
    """One retrieved chunk with what was made of it."""

    rank: int
    chunk: Chunk
    text: Marked
    """The evidence that extractions quote from it is marked."""
    cited_by: tuple[int, ...]
    ratings: tuple[tuple[str, Cell, str], ...]
    """Judge, what it said, and why."""


@dataclass(frozen=True, slots=True)
class Detail:
    """One span."""

    span: SpanData
    request: Marked
    response: Marked
    unsupported: bool
    """Parts of the response are marked because the context does not support them."""
    verdicts: tuple[Verdict, ...]
    refusals: tuple[tuple[NotRun, Reason], ...]
    people: tuple[tuple[EvaluationEvent, Cell, str], ...]
    """What each said, and who it was."""
    said: Mapping[str, str]
    """The latest label of each name."""
    runs: tuple[JudgeRun, ...]
    passages: tuple[Passage, ...]
    retrieved_by: Outline | None
    extractions: tuple[Extraction, ...]
    facts: Mapping[str, str]
    """Metadata, tags, metrics and whatever else the app annotated."""
    judged: Target | None
    """For a judge's own run: what it judged."""


def read(reader: StoreReader, span: SpanData, spans: Sequence[Outline]) -> Detail:
    """Read what the store knows of a span."""
    events = reader.evaluations_of(span.span_id)
    failed = {event.evaluation.name for event in events if event.evaluation.error}
    refused = [
        each
        for each in reader.not_run_of(span.span_id)
        if each.evaluator not in failed or each.reason not in _FAILURES
    ]
    source = last_retrieval(spans, span.span_id)
    holder = span if source is None or source.span_id == span.span_id else None
    if source is not None and holder is None:
        holder = reader.span(source.span_id, span.trace_id)
    chunks = holder.retrieved_context if holder is not None else None
    extractions = span.extractions or ()
    people = reader.feedback_of(span.span_id)
    said = {each.evaluation.name: text(each.evaluation.value) for each in people}
    verdicts = (_verdict(event, said.get(event.evaluation.name, "")) for event in events)
    if any(
        e.evaluation.name == _values.ABSTENTION and e.evaluation.value is not None for e in events
    ):
        verdicts = (replace(verdict, cell=colourless(verdict.cell)) for verdict in verdicts)
    unsupported = _unsupported(events) if isinstance(span.response, str) else ()
    return Detail(
        span,
        marked(text(span.request)),
        marked(text(span.response), unsupported),
        bool(unsupported),
        tuple(sorted(verdicts, key=_first_to_look_at)),
        tuple((each, explain(each.reason)) for each in refused),
        tuple((each, cell_of(each.evaluation), _who(each)) for each in people),
        said,
        tuple(reader.read(lambda c: traces.judge_runs(c, span.span_id))),
        _passages(chunks or (), extractions, events),
        source,
        extractions,
        _facts(span),
        span.links[0] if span.links and "llmeval.judge" in span.tags else None,
    )


def _first_to_look_at(verdict: Verdict) -> tuple[bool, int, str]:
    """Sort judges before heuristics, and of each the bad ones first."""
    evaluation = verdict.event.evaluation
    is_judge = evaluation.evaluator_kind == "judge"
    return not is_judge, _WORST_FIRST.index(verdict.cell.tone), evaluation.name


def _unsupported(events: Sequence[EvaluationEvent]) -> Sequence[Sequence[int]]:
    for event in events:
        if event.evaluation.name == "groundedness_risk":
            found = event.evaluation.metadata.get("unsupported_spans")
            return found if isinstance(found, list) else ()
    return ()


def _verdict(event: EvaluationEvent, said: str) -> Verdict:
    evaluation = event.evaluation
    shown = {*_ARRAYS, "why", "unsupported_spans"}
    told = (evaluation.value, evaluation.label, evaluation.explanation)
    details = {
        name[:100]: _short(value)
        for name, value in evaluation.metadata.items()
        if name not in shown and value not in (None, [], "") and value not in told
    }
    why = text(evaluation.metadata.get("why") or "")[:500]
    return Verdict(event, cell_of(evaluation), why, details, _sides(event), said)


def _who(event: EvaluationEvent) -> str:
    submitter = event.evaluation.metadata.get("submitter")
    return text(submitter.get("id", ""))[:100] if isinstance(submitter, dict) else ""


def _short(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ", ".join(value)[:500]
    return number(value) if isinstance(value, float) else text(value)[:500]


def _sides(event: EvaluationEvent) -> tuple[str, str] | None:
    """Say what a thumb up or down on an evaluation means as a label, in yes and no.

    ``yes`` is the good side, also for a risk, as `llmeval agreement` reads it.
    """
    good = _values.goodness_of(event.evaluation)
    if good is None:
        return None
    return ("yes", "no") if good >= 0.5 else ("no", "yes")


def _passages(
    chunks: Sequence[Chunk], extractions: Sequence[Extraction], events: Sequence[EvaluationEvent]
) -> tuple[Passage, ...]:
    found = []
    for rank, chunk in enumerate(chunks[:MAX_CHUNKS], 1):
        citing = [n for n, each in enumerate(extractions, 1) if each.chunk_number == rank]
        content = chunk.content or ""
        quotes = [extractions[n - 1].evidence for n in citing]
        shown = marked(content, places(content, quotes), MAX_CHUNK_TEXT)
        ratings = tuple(_ratings(rank, len(chunks), events))
        found.append(Passage(rank, chunk, shown, tuple(citing), ratings))
    return tuple(found)


def _ratings(
    rank: int, count: int, events: Sequence[EvaluationEvent]
) -> list[tuple[str, Cell, str]]:
    found = []
    for event in events:
        arrays = [event.evaluation.metadata.get(name) for name in _ARRAYS]
        ratings, reasons, errors = (
            each if isinstance(each, list) and len(each) == count else [None] * count
            for each in arrays
        )
        rating, error = ratings[rank - 1], errors[rank - 1]
        if error is not None:
            found.append((event.evaluation.name, Cell("failed", "bad"), text(error)))
        elif isinstance(rating, (str, float, bool)):
            name = event.evaluation.name
            found.append((name, cell(name, rating), text(reasons[rank - 1] or "")))
    return found


def _facts(span: SpanData) -> dict[str, str]:
    given: dict[str, Any] = {
        "model": " ".join(filter(None, (span.model_provider, span.model_name))),
        "session": span.session_id,
        **span.tags,
        **span.metrics,
        **span.attributes,
        **span.expected,
    }
    if span.usage is not None:
        given["tokens"] = f"{span.usage.input_tokens:,} in, {span.usage.output_tokens:,} out"
        given["cost"] = None if span.usage.cost_usd is None else f"${span.usage.cost_usd:.4f}"
    if span.prompt is not None:
        named = {"prompt": span.prompt.id, "prompt version": span.prompt.version}
        given |= {**named, "prompt template": span.prompt.template}
    told = {*_NAMED, text(span.request), text(span.response)}
    return {
        name[:100]: shown
        for name, value in given.items()
        if value not in (None, "") and name not in told
        if (shown := text(value)[:2_000]) not in told
    }
