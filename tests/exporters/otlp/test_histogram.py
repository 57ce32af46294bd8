"""Scores as a metric of the app's own meter provider, where it is asked for."""

import pytest
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import llmeval_sdk as llmeval
from llmeval_sdk.pipeline import runtime


@llmeval.workflow
def answer(question):
    with llmeval.retrieval("find") as step:
        step.retrieved_context = [{"content": "slate", "score": 0.9}]
    return "slate"


def points(reader):
    """Return the points of the histogram, by evaluator."""
    data = reader.get_metrics_data()
    found = [
        metric
        for resource in (data.resource_metrics if data else ())
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name == "llmeval.evaluation.score"
    ]
    return {
        point.attributes["gen_ai.evaluation.name"]: point
        for metric in found
        for point in metric.data.data_points
    }


@pytest.mark.parametrize("wanted", [True, False])
def test_scores_are_a_histogram_by_evaluator_and_label(collector, monkeypatch, wanted):
    """Beside the events that we send ourselves; nothing without the setting."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: provider)
    llmeval.configure(exporters=["otlp"], otlp_endpoint=collector.url, otel_metrics=wanted)
    answer("Which roof?")
    answer("Which wall?")
    runtime.flush(20)
    found = points(reader)
    assert ("context_relevance" in found) == wanted
    if wanted:
        point = found["context_relevance"]
        assert (point.count, point.sum) == (2, pytest.approx(0.9))
        assert point.attributes["gen_ai.evaluation.score.label"] == "acceptable"
        assert point.attributes["llmeval.evaluator.kind"] == "code"
