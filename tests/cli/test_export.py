"""What leaves the store is what went in, whatever the format."""

import json

import pytest

from llmeval_sdk.model import Chunk, Extraction, Failure, Usage
from llmeval_sdk.offline.data.exported import record_of_row
from llmeval_sdk.store.dump import SLICE


DAY = 86_400_000_000_000
START = 1_767_225_600_000_000_000


@pytest.fixture
def filled(store):
    """Three requests a day apart; the second failed, and has scores, a refusal and a label."""
    store.span("01" * 8, request="q1", response="a1")
    span = store.span(
        "02" * 8, start_ns=START + DAY, request={"query": "q2"}, response="a2",
        retrieved_context=(Chunk("text", "a.md", score=0.5),), usage=Usage(3, 4),
        error=Failure("ValueError", "no"), expected={"expected_response": "a two"},
    )  # fmt: skip
    store.evaluation(span, "precision", 0.25, explanation="why")
    store.evaluation(span, "polite", "yes", evaluator_kind="judge")
    store.evaluation(span, "broken", None, error=Failure("timeout", "late"))
    store.evaluation(span, "thumbs", True, evaluator_kind="human")
    store.not_run(span, "correctness", "sampled_out")
    store.span("03" * 8, name="other", start_ns=START + 2 * DAY, inclusion_probability=0.25)
    return store


def lines(done):
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_line_holds_a_span_and_all_that_was_said_of_it(llmeval, filled):
    """Absent fields are left out; evaluations, refusals and feedback stand with their span."""
    found = lines(llmeval("export", "--store", filled.path))
    assert [each["span_id"] for each in found] == ["01" * 8, "02" * 8, "03" * 8]
    row = found[1]
    assert row["request"] == {"query": "q2"}
    assert row["retrieved_context"] == [{"content": "text", "doc_uri": "a.md", "score": 0.5}]
    assert row["expected_response"] == "a two"
    assert row["error"] == {"type": "ValueError", "message": "no"}
    assert row["start_time"] == "2026-01-02T00:00:00+00:00"
    assert found[2]["inclusion_probability"] == 0.25
    assert "inclusion_probability" not in row
    assert {each["name"]: each.get("value") for each in row["evaluations"]} == {
        "precision": 0.25, "polite": "yes", "broken": None,
    }  # fmt: skip
    assert [(each["evaluator"], each["reason"]) for each in row["not_run"]] == [
        ("correctness", "sampled_out")
    ]
    assert [(each["name"], each["value"]) for each in row["feedback"]] == [("thumbs", True)]
    assert not {"evaluations", "not_run", "feedback", "error", "usage"} & set(found[0])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--since", "2026-01-02"], ["02", "03"]),
        (["--until", "2026-01-02"], ["01"]),
        (["--since", "2026-01-02", "--span-name", "extract_field"], ["02"]),
        (["--span-name", "nothing"], []),
    ],
)
def test_only_what_is_asked_for_is_exported(llmeval, filled, options, expected):
    """By time and by name of the span."""
    found = lines(llmeval("export", "--store", filled.path, *options, TZ="UTC"))
    assert [each["span_id"][:2] for each in found] == expected


def test_every_slice_of_a_larger_store_comes_once(llmeval, store):
    """Reading goes on where the last slice ended."""
    for number in range(2 * SLICE + 1):
        store.span(f"{number:016x}")
    found = lines(llmeval("export", "--store", store.path))
    assert [int(each["span_id"], 16) for each in found] == list(range(2 * SLICE + 1))


