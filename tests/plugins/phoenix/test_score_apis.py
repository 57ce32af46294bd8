"""What Phoenix and MLflow are sent, and when; the real servers are asked in tests/backends."""

import base64

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.config import Secret, from_environment
from llmeval_sdk.errors import ExportError
from llmeval_sdk.exporters.batches import Retrievals
from llmeval_sdk.model import Batch, Chunk, Evaluation, EvaluationEvent, SpanData, Target
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.plugins.mlflow.exporter import MlflowExporter
from llmeval_sdk.plugins.phoenix.exporter import PhoenixExporter


TRACE, WORKFLOW = "a" * 32, "b" * 16
TARGET = Target(TRACE, WORKFLOW, "answer", "workflow")
EXPERIMENT = {"experiment": {"experiment_id": "7"}}


def span(span_id, parent=None, kind="workflow", start=1, chunks=None, **more):
    return SpanData(
        TRACE, span_id, parent, "answer", kind, start, start + 1, retrieved_context=chunks, **more
    )


def event(name="polite", value=1.0, target=TARGET, serial="", **more):
    evaluation = Evaluation(name, value, evaluator_kind="judge", **more)
    return EvaluationEvent(f"{target.span_id}-{name}{serial}", target, evaluation, 1)


def test_phoenix_gets_spans_then_annotations(collector):
    """One call for all annotations, not in sync, with an identifier that makes repeats harmless."""
    collector.pages["/v1/span_annotations"] = {}
    exporter = PhoenixExporter(
        from_environment(
            {}, phoenix_endpoint=collector.url, phoenix_api_key=Secret("k"), phoenix_project="p"
        )
    )
    batch = Batch((span(WORKFLOW),), (event(), event("thumbs", True, serial="-1")))
    assert not exporter.export(batch)
    assert [path for path, _, _ in collector.requests] == [
        "/v1/traces",
        "/v1/span_annotations?sync=false",
    ]
    assert collector.requests[0][1]["authorization"] == "Bearer k"
    assert collector.resources[0]["openinference.project.name"] == "p"
    first, second = collector.posted[0][1]["data"]
    assert (first["identifier"], first["annotator_kind"]) == ("llmeval:polite:1", "LLM")
    assert second["identifier"] == f"{WORKFLOW}-thumbs-1"
    exporter.close(1.0)


def test_phoenixs_address_may_be_that_of_its_traces(collector):
    """Which is what the variable holds where another library sends them."""
    exporter = PhoenixExporter(from_environment({}, phoenix_endpoint=f"{collector.url}/v1/traces"))
    assert not exporter.export(Batch((span(WORKFLOW),)))
    assert [path for path, _, _ in collector.requests] == ["/v1/traces"]
    exporter.close(1.0)


def test_phoenix_gets_ratings_on_the_retrieval_that_was_rated(collector):
    """The latest retrieval below the judged span that found so many documents."""
    collector.pages["/v1/"] = {}
    exporter = PhoenixExporter(from_environment({}, phoenix_endpoint=collector.url, otel="global"))
    two, three = (Chunk("x"),) * 2, (Chunk("x"),) * 3
    spans = (
        span("1" * 16, WORKFLOW, "retrieval", 1, two),
        span("2" * 16, WORKFLOW, "task", 2),
        span("3" * 16, "2" * 16, "retrieval", 3, two),
        span("4" * 16, WORKFLOW, "retrieval", 4, three),
        span("5" * 16, "f" * 16, "retrieval", 5, two),
        span(WORKFLOW),
    )
    rated = event("on_topic", 0.5, metadata={"ratings": ["yes", None], "rationales": ["r", None]})
    assert not exporter.export(Batch(spans, (rated,)))
    assert not collector.spans, "the app's own provider sends them"
    (document,) = collector.posted[1][1]["data"]
    assert (document["span_id"], document["document_position"]) == ("3" * 16, 0)
    assert document["result"] == {"label": "yes", "score": 1.0, "explanation": "r"}
    exporter.close(1.0)


def test_only_so_many_traces_are_remembered():
    """The memory of retrievals is bounded."""
    seen = Retrievals()
    for number in range(Retrievals.MAX_TRACES + 10):
        seen.note(
            SpanData(f"{number:032x}", WORKFLOW, None, "r", "retrieval", 1, 2, retrieved_context=())
        )
    assert seen.find("0" * 32, WORKFLOW, 0) is None
    assert seen.find(f"{number:032x}", WORKFLOW, 0) == WORKFLOW


