"""Every evaluator that ran has all its columns, with the same types, whatever it found."""

from __future__ import annotations

import json

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.offline.report.report import Report
from llmeval_sdk.testing import FakeLLM


pd = pytest.importorskip("pandas")

ROW = {
    "request": "What is the roof made of?",
    "response": "slate",
    "expected_response": "slate",
    "retrieved_context": [{"content": "The roof is slate.", "doc_uri": "d"}],
    "expected_retrieved_context": [{"doc_uri": "d"}],
    "usage": {"input_tokens": 7, "output_tokens": 5, "total_tokens": 12},
}
CHUNKS = "retrieval/llm_judged/chunk_relevance"
RATED = "response/llm_judged/correctness"


def good(messages):
    if "Task: context_recall/" in messages[0].content:
        return {"reason": "seen", "context_recall_score": 0.5}
    return {"rationale": "seen", "rating": "yes"}


def evaluated(rows, names, llm=None):
    return llmeval.evaluate(rows, evaluators=names, llm=llm or FakeLLM(good))


def test_a_clean_run_has_the_columns_of_a_failed_one():
    """With the same types: ``error_message`` where nothing erred, ratings where everything did."""
    names = ["correctness", "chunk_relevance", "context_recall", "document_recall"]
    llms = (FakeLLM(good), FakeLLM("nonsense"))
    clean, failed = (evaluated([ROW], names, llm).to_pandas() for llm in llms)
    assert list(clean.columns) == list(failed.columns)
    judged = [name for name in clean if "/" in name]
    assert {name: str(clean[name].dtype) for name in judged} == {
        name: str(failed[name].dtype) for name in judged
    }
    assert {f"{RATED}/rating", f"{RATED}/rationale", f"{RATED}/error_message"} <= set(judged)
    assert {f"{CHUNKS}/{key}" for key in ("ratings", "rationales", "error_messages")} < set(judged)
    assert str(failed[f"{CHUNKS}/precision"].dtype) == "float64"
    assert failed[f"{RATED}/rating"].isna().all()
    assert failed[f"{RATED}/error_message"].notna().all()


def test_score_judges_have_their_rationale_and_error():
    """Beside the score, which stands under the judge's own name."""
    frame = evaluated([ROW], ["context_recall"]).to_pandas()
    assert frame.loc[1, "context_recall"] == 0.5
    assert frame.loc[1, "context_recall/rationale"] == "seen"
    assert frame["context_recall/error_message"].isna().all()
    failed = evaluated([ROW], ["context_recall"], FakeLLM("nonsense")).to_pandas()
    assert str(failed["context_recall"].dtype) == "float64"
    assert failed["context_recall/error_message"].notna().all()


def test_a_chunk_judge_without_inputs_stays_in_its_branch():
    """Also one of the app's own, which no row had chunks for."""

    @llmeval.judge(per="chunk")
    def on_topic(record: llmeval.Record, chunk: llmeval.Chunk, llm: llmeval.LLM) -> bool:
        return True

    bare = {"request": "q", "response": "r"}
    frame = evaluated([bare], [on_topic, "chunk_relevance"]).to_pandas()
    for name in ("on_topic", "chunk_relevance"):
        base = f"retrieval/llm_judged/{name}"
        assert frame[f"{base}/ratings"].isna().all()
        assert str(frame[f"{base}/precision"].dtype) == "float64"
        assert not [each for each in frame if each.startswith(f"response/llm_judged/{name}")]


def test_token_counts_are_integers():
    """In the frame, with and without gaps, and in the saved file."""
    names = ["total_token_count", "total_input_token_count", "latency_seconds"]
    bare = {"request": "q", "response": "r"}
    frame = evaluated([ROW, bare], names).to_pandas()
    assert str(frame["agent/total_token_count"].dtype) == "Int64"
    assert frame.loc[1, "agent/total_token_count"] == 12
    assert frame["agent/total_token_count"].isna().loc[2]
    assert str(frame["agent/latency_seconds"].dtype) == "float64"
    assert str(evaluated([bare], names).to_pandas()["agent/total_token_count"].dtype) == "Int64"


def test_own_evaluators_have_the_type_that_they_return():
    """Told from the function, so that it does not depend on the rows."""

    @llmeval.heuristic
    def is_short(record: llmeval.Record) -> bool:
        return len(record.response or "") < 9

    @llmeval.judge
    def tone(record: llmeval.Record, llm: llmeval.LLM) -> float:
        raise ValueError("no")

    frame = evaluated([ROW], [is_short, tone]).to_pandas()
    assert str(frame["is_short"].dtype) == "boolean"
    assert str(frame["tone"].dtype) == "float64"
    assert frame.loc[1, "tone/error_message"] == "no"