def test_parquet_has_a_column_for_each_evaluator(llmeval, filled, tmp_path):
    """Scores and yes/no are numbers; what failed or did not run is null; nested is JSON."""
    parquet = pytest.importorskip("pyarrow.parquet")
    done = llmeval("export", "--store", filled.path, "--out", "spans.parquet")
    assert (done.returncode, done.stdout) == (0, "")
    found = parquet.read_table(tmp_path / "spans.parquet").to_pylist()
    row = found[1]
    assert (row["score_precision"], row["score_polite"], row["score_broken"]) == (0.25, 1.0, None)
    assert found[0]["score_precision"] is None
    assert (row["input_tokens"], row["error_type"], row["response"]) == (3, "ValueError", "a2")
    assert row["start_time"].isoformat() == "2026-01-02T00:00:00+00:00"
    assert json.loads(row["request"]) == {"query": "q2"}
    assert json.loads(row["retrieved_context"])[0]["content"] == "text"
    assert json.loads(row["feedback"])[0]["name"] == "thumbs"
    assert [each["inclusion_probability"] for each in found] == [None, None, 0.25]


def test_otlp_holds_spans_and_then_their_scores(llmeval, filled, tmp_path):
    """A line of spans, a line of log records with the ids of what they are about."""
    assert llmeval(
        "export", "--store", filled.path, "--format", "otlp", "--out", "o.jsonl"
    ).returncode == 0  # fmt: skip
    traces, logs = map(json.loads, (tmp_path / "o.jsonl").read_text().splitlines())
    spans = traces["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert [span["spanId"][:2] for span in spans] == ["01", "02", "03"]
    records = logs["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    assert len(records) == 4
    assert {record["spanId"] for record in records} == {"02" * 8}


def test_parquet_on_standard_output_is_refused(llmeval, filled):
    """The message says what to pass."""
    done = llmeval("export", "--store", filled.path, "--format", "parquet")
    assert done.returncode == 2
    assert "--out FILE" in done.stderr


@pytest.fixture
def traced(store):
    """A workflow whose retrieval, model call and extraction step are spans below it."""
    at = {"trace_id": "ab" * 16}
    root = store.span("0a" * 8, name="answer", request="roof?", response="slate", **at)
    store.span(
        "0b" * 8, name="search", kind="retrieval", parent_id=root.span_id, request="roof?",
        retrieved_context=(Chunk("The roof is slate.", "a.md", score=0.5),), **at,
    )  # fmt: skip
    store.span(
        "0c" * 8, name="ask", kind="llm", parent_id=root.span_id, response="slate",
        usage=Usage(3, 4, 7), **at,
    )  # fmt: skip
    store.span("0d" * 8, name="broken", request="wall?", error=Failure("ValueError", "no"))
    return store


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_what_is_exported_evaluates_as_it_did_live(llmeval, traced, tmp_path, form):
    """A workflow's row has the chunks of its retrieval; its parts are no rows by themselves."""
    if form == "parquet":
        pytest.importorskip("pyarrow")
    out = tmp_path / f"day.{form}"
    assert llmeval("export", "--store", traced.path, "--out", out).returncode == 0
    names = "context_relevance,total_token_count,latency_seconds"
    done = llmeval("evaluate", out, "--evaluators", names, "--json", "--save", tmp_path / "r.jsonl")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["rows"], told["skipped"]) == (2, 0)
    assert told["metrics"]["context_relevance/average"] == 0.25
    assert told["metrics"]["agent/total_token_count/average"] == 7
    assert told["counts"]["latency_seconds"]["evaluated"] == 2
    done = llmeval("evaluate", out, "--json", "--save", tmp_path / "r.jsonl")
    told = json.loads(done.stdout)
    assert (told["rows"], told["skipped"]) == (1, 1), "the app raised on the other"


def test_parts_of_a_workflow_that_is_not_exported_are_rows(llmeval, traced, tmp_path):
    """Where only retrievals were asked for, they are what is evaluated."""
    out = tmp_path / "day.jsonl"
    llmeval("export", "--store", traced.path, "--span-name", "search", "--out", out)
    names = ("--evaluators", "context_relevance", "--save", tmp_path / "r.jsonl", "--json")
    told = json.loads(llmeval("evaluate", out, *names).stdout)
    assert told["counts"]["context_relevance"]["evaluated"] == 1


def test_tokens_of_a_trace_are_summed_once(llmeval, traced):
    """What the spans below a workflow used stands apart from what a span used itself."""
    rows = {each["name"]: each for each in lines(llmeval("export", "--store", traced.path))}
    assert "usage" not in rows["answer"]
    assert rows["answer"]["total_usage"] == {
        "input_tokens": 3,
        "output_tokens": 4,
        "total_tokens": 7,
    }
    assert rows["answer"]["retrieved_context"][0]["content"] == "The roof is slate."
    assert rows["search"]["within"] == rows["answer"]["span_id"]


@pytest.mark.parametrize("value", [0, 0.0, False, "", "0", [], {}, [0], {"roof": None}], ids=repr)
def test_parquet_keeps_every_value_that_json_lines_keep(llmeval, store, tmp_path, value):
    """Zero, false and empty are values; a table that drops them changes what evaluators see."""
    parquet = pytest.importorskip("pyarrow.parquet")
    store.span(
        "0a" * 8, request="roof?", response="slate", value=value, confidence=0.0,
        extractions=(Extraction(0, 1, 0.0), Extraction(False, 2)),
        retrieved_context=(Chunk("The roof is slate.", "a.md", score=0.0),),
    )  # fmt: skip
    store.span("0b" * 8, request="wall?", response="none", extractions=(), retrieved_context=())
    seen = {}
    for form in ("jsonl", "parquet"):
        out = tmp_path / f"day.{form}"
        assert llmeval("export", "--store", store.path, "--out", out).returncode == 0
        rows = (
            parquet.read_table(out).to_pylist()
            if form == "parquet"
            else [json.loads(line) for line in out.read_text("utf-8").splitlines()]
        )
        seen[form] = [record_of_row(row, "here") for row in rows]
    assert seen["parquet"] == seen["jsonl"]
    first, second = seen["parquet"]
    assert (first.value, type(first.value)) == (value, type(value))
    assert (first.confidence, first.extractions[1].value) == (0.0, False)
    assert second.extractions == second.retrieved_context == ()


def test_parquet_has_the_ground_truth_of_the_steps_below(llmeval, store, tmp_path):
    """A workflow takes what a step below it was told to expect, in every format."""
    parquet = pytest.importorskip("pyarrow.parquet")
    root = store.span("0a" * 8, request="roof?", response="slate")
    store.span("0b" * 8, kind="task", parent_id=root.span_id, expected={"expected_response": "tin"})
    out = tmp_path / "day.parquet"
    llmeval("export", "--store", store.path, "--out", out)
    row = parquet.read_table(out).to_pylist()[0]
    assert record_of_row(row, "here").expected_response == "tin"


@pytest.mark.parametrize("form", ["jsonl", "parquet", "otlp"])
def test_a_probability_is_exported(llmeval, store, tmp_path, form):
    """With the evaluation, in Parquet also as a column of its own."""
    span = store.span("01" * 8)
    store.evaluation(span, "polite", "yes", evaluator_kind="decision", probability=0.875)
    store.evaluation(span, "precision", 0.25)
    out = tmp_path / f"day.{form}"
    done = llmeval("export", "--store", store.path, "--format", form, "--out", out)
    assert done.returncode == 0, done.stderr
    if form == "parquet":
        parquet = pytest.importorskip("pyarrow.parquet")
        (row,) = parquet.read_table(out).to_pylist()
        assert row["probability_polite"] == 0.875
        assert "probability_precision" not in row
    elif form == "jsonl":
        row = json.loads(out.read_text())
        polite = next(each for each in row["evaluations"] if each["name"] == "polite")
        assert (polite["probability"], polite["evaluator_kind"]) == (0.875, "decision")
    else:
        assert '"llmeval.evaluation.probability","value":{"doubleValue":0.875}' in (
            out.read_text().replace(" ", "")
        )
