"""MLflow: spans over OTLP, scores and ground truth as assessments of the trace."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

from llmeval_sdk.config import Settings
from llmeval_sdk.errors import ExportError
from llmeval_sdk.exporters.batches import (
    Client,
    Endpoint,
    ExportStep,
    OtlpWriter,
    Progress,
    ScoreApiExporter,
    basic,
    none_rejected,
)
from llmeval_sdk.exporters.http import ServerAnswer
from llmeval_sdk.exporters.otlp.attributes import (
    dumps,
    explanation_of,
    loads,
    pages,
    session_of,
    text_of,
)
from llmeval_sdk.exporters.otlp.bridge import OtelBridge
from llmeval_sdk.exporters.otlp.wire import span_bytes
from llmeval_sdk.model import Batch, EvaluationEvent, SpanData
from llmeval_sdk.plugins.mlflow import MlflowSettings


PATIENCE = 10.0
"""How many seconds scores wait for a trace that another library sends before they are refused."""
API = "/api/2.0/mlflow/experiments"
_SOURCES = {
    "heuristic": "CODE",
    "judge": "LLM_JUDGE",
    "decision": "LLM_JUDGE",
    "human": "HUMAN",
}


class MlflowExporter(ScoreApiExporter):
    """Sends scores to MLflow as feedback, and spans unless the app's provider sends them."""

    name = "mlflow"

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._settings = settings
        self._own = settings.of(MlflowSettings)
        self._client = Client(settings, self._own.mlflow_uri, _authorization(self._own))
        self._experiment = self._own.mlflow_experiment_id
        self._traces: Endpoint | None = None
        self._writer = OtlpWriter(settings)
        if settings.otel != "global":
            self.live = self.bridge = OtelBridge()

    def plan(self, batch: Batch, progress: Progress) -> None:
        """Plan the spans, then the assessments of their traces."""
        if self._settings.otel != "global" and self._traces is None and batch.spans:
            self._experiment = self._experiment or self._find_experiment()
            self._traces = self._client.traces(**{"x-mlflow-experiment-id": self._experiment})
        self._writer.steps(self._traces, batch.spans, span_bytes, progress)
        for span in batch.spans:
            progress.steps.extend(
                ExportStep(self._assess, [truth], counted=False, patience=PATIENCE)
                for truth in _expectations(span)
            )
        for event in batch.evaluations:
            if event.target.trace_id is None:
                progress.refused["no_target"] += 1
                continue
            progress.steps.append(
                ExportStep(
                    self._assess, [_feedback(event)], rejected=none_rejected, patience=PATIENCE
                )
            )

    def _assess(self, records: list[Any]) -> ServerAnswer:
        (assessment,) = records
        path = f"/api/3.0/mlflow/traces/{assessment['trace_id']}/assessments"
        return self._client.call("POST", path, {"assessment": assessment})

    def _find_experiment(self) -> str:
        """Return the id of the experiment, which is made if there is none of its name."""
        name = self._own.mlflow_experiment or self._settings.service_name or "Default"
        by_name = f"{API}/get-by-name?experiment_name={quote(name, safe='')}"
        answer = self._client.call("GET", by_name)
        if answer.status == 404:
            answer = self._client.call("POST", f"{API}/create", {"name": name})
            if answer.status == 400:  # another process was faster
                answer = self._client.call("GET", by_name)
        if not answer.ok:
            raise answer.failure()
        try:
            reply = loads(answer.body)
            experiment = reply.get("experiment", reply)
            return str(experiment["experiment_id"])
        except (ValueError, KeyError, AttributeError) as error:
            raise ExportError("no_experiment", "the answer is not MLflow's") from error


def _authorization(own: MlflowSettings) -> dict[str, str]:
    if own.mlflow_token:
        return {"authorization": f"Bearer {own.mlflow_token.reveal()}"}
    if own.mlflow_username and own.mlflow_password:
        return basic(own.mlflow_username, own.mlflow_password.reveal())
    return {}


def _feedback(event: EvaluationEvent) -> dict[str, Any]:
    """Describe an evaluation; a failed one has an error and no value."""
    evaluation = event.evaluation
    feedback: dict[str, Any] = {"value": evaluation.value}
    if evaluation.error is not None:
        feedback = {
            "error": {
                "error_code": evaluation.error.type,
                "error_message": evaluation.error.message[:2_000],
            }
        }
    about = {
        "evaluator_version": evaluation.evaluator_version,
        "inclusion_probability": str(evaluation.inclusion_probability),
        **{key: text_of(value)[0] for key, value in evaluation.metadata.items()},
    }
    if evaluation.label is not None:
        about["label"] = evaluation.label
    if evaluation.probability is not None:
        about["probability"] = str(evaluation.probability)
    span_id = event.target.span_id
    if (session_id := session_of(event)) is not None:
        about["mlflow.trace.session"], span_id = session_id, None  # it is of no single span
    model = evaluation.metadata.get("model")
    source = model if isinstance(model, str) and model else evaluation.name
    return {
        **_head(event.target.trace_id, span_id, event.timestamp_ns),
        "assessment_name": evaluation.name,
        "source": {"source_type": _SOURCES[evaluation.evaluator_kind], "source_id": source},
        "feedback": feedback,
        "rationale": explanation_of(event) if evaluation.error is None else None,
        "metadata": about,
    }


def _expectations(span: SpanData) -> Iterable[dict[str, Any]]:
    """Describe the ground truth that the app annotated, with one assessment for each field."""
    for name, truth in span.expected.items():
        if truth is None or name == "abstained":
            continue
        if isinstance(truth, (str, int, float, bool)):
            expectation: dict[str, Any] = {"value": truth}
        else:
            text = pages(truth) if name == "expected_retrieved_context" else None
            serialized = text or dumps(truth)
            form = {"serialization_format": "JSON_FORMAT", "value": serialized}
            expectation = {"serialized_value": form}
        yield {
            **_head(span.trace_id, span.span_id, span.end_ns),
            "assessment_name": name,
            "source": {"source_type": "CODE", "source_id": "llmeval_sdk"},
            "expectation": expectation,
        }


def _head(trace_id: str | None, span_id: str | None, time_ns: int) -> dict[str, Any]:
    time = datetime.fromtimestamp(time_ns / 1e9, timezone.utc).isoformat()
    head = {"trace_id": f"tr-{trace_id}", "create_time": time, "last_update_time": time}
    return {**head, "span_id": span_id} if span_id else head