def test_mlflow_waits_for_a_trace_and_repeats_nothing(collector):
    """404 means not there yet: spans and the other scores are not sent again."""
    collector.pages["/api/2.0/mlflow/experiments/get-by-name"] = EXPERIMENT
    collector.pages["/api/3.0/mlflow/traces/"] = {}
    exporter = MlflowExporter(from_environment({}, mlflow_uri=collector.url))
    batch = Batch((span(WORKFLOW, expected={"expected_facts": ("a", "b")}),), (event(),))
    answers = [(200, {}, b'{"experiment": {"experiment_id": "7"}}'), (200, {}, b"")]
    collector.answers = [*answers, (200, {}, b"{}"), (404, {}, b"")]
    with pytest.raises(ExportError) as caught:
        exporter.export(batch)
    assert caught.value.retryable
    assert (caught.value.reason, caught.value.delivered) == ("not_there_yet", 1)
    assert not exporter.export(batch)
    paths = [path.rpartition("/")[2] for path, _, _ in collector.requests]
    assert paths == [
        "get-by-name?experiment_name=Default", "traces", "assessments", "assessments", "assessments",
    ]  # fmt: skip
    assert collector.requests[1][1]["x-mlflow-experiment-id"] == "7"
    exporter.close(1.0)


def test_mlflow_makes_its_experiment_and_says_who_asks(collector):
    """A name that is not there yet is created; user and password go as they should."""
    collector.pages["/api/2.0/mlflow/experiments/create"] = {"experiment_id": "9"}
    exporter = MlflowExporter(
        from_environment(
            {},
            mlflow_uri=collector.url, mlflow_experiment="new one", mlflow_username="u",
            mlflow_password=Secret("p"),
        )
    )  # fmt: skip
    assert not exporter.export(Batch((span(WORKFLOW),)))
    assert collector.posted[0][1] == {"name": "new one"}
    about = collector.requests[-1][1]
    assert about["x-mlflow-experiment-id"] == "9"
    assert about["authorization"] == f"Basic {base64.b64encode(b'u:p').decode()}"
    exporter.close(1.0)


def test_a_score_without_a_span_is_refused_and_counted(collector):
    """Both APIs need something to hang a score on."""
    llmeval.configure(exporters=["phoenix"], phoenix_endpoint=collector.url)
    llmeval.submit_evaluation(label="nice", value=1.0)
    stats = runtime.flush(10).exporters["phoenix"]
    assert stats.dropped == {"no_target": 1}
    assert stats.balanced


def decided(**more):
    evaluation = Evaluation(
        "polite", "yes", evaluator_kind="decision", probability=0.875,
        metadata={"model": "luna", "threshold": 0.5}, **more,
    )  # fmt: skip
    return EvaluationEvent(f"{WORKFLOW}-polite-decision", TARGET, evaluation, 1)


def test_phoenix_keeps_what_both_kinds_of_models_say_apart(collector):
    """A decision has its probability, and does not replace the judge's rating of that name."""
    collector.pages["/v1/span_annotations"] = {}
    exporter = PhoenixExporter(from_environment({}, phoenix_endpoint=collector.url))
    assert not exporter.export(Batch((span(WORKFLOW),), (event(), decided())))
    judge, decision = collector.posted[0][1]["data"]
    assert judge["name"] == decision["name"] == "polite"
    assert judge["identifier"] != decision["identifier"]
    assert decision["annotator_kind"] == "LLM"
    assert decision["metadata"]["probability"] == 0.875
    assert decision["result"]["label"] == "yes"
    exporter.close(1.0)


def test_mlflow_has_the_probability_of_a_decision(collector):
    """In the metadata of the assessment, whose source is the model that answered."""
    collector.pages["/api/2.0/mlflow/experiments/get-by-name"] = EXPERIMENT
    collector.pages["/api/3.0/mlflow/traces/"] = {}
    exporter = MlflowExporter(from_environment({}, mlflow_uri=collector.url))
    assert not exporter.export(Batch((span(WORKFLOW),), (decided(),)))
    assessment = collector.posted[-1][1]["assessment"]
    assert assessment["metadata"]["probability"] == "0.875"
    assert assessment["source"] == {"source_type": "LLM_JUDGE", "source_id": "luna"}
    exporter.close(1.0)
