"""The evaluators as a function of Arrow tables, for engines that bring their own way of reading."""

import pickle

import pytest
from golden import golden

import llmeval_sdk as llmeval
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.offline import BatchEvaluator


pa = pytest.importorskip("pyarrow")
RECALL = "retrieval/ground_truth/document_recall"


@llmeval.heuristic(name="torn")
def torn(record) -> float:
    """Fail on one row, and give a text where a number is declared on another."""
    if record.request_id == "q1":
        raise ValueError("poison")
    return "much" if record.request_id == "q2" else 0.5


def test_a_table_comes_back_with_a_row_for_each_row():
    """In their order, with the values of `evaluate`, and of the schema that was promised."""
    table = pa.Table.from_pylist(golden())
    evaluate = BatchEvaluator(["document_recall", "context_relevance"])
    out = evaluate(table)
    assert out.schema == evaluate.schema
    assert out["request_id"].to_pylist() == [f"q{n}" for n in range(6)]
    report = llmeval.evaluate(golden(), evaluators=["document_recall", "context_relevance"])
    assert out[RECALL].to_pylist() == [
        row.evaluations["document_recall"].value for row in report.rows
    ]


def test_any_cut_of_a_table_gives_the_same_rows():
    """Batches of one row too, and an id that appears in each of them."""
    rows = [{**row, "request_id": "same"} for row in golden()]
    table = pa.Table.from_pylist(rows)
    evaluate = BatchEvaluator(["document_recall", "context_relevance"])
    whole = evaluate(table)
    parts = [evaluate(batch) for batch in table.to_batches(max_chunksize=1)]
    assert pa.concat_tables(parts).to_pylist() == whole.to_pylist()
    assert whole["problem"].to_pylist() == [None] * 6


def test_what_is_wrong_with_a_row_is_told_beside_it():
    """A row that cannot be read, an evaluator that raises, and a value of the wrong type."""
    rows = [{**row, "expected_facts": None} for row in golden(4)]
    rows[3]["expected_facts"] = ["both"]
    out = BatchEvaluator(["document_recall", torn])(pa.Table.from_pylist(rows)).to_pylist()
    assert [row["torn"] for row in out] == [0.5, None, None, None]
    assert [row["request_id"] for row in out] == ["q0", "q1", "q2", "q3"]
    assert out[0]["errors"] is None
    assert "torn: ValueError: poison" in out[1]["errors"][0]
    assert "torn" in out[2]["errors"][0]
    assert "expected_facts or expected_response" in out[3]["problem"]
    assert out[3][RECALL] is None


def test_a_text_that_is_no_unicode_ends_nothing():
    """JSON may bring half a character."""
    row = {**golden(1)[0], "request_id": "a"}

    @llmeval.heuristic(name="half")
    def half(record) -> str:
        return "\ud83d"

    out = BatchEvaluator([half])(pa.Table.from_pylist([row]))
    assert out["half"].to_pylist() == ["\\ud83d"]


def test_it_goes_to_other_processes_by_pickle():
    """And loads its evaluators there."""
    evaluate = pickle.loads(pickle.dumps(BatchEvaluator(["document_recall"])))
    assert evaluate(pa.Table.from_pylist(golden())).num_rows == 6


def test_an_empty_table_gives_an_empty_table():
    """Of the same schema."""
    evaluate = BatchEvaluator(["document_recall"])
    out = evaluate(pa.Table.from_pylist(golden()).slice(0, 0))
    assert (out.num_rows, out.schema) == (0, evaluate.schema)


def test_judges_run_in_each_call(judge):
    """Over HTTP; a second call makes a new event loop."""
    evaluate = BatchEvaluator(["correctness"], llm="stand-in", cache=False)
    table = pa.Table.from_pylist(golden())
    first, second = evaluate(table), evaluate(table)
    assert judge.calls == 12
    assert first.to_pylist() == second.to_pylist()
    ratings = first["response/llm_judged/correctness/rating"].to_pylist()
    assert set(ratings) == {"yes", "no"}


@pytest.mark.parametrize("evaluators", [[], "document_recall", ["document_recal"]])
def test_wrong_evaluators_are_refused_at_once(evaluators):
    """Before any table is there."""
    with pytest.raises(ConfigurationError):
        BatchEvaluator(evaluators)
