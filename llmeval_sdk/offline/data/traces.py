"""A trace, in the JSON of its tool -> what the columns of a row would have said.

MLflow 2.x and 3.x, OTLP, and spans of our own. The dialects of the attributes are those that
`llmeval_sdk.sources` reads online.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from llmeval_sdk._coerce import to_chunks, to_extractions, to_text, to_usage
from llmeval_sdk.model import Chunk, Extraction, SpanKind, Usage
from llmeval_sdk.offline.data import otlp
from llmeval_sdk.policy.prices import total
from llmeval_sdk.sources import conventions, messages
from llmeval_sdk.sources.reading import attributes_of


Prices = Mapping[str, tuple[float, float]]


class Step(NamedTuple):
    """One span, as far as evaluating it goes."""

    id: str
    parent: str | None
    kind: SpanKind | None
    start_ns: int
    end_ns: int
    request: Any = None
    response: Any = None
    chunks: tuple[Chunk, ...] | None = None
    usage: Usage | None = None
    extractions: tuple[Extraction, ...] | None = None
    model: str | None = None


class Trace(NamedTuple):
    """What a trace says, by the fields of Record; a field that it does not know is left out."""

    fields: Mapping[str, Any]
    calls: Sequence[tuple[Usage, str | None]] = ()
    """Of the models: what each used, and the model's name."""

    def priced(self, prices: Prices | None) -> Mapping[str, Any]:
        """Return the fields with what the calls cost, by own prices and those that are known."""
        return (
            {**self.fields, "usage": total(self.calls, own=prices)} if self.calls else self.fields
        )


def read_trace(value: Any) -> Trace:
    """Read a trace.

    Raises:
        TypeError, ValueError: it is none, or has no spans.
    """
    if hasattr(value, "to_json"):  # MLflow's own object, from a data frame of traces
        value = json.loads(value.to_json())
    found = value.get("data", value) if isinstance(value, Mapping) else value
    if isinstance(found, Mapping) and ("resourceSpans" in found or "resource_spans" in found):
        return _trace([_of_attributes(span) for span in otlp.spans(found)])
    spans = found.get("spans") if isinstance(found, Mapping) else found
    if not isinstance(spans, Sequence) or isinstance(spans, str):
        raise TypeError(
            "is no trace: expected MLflow's {'info', 'data'}, OTLP's {'resourceSpans'} or "
            "{'spans': [...]}"
        )
    if not all(isinstance(span, Mapping) for span in spans):
        raise TypeError("is no trace: its spans have to be mappings")
    fields, calls = _trace([_step(span) for span in spans])
    if isinstance(found, Mapping) and isinstance(value, Mapping):
        fields = {**_of_info(value.get("info"), found), **fields}
    if not fields:
        raise ValueError("is a trace without spans")
    return Trace(fields, calls)


def _trace(steps: Sequence[Step]) -> Trace:
    return Trace(derive(steps), _calls(steps))


def derive(steps: Sequence[Step]) -> dict[str, Any]:
    """Return the fields of a Record that spans tell.

    The topmost span has request, response and time; the context is what the last retrieval found;
    tokens are those of all model calls, each counted once.
    """
    if not steps:
        return {}
    known = {step.id: step for step in steps}
    roots = [step for step in steps if step.parent not in known]
    spoken = [step for step in roots if step.kind is not None or step.response is not None]
    root = min(spoken or roots or steps, key=lambda step: step.start_ns)
    retrievals = [step for step in steps if step.kind == "retrieval" and step.chunks is not None]
    extractions = [step.extractions for step in steps if step.extractions is not None]
    found: dict[str, Any] = {
        "request": root.request,
        "response": to_text(root.response),
        "retrieved_context": root.chunks,
        "extractions": root.extractions or (sum(extractions, ()) if extractions else None),
        "usage": total(_calls(steps)),
        "latency_seconds": (root.end_ns - root.start_ns) / 1e9 if root.end_ns else None,
    }
    if retrievals and (root.kind == "retrieval" or root.chunks is None):
        found["retrieved_context"] = max(retrievals, key=lambda step: step.start_ns).chunks
    return {name: value for name, value in found.items() if value is not None}


