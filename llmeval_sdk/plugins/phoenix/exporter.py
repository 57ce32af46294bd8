"""Arize Phoenix: spans over OTLP, scores as annotations of spans, sessions and documents."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from llmeval_sdk.config import Settings
from llmeval_sdk.exporters.batches import (
    Client,
    ExportStep,
    OtlpWriter,
    Progress,
    Retrievals,
    ScoreApiExporter,
    is_repeatable,
    none_rejected,
)
from llmeval_sdk.exporters.http import ServerAnswer
from llmeval_sdk.exporters.otlp import names
from llmeval_sdk.exporters.otlp.attributes import explanation_of, session_of, value_and_label
from llmeval_sdk.exporters.otlp.bridge import OtelBridge
from llmeval_sdk.exporters.otlp.wire import span_bytes
from llmeval_sdk.model import Batch, EvaluationEvent, values
from llmeval_sdk.plugins.phoenix import PhoenixSettings


SPANS = "/v1/span_annotations?sync=false"
"""Asynchronous, so that Phoenix keeps a score whose span has not arrived yet."""
DOCUMENTS = "/v1/document_annotations?sync=false"
SESSIONS = "/v1/session_annotations?sync=false"
_KINDS = {"heuristic": "CODE", "judge": "LLM", "decision": "LLM", "human": "HUMAN"}


class PhoenixExporter(ScoreApiExporter):
    """Sends scores to Phoenix as annotations, and spans unless the app's provider does."""

    name = "phoenix"

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        own = settings.of(PhoenixSettings)
        key = own.phoenix_api_key
        headers = {"authorization": f"Bearer {key.reveal()}"} if key else {}
        address = own.phoenix_endpoint.removesuffix("/v1/traces")  # as others are told it
        self._client = Client(settings, address, headers)
        self._traces = None if settings.otel == "global" else self._client.traces()
        project = settings.phoenix_project or settings.service_name or "default"
        self._writer = OtlpWriter(settings, **{names.OI_PROJECT: project})
        self._retrievals = Retrievals()
        if self._traces is not None:
            self.live = self.bridge = OtelBridge()

    def plan(self, batch: Batch, progress: Progress) -> None:
        """Plan the spans, then their annotations."""
        for span in batch.spans:
            self._retrievals.note(span)
        self._writer.steps(self._traces, batch.spans, span_bytes, progress)
        annotations: list[dict[str, Any]] = []
        documents: list[dict[str, Any]] = []
        sessions: list[dict[str, Any]] = []
        for event in batch.evaluations:
            if (session_id := session_of(event)) is not None:
                sessions.append(_session_annotation(event, session_id))
                continue
            if event.target.span_id is None:
                progress.refused["no_target"] += 1
                continue
            annotations.append(_annotation(event))
            documents.extend(self._documents(event))
        for path, records in ((SPANS, annotations), (SESSIONS, sessions)):
            if records:
                progress.steps.append(
                    ExportStep(partial(self._post, path), records, rejected=none_rejected)
                )
        if documents:
            progress.steps.append(
                ExportStep(partial(self._post, DOCUMENTS), documents, counted=False)
            )

    def _post(self, path: str, records: list[Any]) -> ServerAnswer:
        return self._client.call("POST", path, {"data": records})

    def _documents(self, event: EvaluationEvent) -> Iterable[dict[str, Any]]:
        """Return one annotation for each chunk that a judge rated, on the retrieval's span."""
        about = event.evaluation.metadata
        ratings = about.get("ratings")
        if not isinstance(ratings, (list, tuple)) or not ratings:
            return
        target = event.target
        span_id = self._retrievals.find(target.trace_id, target.span_id, len(ratings))
        if span_id is None:
            return
        rationales = about.get("rationales") or [None] * len(ratings)
        for place, (rating, why) in enumerate(zip(ratings, rationales, strict=False)):
            if rating is not None:
                head = _head(event)
                del head["identifier"]  # which document annotations may not have
                yield {
                    **head,
                    "span_id": span_id,
                    "document_position": place,
                    "result": {
                        "label": str(rating),
                        "score": values.number(rating),
                        "explanation": why,
                    },
                }


def _session_annotation(event: EvaluationEvent, session_id: str) -> dict[str, Any]:
    """Describe the verdict on a session. Each of its pauses has one, whoever delivers it."""
    period = event.evaluation.metadata.get("period")
    version = f"llmeval:{event.evaluation.name}:{event.evaluation.evaluator_version}"
    head = {**_head(event), "identifier": f"{version}:period-{period}"}
    return {**head, "session_id": session_id, "result": _result(event)}


def _annotation(event: EvaluationEvent) -> dict[str, Any]:
    return {**_head(event), "span_id": event.target.span_id, "result": _result(event)}


def _result(event: EvaluationEvent) -> dict[str, Any]:
    """Describe an outcome; a failed one has a label and no score."""
    evaluation = event.evaluation
    score, label = value_and_label(evaluation)
    if evaluation.error is not None:
        label = f"error: {evaluation.error.type}"
    return {
        "score": score,
        "label": label or (None if score is not None else "not applicable"),
        "explanation": explanation_of(event),
    }


def _head(event: EvaluationEvent) -> dict[str, Any]:
    evaluation = event.evaluation
    version = f"llmeval:{evaluation.name}:{evaluation.evaluator_version}"
    if evaluation.evaluator_kind == "decision":  # a judge model may rate under the same name
        version += ":decision"
    return {
        "name": evaluation.name,
        "annotator_kind": _KINDS[evaluation.evaluator_kind],
        "identifier": version if is_repeatable(event) else event.id,
        "metadata": {
            "evaluator_version": evaluation.evaluator_version,
            "inclusion_probability": evaluation.inclusion_probability,
            "probability": evaluation.probability,
            **evaluation.metadata,
        },
    }
