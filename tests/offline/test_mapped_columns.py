"""Columns of public data sets are mapped to ours, and what is unknown is named all at once."""

from __future__ import annotations

import json

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.cli import main
from llmeval_sdk.errors import ConfigurationError, DataError
from llmeval_sdk.offline import estimate_cost
from llmeval_sdk.offline.data import record
from llmeval_sdk.offline.data.source import open_data


ROWS = [
    {"question": "What is the roof made of?", "answer": "Slate.", "golden": "Slate.", "title": "x"},
    {"question": "And the walls?", "answer": "Brick.", "golden": "Clay.", "title": "y"},
]
MAP = {"question": "request", "answer": "response", "golden": "expected_response"}


def test_mapped_columns_are_read_as_ours():
    """The other columns stay attributes; rows are not changed."""
    before = json.dumps(ROWS)
    report = llmeval.evaluate(ROWS, evaluators=["exact_match"], map_columns=MAP)
    assert report.metrics["exact_match/average"] == 0.5
    assert report.rows[0].record.request == ROWS[0]["question"]
    assert report.rows[0].record.attributes == {"title": "x"}
    assert json.dumps(ROWS) == before


def test_all_kinds_of_data_are_mapped(tmp_path):
    """A CSV file, a frame, and a Hugging Face data set are rows like others."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ROWS)
    frame.to_csv(tmp_path / "data.csv", index=False)
    for data in (frame, tmp_path / "data.csv", iter(ROWS)):
        report = llmeval.evaluate(data, evaluators=["exact_match"], map_columns=MAP)
        assert report.metrics["exact_match/average"] == 0.5


def test_the_command_maps_too(write, capsys):
    """`--map THEIRS=OURS`, as often as there are columns."""
    maps = [word for theirs, ours in MAP.items() for word in ("--map", f"{theirs}={ours}")]
    path = str(write(ROWS))
    run = ["evaluate", path, "--evaluators", "exact_match", "--json", *maps]
    assert main(run) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["exact_match/average"] == 0.5
    assert main([*run, "--estimate"]) == 0


def test_data_that_cannot_be_read_leave_the_earlier_report_alone(tmp_path):
    """A forgotten `--map` must not take a baseline away."""
    saved = tmp_path / "baseline.jsonl"
    llmeval.evaluate(ROWS, evaluators=["exact_match"], map_columns=MAP, save=saved)
    before = saved.read_bytes()
    with pytest.raises(DataError, match="unknown columns"):
        llmeval.evaluate(ROWS, evaluators=["exact_match"], save=saved)
    assert saved.read_bytes() == before
    with pytest.raises(DataError):
        llmeval.evaluate(ROWS, evaluators=["exact_match"], save=tmp_path / "new.jsonl")
    assert not (tmp_path / "new.jsonl").exists()


def test_all_unknown_columns_are_named_at_once(write, capsys):
    """With what was probably meant, in the words to pass."""
    with pytest.raises(DataError) as error:
        llmeval.evaluate([{"question": "q", "answer": "a", "retrieved_contxt": [], "title": "t"}])
    for word in ("'question'", "'request'", "'answer'", "'response'", "'retrieved_contxt'",
                 "'retrieved_context'", "--map question=request --map answer=response",
                 "would be kept as attributes, unless mapped: 'title'"):  # fmt: skip
        assert word in str(error.value)


def test_a_map_names_all_that_is_wrong_with_it():
    """Columns that we lack and columns that the data lacks, each with its nearest one."""
    with pytest.raises(ConfigurationError) as ours:
        llmeval.evaluate(ROWS, map_columns={"question": "reqest", "answer": "respons"})
    assert "'request'" in str(ours.value)
    assert "'response'" in str(ours.value)
    with pytest.raises(DataError) as theirs:
        llmeval.evaluate(ROWS, map_columns={"qestion": "request", "anser": "response"})
    assert "'question'" in str(theirs.value)
    assert "'answer'" in str(theirs.value)
    with pytest.raises(ConfigurationError, match="twice"):
        llmeval.evaluate(ROWS, map_columns={"question": "request", "title": "request"})


def test_a_column_of_that_name_is_not_overwritten():
    """A row that has both says which, and nothing is guessed."""
    with pytest.raises(DataError, match="'request'"):
        llmeval.evaluate([{"question": "q", "request": "r"}], map_columns={"question": "request"})


def test_a_column_may_be_absent_in_some_rows(write):
    """JSON lines leave out what is null: the first rows together say what columns there are."""
    rows = [{"question": "q", "answer": "a"}, {**ROWS[0]}]
    report = llmeval.evaluate(write(rows), evaluators=["exact_match"], map_columns=MAP)
    assert report.counts["exact_match"]["evaluated"] == 1


def test_looking_for_columns_reads_few_rows():
    """An endless stream is not read to its end before its first row is evaluated."""
    read = []

    def rows():
        for number in range(10 * record.MAX_ROWS_LOOKED_AT):
            read.append(number)
            yield ROWS[0]

    opened = record.mapped(open_data(rows()), {"question": "request"})
    next(opened.rows)
    assert len(read) <= record.MAX_ROWS_LOOKED_AT


def test_an_estimate_maps_as_the_run_does():
    """Both take the same rows."""
    estimate = estimate_cost(ROWS, evaluators=["exact_match"], map_columns=MAP)
    assert estimate.rows == 2


def test_a_map_that_is_no_pair_is_refused(write, capsys):
    """The message shows the form."""
    with pytest.raises(SystemExit):
        main(["evaluate", str(write(ROWS)), "--map", "question"])
    assert "THEIRS=OURS" in capsys.readouterr().err
