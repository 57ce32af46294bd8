"""Langfuse: spans over its OTLP endpoint, scores of spans and sessions over its score API.

A score's id follows from what it is about, so that Langfuse keeps it once however often it is sent.
Langfuse 4 takes scores in lists and Langfuse 3 one by one; the first answer says which one it is.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Iterator
from datetime import datetime, timezone
from hashlib import sha256
from math import isfinite
from typing import Any

from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.exporters.batches import (
    Client,
    ExportStep,
    OtlpWriter,
    Progress,
    ScoreApiExporter,
    basic,
    is_repeatable,
)
from llmeval_sdk.exporters.http import ServerAnswer
from llmeval_sdk.exporters.otlp.attributes import (
    MAX_OWN,
    Attribute,
    dumps,
    explanation_of,
    is_judge,
    measured,
    session_of,
)
from llmeval_sdk.exporters.otlp.bridge import OtelBridge
from llmeval_sdk.exporters.otlp.wire import any_value, block, span_bytes, tag
from llmeval_sdk.model import Batch, Evaluation, EvaluationEvent, SpanData, Usage
from llmeval_sdk.plugins.langfuse import LangfuseSettings


SCORES = "/api/public/scores"
OTEL = "/api/public/otel/v1/traces"
INGESTION_VERSION = "4"
"""The header with which Langfuse shows spans at once. Without it that may take ten minutes."""
MAX_BODY = 900_000
"""The most bytes of scores in one request. Langfuse refuses bodies of more than a megabyte."""
MAX_CATEGORY = 500
"""The most characters of a category that Langfuse accepts."""
_TYPES = {
    "workflow": "chain", "task": "span", "retrieval": "retriever", "llm": "generation",
    "tool": "tool", "agent": "agent", "embedding": "embedding",
}  # fmt: skip
_PARTS = (
    ("cache_read_input_tokens", "input", "input_cached_tokens"),
    ("cache_write_input_tokens", "input", "input_cache_creation"),
    ("reasoning_output_tokens", "output", "output_reasoning_tokens"),
)
"""Metrics that count a part of the input or output, with what Langfuse calls the part."""
DIVIDE = ServerAnswer(413, {}, b"")
"""The answer on which a step is divided into halves that are sent one after the other."""
_SPAN_ATTRIBUTE, _KEY, _VALUE = tag(9, 2), tag(1, 2), tag(2, 2)


class LangfuseExporter(ScoreApiExporter):
    """Sends scores to Langfuse, and spans unless the app's provider sends them."""

    name = "langfuse"

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        own = settings.of(LangfuseSettings)
        if not own.langfuse_public_key or not own.langfuse_secret_key:
            raise ConfigurationError(
                "Langfuse needs both keys of a project: set LANGFUSE_PUBLIC_KEY and "
                "LANGFUSE_SECRET_KEY"
            )
        address = own.langfuse_url.rstrip("/")
        for path in (OTEL, OTEL.removesuffix("/v1/traces")):  # as other exporters are told it
            address = address.removesuffix(path)
        headers = basic(own.langfuse_public_key, own.langfuse_secret_key.reveal())
        self._client = Client(settings, address, headers)
        self._environment = _environment(settings)
        about = {
            "langfuse.environment": self._environment,
            "langfuse.release": own.langfuse_release,
        }
        self._writer = OtlpWriter(settings, **{name: text for name, text in about.items() if text})
        self._spans = _RecentSpans()
        self._traces = None
        self._takes_lists, self._has_taken_a_list = True, False
        if settings.otel != "global":
            version = {"x-langfuse-ingestion-version": INGESTION_VERSION}
            self._traces = self._client.traces(OTEL, **version)
            self.live = self.bridge = OtelBridge()

    def plan(self, batch: Batch, progress: Progress) -> None:
        """Plan the spans, then their scores."""
        for span in batch.spans:
            self._spans.note(span)
        self._writer.steps(self._traces, batch.spans, _span_bytes, progress)
        scores: list[dict[str, Any]] = []
        for event in batch.evaluations:
            if (subject := _subject(event, self._spans)) is None:
                progress.refused["no_target"] += 1
                continue
            score = {**_described(event), **subject, "timestamp": _iso(self._spans.time_of(event))}
            if self._environment:
                score["environment"] = self._environment
            scores.append(score)
        for part in _parts(scores):
            progress.steps.append(ExportStep(self._post, part, rejected=_rejected))

    def explain(self, answer: ServerAnswer) -> str:
        """Explain an answer; where the keys were refused, say what to check."""
        hint = "; each region of Langfuse has keys of its own: check LANGFUSE_BASE_URL"
        return super().explain(answer)[:200] + (hint if answer.status in (401, 403) else "")

    def _post(self, scores: list[dict[str, Any]]) -> ServerAnswer:
        """Send scores as a list. A server that takes no lists is sent each score by itself."""
        if self._takes_lists:
            answer = self._client.call("POST", SCORES, scores)
            self._has_taken_a_list |= answer.ok
            if answer.status != 400:
                return answer
        if len(scores) > 1:  # one of them is not valid, or this is Langfuse 3
            return DIVIDE
        (score,) = scores
        alone = {name: value for name, value in score.items() if name != "timestamp"}
        answer = self._client.call("POST", SCORES, alone)
        if answer.ok:
            self._takes_lists = self._has_taken_a_list
        return answer