def _calls(steps: Sequence[Step]) -> list[tuple[Usage, str | None]]:
    """Return what the models used, each call once."""
    known = {step.id: step for step in steps}
    return [
        (step.usage, step.model)
        for step in steps
        if step.usage is not None and not _counted(step, known)
    ]


def _counted(step: Step, known: Mapping[str, Step]) -> bool:
    """Say whether a span above already has this one's tokens: a wrapper around a model call."""
    seen = {step.id}
    above = known.get(step.parent or "")
    while above is not None and above.id not in seen:
        if above.usage is not None:
            return True
        seen.add(above.id)
        above = known.get(above.parent or "")
    return False


def _step(span: Mapping[str, Any]) -> Step:
    """Read a span of ours, of MLflow or of OTLP; they are told apart by their keys."""
    if "start_ns" in span:
        return _own(span)
    if "traceId" in span or isinstance(span.get("attributes"), list):
        return _of_attributes(otlp.span_of(span))
    return _of_attributes(_mlflow(span))


def _own(span: Mapping[str, Any]) -> Step:
    return Step(
        str(span.get("span_id")),
        span.get("parent_id"),
        span.get("kind"),
        int(span.get("start_ns") or 0),
        int(span.get("end_ns") or 0),
        span.get("request"),
        span.get("response"),
        to_chunks(span.get("retrieved_context")),
        to_usage(span.get("usage")) if span.get("kind") == "llm" else None,
        to_extractions(span.get("extractions")),
        span.get("model_name"),
    )


def _mlflow(span: Mapping[str, Any]) -> otlp.Plain:
    context = span.get("context") or {}
    return otlp.Plain(
        str(span.get("span_id") or context.get("span_id")),
        span.get("parent_span_id") or span.get("parent_id") or None,
        int(span.get("start_time_unix_nano") or span.get("start_time") or 0),
        int(span.get("end_time_unix_nano") or span.get("end_time") or 0),
        dict(span.get("attributes") or {}),
        (),
    )


def _of_attributes(span: otlp.Plain) -> Step:
    attributes = attributes_of(span)
    kind = conventions.kind_of(attributes)
    return Step(
        span.id,
        span.parent,
        kind,
        span.start_ns,
        span.end_ns,
        conventions.request_of(attributes),
        conventions.response_of(attributes),
        conventions.chunks_of(attributes) if kind == "retrieval" else None,
        None if kind == "embedding" else conventions.usage_of(attributes),
        model=conventions.model_of(attributes)[0],
    )


def _of_info(info: Any, data: Mapping[str, Any]) -> dict[str, Any]:
    """Read what MLflow says of a trace as a whole, for what its spans leave open."""
    info = info if isinstance(info, Mapping) else {}
    metadata = {**(info.get("request_metadata") or {}), **(info.get("trace_metadata") or {})}
    response = conventions.parsed(data.get("response"))
    answered = messages.answer(response)
    request = conventions.parsed(data.get("request"))
    duration = info.get("execution_time_ms", info.get("execution_duration_ms"))
    found = {
        "request": messages.chat(request) or messages.question(request),
        "response": answered if answered is not None else to_text(response),
        "usage": to_usage(conventions.parsed(metadata.get("mlflow.trace.tokenUsage"))),
        "latency_seconds": duration / 1e3 if isinstance(duration, (int, float)) else _seconds(info),
    }
    return {name: value for name, value in found.items() if value is not None}


def _seconds(info: Mapping[str, Any]) -> float | None:
    """Read MLflow 3's ``"execution_duration": "1.25s"``."""
    text = str(info.get("execution_duration") or "")
    try:
        return float(text.removesuffix("s")) if text else None
    except ValueError:
        return None


def steps_of(spans: Iterable[Any]) -> list[Step]:
    """Read `SpanData`, as the store has them."""
    return [
        Step(
            span.span_id,
            span.parent_id,
            span.kind,
            span.start_ns,
            span.end_ns,
            span.request,
            span.response,
            span.retrieved_context,
            span.usage if span.kind == "llm" else None,
            span.extractions,
            span.model_name,
        )
        for span in spans
    ]
