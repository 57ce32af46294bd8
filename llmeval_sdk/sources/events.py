"""Span events of LLM Observability -> spans of ours: some are scored, the others kept. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from llmeval_sdk._coerce import to_chunks, to_extractions, to_prompt, to_usage
from llmeval_sdk.model import Chunk, Failure
from llmeval_sdk.sources import messages
from llmeval_sdk.sources.conventions import parsed
from llmeval_sdk.tracing import ANSWERED, Link, Retrieved, Span, Spent, capture
from llmeval_sdk.tracing._span import Spec


KINDS = frozenset(("workflow", "task", "retrieval", "llm", "tool", "agent", "embedding"))
SCORED = frozenset(("workflow", "agent", "llm", "retrieval", "task"))
RUNNER = "runner.integration:"
"""Tag of spans that evaluators made: those are not evaluated."""


class Seen(NamedTuple):
    """One event, and whether a span of ours is above it."""

    event: Mapping[str, Any]
    below_ours: bool

    @property
    def kind(self) -> Any:
        """Return the span's kind."""
        return (self.meta.get("span") or {}).get("kind")

    @property
    def meta(self) -> Mapping[str, Any]:
        """Return what the span holds."""
        return self.event.get("meta") or {}

    @property
    def prompt(self) -> Any:
        """Return the prompt of an ``llm`` span, as `Prompt`."""
        found = (self.meta.get("input") or {}).get("prompt")
        if self.kind != "llm" or not isinstance(found, dict):
            return None
        keys = {
            "rag_context_variables": found.get("_dd_context_variable_keys"),
            "rag_query_variables": found.get("_dd_query_variable_keys"),
        }
        return to_prompt({**found, **{key: value for key, value in keys.items() if value}})


def evaluated(
    events: Sequence[tuple[Mapping[str, Any], bool]], evaluators: tuple[Any, ...]
) -> Iterable[Span]:
    """Yield a span of ours for each.

    The topmost is scored, and so is an ``llm`` span with a prompt, by the judges that look at
    those. The others, which have an owner, are only kept where the exporter is the store.
    """
    seen = {
        str(event["span_id"]): Seen(event, below_ours)
        for event, below_ours in events
        if not any(str(tag).startswith(RUNNER) for tag in event.get("tags") or ())
    }
    seen = {key: each for key, each in seen.items() if each.kind in KINDS}
    families: dict[str, list[Seen]] = {}
    for key, each in seen.items():
        families.setdefault(_topmost(key, seen), []).append(each)
    for key, family in families.items():
        top = seen[key]
        above = None if top.below_ours or top.kind not in SCORED else _span(top, evaluators)
        for each in family:
            prompted = each.prompt is not None and each is not top
            if above is not None and each is not top:
                _collect(above, each, prompted=prompted)
            if each is not top or above is None:
                inner = _span(each, ())
                inner._owner = above or inner
                if each is top and not each.below_ours:
                    inner._parent_id = 0
                yield inner
        if above is not None:
            if top.kind == "llm" and top.prompt is None:
                above.collect(ANSWERED)  # Datadog's Ragas evaluators look at prompts only
            above._parent_id = 0  # whatever is above is not kept
            yield above


def _topmost(key: str, seen: Mapping[str, Seen]) -> str:
    for _ in range(len(seen)):
        parent = str(seen[key].event.get("parent_id"))
        if parent not in seen:
            break
        key = parent
    return key


def _span(each: Seen, evaluators: tuple[Any, ...]) -> Span:
    event, meta = each.event, each.meta
    spec = Spec(
        each.kind, str(event.get("name")), evaluators, event.get("session_id"), None,
        meta.get("model_name"), meta.get("model_provider"),
    )  # fmt: skip
    parent = str(event.get("parent_id"))
    number = int(parent) if parent.isdecimal() else 0
    span = Span(spec, Link(int(str(event["trace_id"]), 16), number, 1))
    span.span_number = int(event["span_id"])
    span.start_ns = int(event.get("start_ns") or 0)
    span.end_ns = span.start_ns + int(event.get("duration") or 0)
    span._prompt = each.prompt
    span._request = capture(_request(each), span._room)
    span._response = capture(_response(each), span._room)
    if each.kind == "retrieval":
        span._retrieved = _chunks(meta)
    if each.kind == "llm":
        span._usage = to_usage(dict(event.get("metrics") or {}))
    metadata = meta.get("metadata") or {}
    if isinstance(metadata.get("extractions"), list):
        span._extractions = to_extractions(capture(metadata["extractions"], span._room))
    if event.get("status") == "error":
        error = meta.get("error") or {}
        span._error = Failure(
            str(error.get("type") or "error"), str(error.get("message") or "")[:2_000]
        )
    return span


def _request(each: Seen) -> Any:
    given = each.meta.get("input") or {}
    if isinstance(given.get("messages"), list):
        return messages.chat(given["messages"]) or given["messages"]
    value = parsed(given.get("value"))
    return messages.chat(value) or messages.question(value)


def _response(each: Seen) -> Any:
    given = each.meta.get("output") or {}
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


def _collect(span: Span, each: Seen, *, prompted: bool) -> None:
    """Take from a span below what belongs to the scored one."""
    if each.kind == "retrieval":
        chunks = _chunks(each.meta)
        if chunks is not None:
            span.collect(Retrieved(int(each.event.get("start_ns") or 0), chunks, ()))
    elif each.kind == "llm":
        usage = to_usage(dict(each.event.get("metrics") or {}))
        if usage is not None:
            span.collect(Spent(usage, each.meta.get("model_name")))
        if prompted and _response(each) is not None:
            span.collect(ANSWERED)