class _RecentSpans:
    """Remembers to which traces recent spans belong, and when they ended.

    Langfuse replaces a score only by one with the same id and the same time. The scores of an
    evaluator on a span therefore have the time at which that span ended.
    """

    MAX_SPANS = 20_000

    def __init__(self) -> None:
        self._spans: OrderedDict[str | None, tuple[str, int]] = OrderedDict()

    def note(self, span: SpanData) -> None:
        self._spans[span.span_id] = (span.trace_id, span.end_ns)
        if len(self._spans) > self.MAX_SPANS:
            self._spans.popitem(last=False)

    def trace_of(self, span_id: str | None) -> str | None:
        return self._spans.get(span_id, (None, 0))[0]

    def time_of(self, event: EvaluationEvent) -> int:
        if is_repeatable(event) and event.target.span_id in self._spans:
            return self._spans[event.target.span_id][1]
        return event.timestamp_ns


def _environment(settings: Settings) -> str | None:
    """Return the name of the environment as Langfuse takes it; spans and scores have to agree."""
    resource = settings.resource_attributes or {}
    named = (
        settings.of(LangfuseSettings).langfuse_environment
        or resource.get("deployment.environment.name")
        or resource.get("deployment.environment")
    )
    if not named:
        return None
    name = re.sub(r"[^a-z0-9_-]+", "-", named.lower())
    return f"app-{name}"[:40] if name.startswith("langfuse") else name[:40]


# -- spans ----------------------------------------------------------------------------------------


def _span_bytes(span: SpanData) -> bytes:
    """Write a span with the attributes that Langfuse alone reads; their order means nothing."""
    more = [
        block(_SPAN_ATTRIBUTE, block(_KEY, name.encode()) + block(_VALUE, any_value(value)))
        for name, value in _own_attributes(span).items()
    ]
    return span_bytes(span) + b"".join(more)


def _own_attributes(span: SpanData) -> dict[str, Attribute]:
    attributes: dict[str, Attribute] = {
        "langfuse.observation.type": "evaluator" if is_judge(span) else _TYPES[span.kind]
    }
    if span.is_local_root:
        attributes["langfuse.trace.name"] = span.name
    if span.tags:
        attributes["langfuse.trace.tags"] = [
            f"{name}:{value}" for name, value in list(span.tags.items())[:MAX_OWN]
        ]
    if span.attributes:
        attributes["langfuse.observation.metadata"] = dumps(span.attributes)
    usage, prompt = span.usage, span.prompt
    if usage is not None and span.kind in ("llm", "embedding"):
        attributes["langfuse.observation.usage_details"] = dumps(_usage_details(span, usage))
        if usage.cost_usd is not None:
            attributes["langfuse.observation.cost_details"] = dumps({"total": usage.cost_usd})
    if prompt is not None and prompt.id:
        attributes["langfuse.observation.prompt.name"] = prompt.id
        version = prompt.version or ""
        if version.isdecimal() and len(version) < 10:  # Langfuse numbers its versions
            attributes["langfuse.observation.prompt.version"] = int(version)
    return attributes


