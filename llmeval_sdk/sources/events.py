"""Span events of LLM Observability -> spans of ours: some are scored, the others kept. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from llmeval_sdk._coerce import to_chunks, to_extractions, to_prompt, to_usage
from llmeval_sdk.model import Chunk, Failure, Prompt, SpanData
from llmeval_sdk.records import ANSWERED
from llmeval_sdk.sources import messages
from llmeval_sdk.sources.conventions import parsed
from llmeval_sdk.sources.reading import SCORED, scored
from llmeval_sdk.tracing import Span, adopted, capture


KINDS = frozenset(("workflow", "task", "retrieval", "llm", "tool", "agent", "embedding"))
RUNNER = "runner.integration:"
"""Tag of spans that evaluators made: those are not evaluated."""


def evaluated(
    events: Sequence[tuple[Mapping[str, Any], bool]], evaluators: tuple[Any, ...]
) -> Iterable[Span]:
    """Yield a span of ours for each event, which comes with whether a span of ours is above it.

    The topmost is scored, and so is an ``llm`` span with a prompt, by the judges that look at
    those. The others, which have an owner, are only kept where the exporter is the store.
    """
    known: dict[str, SpanData] = {}
    below_ours = set()
    for event, is_below_ours in events:
        if not any(str(tag).startswith(RUNNER) for tag in event.get("tags") or ()):
            data = finished(event)
            if data is not None:
                known[data.span_id] = data
                if is_below_ours:
                    below_ours.add(data.span_id)
    families: dict[str, list[SpanData]] = {}
    for span_id, data in known.items():
        families.setdefault(_topmost(span_id, known), []).append(data)
    for span_id, family in families.items():
        top = known[span_id]
        if span_id in below_ours or top.kind not in SCORED:
            above = None
        else:
            above = scored(replace(top, parent_id=None), family, evaluators)
        for data in family:
            if data is not top or above is None:
                is_root = data is top and span_id not in below_ours
                inner = adopted(replace(data, parent_id=None) if is_root else data)
                inner.owner = above or inner
                yield inner
        if above is not None:
            if top.kind == "llm" and top.prompt is None:
                above.collect(ANSWERED)  # Datadog's Ragas evaluators look at prompts only
            yield above


def _topmost(span_id: str, known: Mapping[str, SpanData]) -> str:
    for _ in range(len(known)):
        parent = known[span_id].parent_id
        if parent is None or parent not in known:
            break
        span_id = parent
    return span_id


def finished(event: Mapping[str, Any]) -> SpanData | None:
    """Read an event; ``None`` for one that is no span of LLM Observability."""
    meta = event.get("meta") or {}
    kind = (meta.get("span") or {}).get("kind")
    if kind not in KINDS:
        return None
    parent, metadata = str(event.get("parent_id")), meta.get("metadata") or {}
    start = int(event.get("start_ns") or 0)
    extractions = metadata.get("extractions")
    return SpanData(
        f"{int(str(event['trace_id']), 16):032x}",
        f"{int(event['span_id']):016x}",
        f"{int(parent):016x}" if parent.isdecimal() and int(parent) else None,
        str(event.get("name")),
        kind,
        start,
        start + int(event.get("duration") or 0),
        request=_request(meta),
        response=_response(meta),
        retrieved_context=_chunks(meta) if kind == "retrieval" else None,
        extractions=to_extractions(capture(extractions)) if isinstance(extractions, list) else None,
        usage=to_usage(dict(event.get("metrics") or {})) if kind == "llm" else None,
        prompt=_prompt(meta) if kind == "llm" else None,
        error=_error(event, meta),
        session_id=event.get("session_id"),
        model_name=meta.get("model_name"),
        model_provider=meta.get("model_provider"),
    )


def _prompt(meta: Mapping[str, Any]) -> Prompt | None:
    prompt = (meta.get("input") or {}).get("prompt")
    if not isinstance(prompt, dict):
        return None
    keys = {
        "rag_context_variables": prompt.get("_dd_context_variable_keys"),
        "rag_query_variables": prompt.get("_dd_query_variable_keys"),
    }
    return to_prompt({**prompt, **{key: value for key, value in keys.items() if value}})


def _error(event: Mapping[str, Any], meta: Mapping[str, Any]) -> Failure | None:
    if event.get("status") != "error":
        return None
    error = meta.get("error") or {}
    return Failure(str(error.get("type") or "error"), str(error.get("message") or "")[:2_000])


def _request(meta: Mapping[str, Any]) -> Any:
    given = meta.get("input") or {}
    if isinstance(given.get("messages"), list):
        return messages.chat(given["messages"]) or given["messages"]
    value = parsed(given.get("value"))
    return messages.chat(value) or messages.question(value)


def _response(meta: Mapping[str, Any]) -> Any:
    given = meta.get("output") or {}
    if isinstance(given.get("messages"), list):
        return messages.answer(given["messages"])
    return parsed(given.get("value"))


def _chunks(meta: Mapping[str, Any]) -> tuple[Chunk, ...] | None:
    documents = (meta.get("output") or {}).get("documents")
    if not isinstance(documents, list):
        return None
    return to_chunks(
        [{**each, "doc_uri": each.get("name")} for each in documents if isinstance(each, dict)]
    )
