"""Exporters receive an offline run, apart from what is online."""

from __future__ import annotations

import json

import pytest
from doubles import Exporter
from otlp_collector import running_collector
from summaries import score_summary

import llmeval_sdk as llmeval
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.testing import FakeLLM


NAMES = ["document_recall", "context_relevance", "correctness"]


def test_each_row_is_a_span_with_its_scores(rows):
    """Rows that were answered before get a span too; verdicts are joined on it."""
    taken = Exporter()
    report = llmeval.evaluate(
        rows, evaluators=NAMES, llm=FakeLLM(), exporters=[taken], experiment="Nightly run"
    )
    assert [span.name for span in taken.spans] == ["nightly-run"] * 6
    assert all(span.tags["experiment"] == "nightly-run" for span in taken.spans)
    assert {span.request for span in taken.spans} == {row["request"] for row in rows}
    assert len(taken.evaluations) == 18
    spans = {span.span_id for span in taken.spans}
    assert all(event.target.span_id in spans for event in taken.evaluations)
    account = report.delivery["double"]
    assert (account.created, account.delivered, account.undelivered) == (24, 24, 0)


def test_the_apps_spans_stand_below_the_rows(rows):
    """With `model=` the whole trace is exported."""
    taken = Exporter()

    @llmeval.workflow
    def answer(request):
        return "slate"

    llmeval.evaluate(
        rows, model=answer, evaluators=["correctness"], llm=FakeLLM(), exporters=[taken]
    )
    roots = {span.span_id for span in taken.spans if span.name == "offline-rows"}
    assert len(roots) == 6
    assert {span.parent_id for span in taken.spans if span.name == "answer"} == roots
    assert sum(event.evaluation.name == "correctness" for event in taken.evaluations) == 6


def test_the_local_store_of_experiments_is_a_file_of_its_own(rows, tmp_path):
    """What `llmeval report` says of live traffic is not mixed with golden sets."""
    llmeval.evaluate(rows, evaluators=NAMES[:2], exporters=["local"])
    assert not (tmp_path / "store" / "llmeval.db").exists()
    with StoreReader(tmp_path / "store" / "experiments.db") as reader:
        assert reader.counts().evaluations == 12
        assert {each.span_name for each in score_summary(reader)} == {"offline-rows"}


def test_otlp_bears_the_experiments_name(rows, monkeypatch):
    """The service is the experiment, so no dashboard of the app counts it."""
    with running_collector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
        llmeval.evaluate(rows, evaluators=NAMES[:1], exporters=["otlp"], experiment="golden")
        said = json.dumps(collector.resources, default=str)
    assert "golden" in said
    assert "shop" not in said


def test_nothing_is_exported_unasked(rows, monkeypatch, tmp_path):
    """Backends in the environment are for the app, not for every evaluate()."""
    monkeypatch.setenv("LLMEVAL_EXPORTERS", "local")
    llmeval.evaluate(rows, evaluators=NAMES[:1])
    llmeval.evaluate(rows, model=lambda request: "r", evaluators=["latency_seconds"])
    assert not list(tmp_path.rglob("*.db"))


def test_many_rows_are_all_delivered():
    """More than a queue holds: delivery is waited for, nothing is dropped."""
    taken = Exporter()
    rows = [{"request": f"q{n}", "usage": {"input_tokens": n}} for n in range(3_000)]
    report = llmeval.evaluate(
        rows, evaluators=["total_token_count"], exporters=[taken], progress=False
    )
    assert taken.received == 6_000
    assert report.delivery["double"].dropped == {}


def test_an_unknown_exporter_is_told(rows):
    """Loud where a person is watching."""
    with pytest.raises(llmeval.errors.ConfigurationError, match="unknown exporter"):
        llmeval.evaluate(rows, evaluators=NAMES[:1], exporters=["nowhere"])