def _usage_details(span: SpanData, usage: Usage) -> dict[str, int]:
    """Split the tokens of a model call into parts that do not overlap, as Langfuse adds them up.

    From the attributes of OpenTelemetry it would count what was written to a cache twice.
    """
    details = {"input": usage.input_tokens, "output": usage.output_tokens}
    counts = measured(span)
    for metric, whole, part in _PARTS:
        tokens = min(int(counts.get(metric, 0)), details[whole])
        if tokens:
            details[whole] -= tokens
            details[part] = tokens
    return {**details, "total": usage.total_tokens}


# -- scores ---------------------------------------------------------------------------------------


def _subject(event: EvaluationEvent, spans: _RecentSpans) -> dict[str, Any] | None:
    """Return a score's id and its trace or session; ``None`` if it names neither."""
    evaluation, target = event.evaluation, event.target
    if (session_id := session_of(event)) is not None:  # each of its pauses has a verdict
        parts = ("session", session_id, evaluation.name, evaluation.metadata.get("period"))
        digest = sha256(dumps(parts).encode("utf-8", "replace")).hexdigest()
        return {"id": f"llmeval-{digest[:40]}", "sessionId": session_id}
    joined = evaluation.metadata.get("join_on")  # feedback may name these instead of a span
    joined = joined if isinstance(joined, dict) else {}
    trace_id = target.trace_id or joined.get("trace_id") or spans.trace_of(target.span_id)
    if trace_id is not None:
        subject = {"id": f"{trace_id}-{event.id}", "traceId": trace_id}
        return {**subject, "observationId": target.span_id} if target.span_id else subject
    if (session_id := joined.get("session_id")) is not None:
        return {"id": f"llmeval-{event.id}", "sessionId": session_id}
    return None


def _described(event: EvaluationEvent) -> dict[str, Any]:
    evaluation = event.evaluation
    value, data_type = _value(evaluation)
    about = {
        "evaluator_kind": evaluation.evaluator_kind,
        "evaluator_version": evaluation.evaluator_version,
        "inclusion_probability": evaluation.inclusion_probability,
        "probability": evaluation.probability,
        "label": evaluation.label,
        "span_name": event.target.span_name,
        **evaluation.metadata,
    }
    usage = evaluation.usage
    if usage is not None:
        about["usage"] = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
        about["cost_usd"] = usage.cost_usd
    given = {name: item for name, item in about.items() if item is not None}
    score = {
        "name": evaluation.name,
        "value": value,
        "dataType": data_type,
        "metadata": json.loads(dumps(given), parse_constant=str),  # no NaN: it is no JSON
    }
    comment = explanation_of(event)
    return {**score, "comment": comment} if comment else score


def _value(evaluation: Evaluation) -> tuple[float | str, str]:
    """Return a value and its type.

    What is no result is a word, and Langfuse shows words and numbers of one name apart.
    """
    value = evaluation.value
    if evaluation.error is not None:
        return f"error: {evaluation.error.type}", "CATEGORICAL"
    if value is None:
        return "not applicable", "CATEGORICAL"
    if isinstance(value, bool):
        return int(value), "BOOLEAN"
    if isinstance(value, str) or not isfinite(value):
        return str(value)[:MAX_CATEGORY] or "(empty)", "CATEGORICAL"
    return value, "NUMERIC"


def _parts(scores: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Divide scores into requests that are no larger than Langfuse takes."""
    part: list[dict[str, Any]] = []
    size = 0
    for score in scores:
        length = len(dumps(score).encode("utf-8", "replace"))
        if part and size + length > MAX_BODY:
            yield part
            part, size = [], 0
        part.append(score)
        size += length + 1
    if part:
        yield part


def _rejected(response: bytes) -> tuple[int, str]:
    """Return how many scores of a list Langfuse refused, and why.

    Raises:
        ValueError: the answer is not one that Langfuse would give.
    """
    answer = json.loads(response)
    if not isinstance(answer, dict):
        raise ValueError("the answer is not Langfuse's")  # noqa: TRY004 - as the caller expects
    count, errors = answer.get("rejected"), answer.get("errors")
    if not isinstance(count, int) or not isinstance(errors, list):
        return 0, ""
    words = (str(error.get("message")) for error in errors if isinstance(error, dict))
    return max(0, count), "; ".join(words)


def _iso(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns / 1e9, timezone.utc).isoformat()