def test_parquet_keeps_the_columns_and_types(tmp_path):
    """Of a clean run, in which a column of errors holds nothing."""
    parquet = pytest.importorskip("pyarrow.parquet")
    names = ["correctness", "chunk_relevance", "total_token_count", "semantic_validation"]
    evaluated([ROW], names).to_pandas().to_parquet(tmp_path / "rows.parquet")
    types = {
        field.name: str(field.type) for field in parquet.read_schema(tmp_path / "rows.parquet")
    }
    assert types[f"{RATED}/error_message"] in {"string", "large_string"}
    assert types["agent/total_token_count"] == "int64"
    assert types[f"{CHUNKS}/precision"] == "double"
    assert f"{CHUNKS}/error_messages" in types


def test_the_saved_lines_have_all_fields_of_every_evaluation(tmp_path):
    """As null where there is none; counts are whole numbers; what is read back is the same."""
    path = tmp_path / "report.jsonl"
    report = evaluated([ROW], ["correctness", "context_recall", "total_token_count"])
    report.save(path)
    row = json.loads(path.read_text().splitlines()[1])
    assert all({"value", "explanation", "error"} <= set(each) for each in row["evaluations"])
    by_name = {each["name"]: each for each in row["evaluations"]}
    assert json.dumps(by_name["total_token_count"]["value"]) == "12"
    assert by_name["correctness"]["error"] is None
    loaded = Report.load(path)
    assert list(loaded.rows) == list(report.rows)
    assert list(loaded.to_pandas().columns) == list(report.to_pandas().columns)


def test_a_report_saved_before_outputs_were_known_is_read(tmp_path):
    """They are told from its rows."""
    path = tmp_path / "report.jsonl"
    evaluated([ROW], ["correctness", "chunk_relevance"]).save(path)
    header, _, rest = path.read_text().partition("\n")
    old = {key: value for key, value in json.loads(header).items() if key != "outputs"}
    path.write_text(f"{json.dumps(old, separators=(',', ':'))}\n{rest}")
    loaded = Report.load(path)
    assert f"{CHUNKS}/ratings" in loaded.to_pandas()
    assert loaded.below({f"{RATED}/rating/percentage": 0.5}) == {}


SCHEMA_ALIASES = {
    f"{CHUNKS}_precision": f"{CHUNKS}/precision",
    "agent/input_token_count": "agent/total_input_token_count",
    "agent/output_token_count": "agent/total_output_token_count",
}
"""What one of two documents calls a value -> what the other one does."""
METRICS = {
    f"{CHUNKS}_precision": f"{CHUNKS}/precision/average",
    "agent/input_token_count": "agent/input_token_count/average",
    "agent/output_token_count": "agent/output_token_count/average",
}


@pytest.fixture(scope="module")
def counted():
    """Return a report with every value that two documents call differently."""
    names = ["chunk_relevance", "total_input_token_count", "total_output_token_count"]
    return evaluated([ROW], names)


@pytest.mark.parametrize(("alias", "column"), SCHEMA_ALIASES.items())
def test_a_value_has_a_column_under_the_name_of_each_document(counted, alias, column):
    """Both hold the same, with the same type."""
    frame = counted.to_pandas()
    assert frame[alias].tolist() == frame[column].tolist()
    assert frame[alias].dtype == frame[column].dtype
    assert frame[alias].notna().all()


@pytest.mark.parametrize("alias", SCHEMA_ALIASES)
def test_a_metric_is_found_under_the_name_of_each_document(counted, alias):
    """With the end of a metric and without; the metrics themselves are listed once."""
    metric = METRICS[alias]
    assert metric in list(counted.metrics)
    for column in (alias, SCHEMA_ALIASES[alias]):
        for path in (column, f"{column}/average"):
            assert counted.metrics[path] == counted.metrics[metric] == counted.metrics.get(path)
            assert path in counted.metrics
            assert path == metric or path not in list(counted.metrics)
            assert counted.below({path: 0.0}) == {}
            assert list(counted.below({path: 1e9})) == [path]
            assert path in counted.to_markdown(at_least={path: 1e9})


def test_a_metric_that_nobody_has_is_not_found(counted):
    """As in any mapping; so is another name of a metric that this run does not have."""
    assert "no/such/average" not in counted.metrics
    assert counted.metrics.get("no/such/average", 0.5) == 0.5
    bare = evaluated([ROW], ["document_recall"]).metrics
    assert f"{CHUNKS}_precision" not in bare
    for metrics, path in ((counted.metrics, "no/such/average"), (bare, f"{CHUNKS}_precision")):
        with pytest.raises(KeyError, match=path):
            metrics[path]
