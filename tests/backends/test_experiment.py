"""An offline run, read back from MLflow: an experiment of its own name, with scores and truth."""

import pytest
from backend_servers import fetch

import llmeval_sdk as llmeval
from llmeval_sdk.testing import FakeLLM


def test_mlflow_has_the_run_as_an_experiment(mlflow, monkeypatch):
    """Each row is a trace with its assessments and its expected answer."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", mlflow)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "live")
    row = {
        "request": "Which roof?",
        "response": "Slate.",
        "expected_response": "slate",
        "retrieved_context": [{"content": "The roof is slate.", "doc_uri": "d", "score": 0.9}],
    }
    report = llmeval.evaluate(
        [row],
        evaluators=["correctness", "context_relevance"],
        llm=FakeLLM(),
        exporters=["mlflow"],
        experiment="golden roofs",
    )
    account = report.delivery["mlflow"]
    assert account.delivered == account.created == 3
    info = fetch(f"{mlflow}/api/3.0/mlflow/traces/tr-{report.rows[0].record.trace_id}")
    found = {each["assessment_name"]: each for each in info["trace"]["trace_info"]["assessments"]}
    assert found["correctness"]["feedback"]["value"] == "yes"
    assert found["context_relevance"]["feedback"]["value"] == pytest.approx(0.45)
    assert found["expected_response"]["expectation"]["value"] == "slate"
    place = info["trace"]["trace_info"]["trace_location"]["mlflow_experiment"]["experiment_id"]
    name = f"{mlflow}/api/2.0/mlflow/experiments/get-by-name?experiment_name=golden-roofs"
    assert fetch(name)["experiment"]["experiment_id"] == place
