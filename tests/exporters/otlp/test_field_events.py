"""The score of each field of an answer reaches backends where that is asked for."""

import json

import pytest
from otlp_collector import attributes_of

import llmeval_sdk as llmeval
from llmeval_sdk import cli
from llmeval_sdk.exporters.batches import ExportStep, Progress
from llmeval_sdk.exporters.otlp.attributes import part_events
from llmeval_sdk.model import Batch, Evaluation, EvaluationEvent, Target
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.process.shield import caught


DOCUMENT = "Invoice 4711\nWidget  12.00\nGadget  30.00\nTotal due: 42.00 EUR"
ANSWER = {"number": "4711", "lines": [{"amount": "12.00"}, {"amount": "39.99"}], "total": "42.00"}


def answer():
    """Trace an answer of four fields."""
    with llmeval.workflow("read_invoice") as span:
        span.annotate(value=ANSWER, retrieved_context=[DOCUMENT])


def event(*entries):
    """Make the event of an evaluation with these entries of fields."""
    evaluation = Evaluation("extraction_risk", 0.5, metadata={"fields": list(entries)})
    return EvaluationEvent(
        "e", Target("ab" * 16, "01" * 8, "read_invoice", "workflow"), evaluation, 5
    )


def scores_in(collector):
    """Return the events that the collector got, as pairs of name and attributes."""
    found = [attributes_of(one) for one in collector.logs]
    return [(one["gen_ai.evaluation.name"], one) for one in found]


def test_each_field_is_sent_with_its_name_where_that_is_asked_for(collector):
    """All items of a list are one field, so that a long list makes no new names."""
    llmeval.configure(
        exporters=["otlp"], otlp_endpoint=collector.url, escalations=[], export_fields=True
    )
    answer()
    stats = runtime.flush(20).exporters["otlp"]
    assert stats.delivered == stats.created
    fields = [one for name, one in scores_in(collector) if name == "extraction_risk.field"]
    assert sorted(one["llmeval.field"] for one in fields) == [
        "lines.amount", "lines.amount", "number", "total",
    ]  # fmt: skip
    (whole,) = [one for name, one in scores_in(collector) if name == "extraction_risk"]
    worst = max(one["gen_ai.evaluation.score.value"] for one in fields)
    assert worst == whole["gen_ai.evaluation.score.value"]


def test_only_the_answer_is_sent_by_default(collector):
    """Each further score costs money at a backend."""
    llmeval.configure(exporters=["otlp"], otlp_endpoint=collector.url, escalations=[])
    answer()
    runtime.flush(20)
    names = [name for name, _ in scores_in(collector)]
    assert "extraction_risk" in names
    assert "extraction_risk.field" not in names


@pytest.mark.parametrize(
    "entry", [None, 7, {}, {"path": 3, "chance": 0.5}, {"path": "a", "chance": None},
              {"path": "a", "chance": True}, {"path": "a", "chance": 7},
              {"path": "a", "chance": float("nan")}],
)  # fmt: skip
def test_what_is_no_score_of_a_field_has_no_event(entry):
    """An evaluator of the app may keep anything under that name."""
    assert part_events([event(entry)], fields=True) == []


def test_the_hundred_riskiest_fields_are_sent():
    """However many an answer has."""
    many = [{"path": f"f{n}", "chance": n / 1_000} for n in range(300)]
    sent = part_events([event(*many)], fields=True)
    assert [one.evaluation.metadata["path"] for one in sent] == [
        f"f{n}" for n in range(299, 199, -1)
    ]
    assert len({one.id for one in sent}) == 100


def test_scores_of_fields_that_a_backend_refuses_are_counted():
    """They are in no account of records, and still not lost silently."""
    before = caught.snapshot().get("additions to records: http_403", 0)
    progress = Progress(Batch())
    progress.settle(ExportStep(print, [b"1", b"2"], counted=False), "http_403")
    assert caught.snapshot()["additions to records: http_403"] == before + 2
    assert (progress.delivered, progress.refused.total()) == (0, 0)


def test_export_writes_them_too(tmp_path, monkeypatch, capsys):
    """`llmeval export --format otlp` sends what the app would have sent."""
    store = tmp_path / "store.db"
    llmeval.configure(exporters=["local"], store=str(store), escalations=[])
    answer()
    llmeval.shutdown()
    monkeypatch.setenv("LLMEVAL_EXPORT_FIELDS", "true")
    assert cli.main(["export", "--store", str(store), "--format", "otlp"]) == 0
    written = capsys.readouterr().out
    assert written.count("extraction_risk.field") >= 4
    assert all(json.loads(line) for line in written.splitlines())
