"""Nouns <-> rows: which column holds what, in the order of the columns.

Absent stays NULL, and an empty list is ``[]``. The inline evaluations that a `SpanData` carries are
not kept with it: each also arrives as an `EvaluationEvent` of its own. Nor is ``context``, which
holds other libraries' live objects.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from llmeval_sdk.model import (
    Chunk,
    Evaluation,
    EvaluationEvent,
    Extraction,
    Failure,
    NotRun,
    Prompt,
    SpanData,
    Target,
    Usage,
)
from llmeval_sdk.store.encode import dumps, loads, score


Row = tuple[Any, ...]

_USAGE = ("input_tokens", "output_tokens", "total_tokens", "cost_usd")
_TARGET = ("id", "trace_id", "span_id", "span_name", "span_kind")

COLUMNS: dict[str, tuple[str, ...]] = {
    "spans": (
        "trace_id", "span_id", "parent_id", "name", "kind", "start_ns", "end_ns",
        "error_type", "error_message", "session_id", "model_name", "model_provider", "trace_flags",
        *_USAGE, "tags", "metrics", "links", "attributes", "prompt", "request", "response",
        "expected", "extractions", "retrieved_context",
    ),
    "evaluations": (
        *_TARGET, "name", "time_ns", "value", "label", "error_type", "error_message",
        "evaluator_kind", "evaluator_version", "duration", "inclusion_probability",
        *_USAGE, "explanation", "metadata",
    ),
    "not_run": (*_TARGET, "evaluator", "time_ns", "reason", "detail"),
}  # fmt: skip
COLUMNS["feedback"] = COLUMNS["evaluations"]
"""The columns of each table, as rows are written and read; ``seq`` aside."""

_NO_USAGE: Row = (None, None, None, None)
_NO_FAILURE: Row = (None, None)


def span_row(span: SpanData) -> Row:
    """Turn a span into its row."""
    return (
        span.trace_id, span.span_id, span.parent_id, span.name, span.kind, span.start_ns,
        span.end_ns, *_of_failure(span.error), span.session_id, span.model_name,
        span.model_provider, span.trace_flags, *_of_usage(span.usage),
        dumps(span.tags or None), dumps(span.metrics or None),
        dumps([_of_link(link) for link in span.links] if span.links else None),
        dumps(span.attributes or None), dumps(_sparse(span.prompt)),
        dumps(span.request), dumps(span.response),
        dumps(span.expected or None), dumps(_each(span.extractions)),
        dumps(_each(span.retrieved_context)),
    )  # fmt: skip


def span_of(row: Row) -> SpanData:
    """Read a span back."""
    (trace_id, span_id, parent_id, name, kind, start_ns, end_ns, error_type, error_message,
     session_id, model_name, model_provider, trace_flags, *usage, tags, metrics, links, attributes,
     prompt, request, response, expected, extractions, retrieved_context) = row  # fmt: skip
    return SpanData(
        trace_id, span_id, parent_id, name, kind, start_ns, end_ns,
        request=loads(request),
        response=loads(response),
        retrieved_context=_nouns(Chunk, retrieved_context),
        extractions=_nouns(Extraction, extractions),
        error=_failure(error_type, error_message),
        attributes=loads(attributes, {}),
        metrics=loads(metrics, {}),
        tags=loads(tags, {}),
        prompt=_prompt(prompt),
        usage=_usage(usage),
        session_id=session_id,
        model_name=model_name,
        model_provider=model_provider,
        links=tuple(Target(*link) for link in loads(links, ())),
        trace_flags=trace_flags,
        expected=_expected(expected),
    )  # fmt: skip


def evaluation_row(event: EvaluationEvent) -> Row:
    """Turn an evaluation into its row."""
    outcome = event.evaluation
    value, fault = score(outcome.value)
    failure = _of_failure(outcome.error)
    return (
        event.id, *_of_target(event.target), outcome.name, event.timestamp_ns, value, outcome.label,
        *(failure if fault is None or outcome.error else (fault, "")),
        outcome.evaluator_kind, outcome.evaluator_version, outcome.duration,
        outcome.inclusion_probability, *_of_usage(outcome.usage), outcome.explanation,
        dumps(outcome.metadata or None),
    )  # fmt: skip


def evaluation_of(row: Row) -> EvaluationEvent:
    """Read an evaluation back."""
    (event_id, trace_id, span_id, span_name, span_kind, name, time_ns, value, label,
     error_type, error_message, kind, version, duration, probability, *usage, explanation,
     metadata) = row  # fmt: skip
    outcome = Evaluation(
        name,
        bool(value) if isinstance(value, int) else value,
        label=label,
        explanation=explanation,
        error=_failure(error_type, error_message),
        metadata=loads(metadata, {}),
        evaluator_kind=kind,
        evaluator_version=version,
        duration=duration,
        usage=_usage(usage),
        inclusion_probability=probability,
    )
    target = Target(trace_id, span_id or None, span_name, span_kind)
    return EvaluationEvent(event_id, target, outcome, time_ns)


def not_run_row(event: NotRun) -> Row:
    """Turn a judge that did not run into its row."""
    return (
        event.id, *_of_target(event.target), event.evaluator, event.timestamp_ns, event.reason,
        event.detail,
    )  # fmt: skip


def not_run_of(row: Row) -> NotRun:
    """Read a judge that did not run back."""
    event_id, trace_id, span_id, span_name, span_kind, evaluator, time_ns, reason, detail = row
    target = Target(trace_id, span_id or None, span_name, span_kind)
    return NotRun(event_id, target, evaluator, reason, detail, time_ns)


def _of_target(target: Target) -> Row:
    return target.trace_id, target.span_id or "", target.span_name, target.span_kind


def _of_link(link: Target) -> Row:
    return link.trace_id, link.span_id, link.span_name, link.span_kind


def _of_usage(usage: Usage | None) -> Row:
    if usage is None:
        return _NO_USAGE
    return usage.input_tokens, usage.output_tokens, usage.total_tokens, usage.cost_usd


def _usage(row: list[Any]) -> Usage | None:
    return None if row[0] is None else Usage(*row)


def _of_failure(failure: Failure | None) -> Row:
    return _NO_FAILURE if failure is None else (failure.type, failure.message)


def _failure(kind: str | None, message: str | None) -> Failure | None:
    return None if kind is None else Failure(kind, message or "")


def _sparse(noun: Any) -> dict[str, Any] | None:
    """Return the fields of a noun that are there."""
    if noun is None:
        return None
    names = _FIELDS[type(noun)]
    return {name: value for name in names if (value := getattr(noun, name)) is not None}


def _each(nouns: tuple[Any, ...] | None) -> list[Any] | None:
    return None if nouns is None else [_sparse(noun) for noun in nouns]


def _nouns(cls: Any, text: str | None) -> Any:
    return None if text is None else tuple(cls(**item) for item in loads(text))


def _expected(text: str | None) -> dict[str, Any]:
    found: dict[str, Any] = loads(text, {})
    if "expected_facts" in found:
        found["expected_facts"] = tuple(found["expected_facts"])
    chunks = found.get("expected_retrieved_context")
    if chunks is not None:
        found["expected_retrieved_context"] = tuple(Chunk(**chunk) for chunk in chunks)
    return found


def _prompt(text: str | None) -> Prompt | None:
    if text is None:
        return None
    given = loads(text)
    for name in ("chat_template", "rag_context_variables", "rag_query_variables"):
        if name in given:
            given[name] = tuple(given[name])
    return Prompt(**given)


_FIELDS = {cls: tuple(f.name for f in fields(cls)) for cls in (Chunk, Extraction, Prompt)}
