"""Data of every kind gives the same report, and bad data is told before a judge is asked."""

from __future__ import annotations

import contextlib
import csv
import itertools
import json
import tracemalloc
from collections import OrderedDict, UserDict, UserList
from collections.abc import Mapping, Sequence

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.cli import main
from llmeval_sdk.errors import ConfigurationError, DataError
from llmeval_sdk.offline.data import source
from llmeval_sdk.offline.report import storage
from llmeval_sdk.process import reading
from llmeval_sdk.testing import FakeLLM


NAMES = ["document_recall", "context_relevance", "semantic_validation"]


@pytest.fixture
def expected(rows):
    return llmeval.evaluate(rows, evaluators=NAMES).metrics


def test_files_give_what_a_list_gives(rows, expected, write, tmp_path):
    """JSON lines, a JSON list, CSV with JSON cells, Parquet."""
    pytest.importorskip("pyarrow")
    import pandas as pd

    whole = tmp_path / "data.json"
    whole.write_text(json.dumps(rows))
    cells = tmp_path / "data.csv"
    with cells.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        for row in rows:
            writer.writerow({k: v if isinstance(v, str) else json.dumps(v) for k, v in row.items()})
    parquet = tmp_path / "data.parquet"
    pd.DataFrame(rows).to_parquet(parquet)
    for path in (write(rows), str(whole), cells, parquet):
        assert llmeval.evaluate(path, evaluators=NAMES).metrics == expected


def test_data_frames_and_iterables_give_what_a_list_gives(rows, expected):
    """pandas, pyarrow, whatever has polars' or a data set's methods, and a generator."""
    pandas = pytest.importorskip("pandas")
    pyarrow = pytest.importorskip("pyarrow")

    class LikePolars:
        def iter_rows(self, *, named):
            return iter(rows) if named else None

    class LikeDataset:
        features: dict = {}
        format = "torch"

        def with_format(self, kind):
            self.format = kind
            return self

        def __len__(self):
            return len(rows)

        def __iter__(self):
            return iter(rows if self.format is None else [{"request": object()}])

    frames = [pandas.DataFrame(rows), pyarrow.Table.from_pylist(rows), LikePolars(), LikeDataset()]
    for data in [*frames, (row for row in rows)]:
        assert llmeval.evaluate(data, evaluators=NAMES).metrics == expected


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"test": []}, "data['test']"),
        (7, "is not a data set"),
        ("nowhere.jsonl", "no such file"),
        ("data.txt", "cannot tell the format"),
        (llmeval.Record(), "[record]"),
    ],
)
def test_what_is_no_data_is_told(data, said):
    """With what to pass in its place."""
    with pytest.raises(ConfigurationError) as told:
        llmeval.evaluate(data)
    assert said in str(told.value)


BAD = {
    "broken": ('{"request": "q" "response": "r"}', "line 2: is not JSON"),
    "no object": ("[1]", "line 2: expected a mapping"),
    "no request": ('{"response": "r"}', "line 2: the column 'request' is missing"),
    "no response": ('{"request": "q"}', "line 2: the column 'response' is missing"),
    "twice": (
        '{"request_id": "q0", "request": "q", "response": "r"}',
        "'q0' appeared in an earlier row",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_line_is_told_before_a_judge_is_asked(kind, rows, write):
    """File and line stand in the message, and nothing was spent."""
    line, said = BAD[kind]
    llm = FakeLLM()
    path = write([rows[0], line, rows[1]])
    with pytest.raises(DataError) as told:
        llmeval.evaluate(path, llm=llm)
    assert str(path) in str(told.value)
    assert said in str(told.value)
    assert llm.calls == []


def test_bad_lines_can_be_skipped_and_are_counted(rows, write):
    """The report says how many and what was wrong with them."""
    path = write([rows[0], *(line for line, _ in BAD.values()), rows[1]])
    report = llmeval.evaluate(path, skip_bad=True)
    assert [row.id for row in report.rows] == ["q0", "q1"]
    assert report.skipped == len(BAD)
    assert any("is not JSON" in problem for problem in report.problems)


def test_a_csv_row_with_a_cell_too_few_is_told_by_line(tmp_path):
    """A comma too many shifts columns; nothing is guessed."""
    path = tmp_path / "data.csv"
    path.write_text('request,response\n"q\nq",r\nq\n')
    with pytest.raises(DataError, match="line 4: has 1 cells where the header has 2"):
        llmeval.evaluate(path)


def test_bytes_that_are_no_text_are_told_by_line(tmp_path):
    """A file in another encoding names the line where it begins to differ."""
    path = tmp_path / "data.jsonl"
    path.write_bytes(b'{"request": "q", "response": "r"}\n{"request": "\xe9"}\n')
    with pytest.raises(DataError, match=r"line 2: byte .* is not UTF-8"):
        llmeval.evaluate(path)


def test_a_long_file_is_not_held_in_memory(tmp_path, monkeypatch):
    """8 MB of lines take a fraction of that: rows stream, and done ones are spilled."""
    monkeypatch.setattr(storage, "MAX_ROWS_IN_MEMORY", 500)
    path = tmp_path / "long.jsonl"
    row = {"request": "q", "retrieved_context": [{"content": "word " * 500, "score": 0.5}]}
    path.write_text(3_200 * (json.dumps(row) + "\n"))
    llmeval.evaluate([row], evaluators=["context_relevance"])  # what is imported is no row
    tracemalloc.start()
    report = llmeval.evaluate(path, evaluators=["context_relevance"])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(report.rows) == 3_200
    assert report.rows[-1].evaluations["context_relevance"].value is not None
    assert path.stat().st_size > 8e6
    assert peak < 6e6


ENDLESS = {
    "empty lines": ("jsonl", "\n" * 3_000, "as empty as the 1,000 before"),
    "blank lines": ("jsonl", " \t\n" * 3_000, "as empty as the 1,000 before"),
    "empty lines of CSV": ("csv", "\n" * 3_000, "as empty as the 1,000 before"),
    "one line": ("jsonl", '{"request": "' + "x" * (3 << 20), "is longer than 1 MB"),
    "one line of CSV": ("csv", "x" * (3 << 20), "has more than 1 million characters"),
    "one line of TSV": ("tsv", "\t" * (3 << 20), "has more than 1 million characters"),
    "one list": ("json", "[" + "[]," * (1 << 20) + "[]]", "cannot be read as one list"),
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_what_a_file_makes_long_is_bounded(tmp_path, monkeypatch, kind):
    """Lines, empty lines and a list that is read as a whole; good rows before are no result."""
    suffix, content, said = ENDLESS[kind]
    monkeypatch.setattr(source, "MAX_LINE", 1 << 20)
    monkeypatch.setattr(source, "MAX_LIST", 1 << 20)
    monkeypatch.setattr(source, "MAX_EMPTY_LINES", 1_000)
    monkeypatch.setattr(reading, "MAX_EMPTY_LINES", 1_000)
    good = {
        "jsonl": '{"request": "q", "response": "r"}\n', "json": "",
        "csv": "request,response\nq,r\n", "tsv": "request\tresponse\nq\tr\n",
    }  # fmt: skip
    path = tmp_path / f"data.{suffix}"
    path.write_text(good[suffix] + content)
    with pytest.raises(DataError, match=said) as told:
        llmeval.evaluate(path, evaluators=["total_token_count"])
    assert str(path) in str(told.value)
    if kind != "one line":  # which is one bad row, and can be skipped
        with pytest.raises(DataError, match=said):
            llmeval.evaluate(path, evaluators=["total_token_count"], skip_bad=True)


class EndlessMapping(Mapping):
    """A mapping that makes up its keys as they are asked for."""

    def __getitem__(self, key):
        return "value"

    def __iter__(self):
        return (f"key {number}" for number in itertools.count())

    def __len__(self):
        return 3


class EndlessSequence(Sequence):
    """A sequence that has an item at every place."""

    def __getitem__(self, place):
        return {"content": "text", "role": "user"}

    def __len__(self):
        return 3


class EndlessList(list):
    """A list that goes on when it is read."""

    def __iter__(self):
        return itertools.repeat("text")


COLUMNS = [
    "request", "response", "retrieved_context", "expected_facts", "expected_retrieved_context",
    "extractions", "value", "confidence", "field_config", "retrieval", "attributes", "usage",
    "steps", "tools", "trace", "messages", "own_column",
]  # fmt: skip


@pytest.mark.parametrize("column", COLUMNS)
def test_a_cell_without_end_is_an_error_of_its_row(monkeypatch, column):
    """Mappings, sequences, lists and generators that never end, alone and within others."""
    monkeypatch.setattr(source, "MAX_ITEMS", 1_000)
    for cell in (EndlessMapping(), EndlessSequence(), EndlessList(["text"])):
        for whole in (cell, [cell], {"documents": cell, "messages": [{"content": cell}]}):
            row = {"request": "q", "response": "r", column: whole}
            with pytest.raises(DataError, match=f"column '{column}': has no end"):
                llmeval.evaluate([row], evaluators=["total_token_count"])
    for endless in (itertools.count(), (n for n in itertools.count())):
        row = {"request": "q", "response": "r", column: endless}
        with contextlib.suppress(DataError):  # it is no value of most columns, and is never read
            assert len(llmeval.evaluate([row], evaluators=["semantic_validation"]).rows) == 1


def test_a_row_without_end_is_a_bad_row(monkeypatch, rows):
    """The others are evaluated where bad rows are skipped; so is a data set that is such a mapping."""
    monkeypatch.setattr(source, "MAX_COLUMNS", 1_000)
    with pytest.raises(DataError, match=r"row 2.*has no end"):
        llmeval.evaluate([rows[0], EndlessMapping()], evaluators=["total_token_count"])
    data = [rows[0], EndlessMapping(), rows[1]]
    report = llmeval.evaluate(data, evaluators=["total_token_count"], skip_bad=True)
    assert (len(report.rows), report.skipped) == (2, 1)
    with pytest.raises(ConfigurationError, match="is not a data set"):
        llmeval.evaluate(EndlessMapping())


def test_mappings_of_other_types_are_read_as_dicts_are():
    """Lazy rows of libraries, ordered and default ones, and what they hold."""
    row = {"request": "q", "response": "r", "attributes": {"a": [1, {"b": 2}], "c": "d"}}
    lazy = UserDict(row | {"attributes": UserDict(a=UserList([1, UserDict(b=2)]), c="d")})
    found = [llmeval.evaluate([each]).rows[0].record for each in (row, lazy, OrderedDict(row))]
    assert found[0] == found[1] == found[2]


def test_a_table_of_very_many_columns_is_checked_in_a_moment(tmp_path):
    """A name that stands twice is found without comparing each with each."""
    path = tmp_path / "data.csv"
    path.write_text(",".join(map(str, range(200_000))) + ",7\n")
    with pytest.raises(DataError, match="the column '7' appears twice"):
        llmeval.evaluate(path)


DEEP = "[" * 3_000 + "]" * 3_000
BRACES = '{"a":' * 3_000 + "1" + "}" * 3_000
LONG = "7" * 5_000
MIDDLE = "[" * 400 + "]" * 400


@pytest.mark.parametrize("column", ["request", "attributes", "value", "own_column", "trace"])
@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (DEEP, "nested too deep"),
        (BRACES, "nested too deep"),
        (MIDDLE, "nested too deep"),
        (LONG, "too many digits"),
        (f"-{LONG}", "too many digits"),
        (f"[{LONG}]", "too many digits"),
    ],
    ids=["lists", "braces", "400 lists", "digits", "negative", "digits inside"],
)
def test_what_nobody_can_read_is_an_error_of_its_row(write, column, cell, said):
    """With the line, and never a traceback; with skip_bad it is counted."""
    good = '{"request": "q", "response": "r"}'
    path = write([good, f'{{"request": "q", "response": "r", "{column}": {cell}}}'])
    names = ["total_token_count"]
    with pytest.raises(DataError, match=rf"line 2.*{said}"):
        llmeval.evaluate(path, evaluators=names)
    report = llmeval.evaluate(path, evaluators=names, skip_bad=True)
    assert (len(report.rows), report.skipped) == (1, 1)


@pytest.mark.parametrize("cell", [DEEP, BRACES, LONG, f"[{LONG}]"])
def test_a_text_may_look_like_anything(tmp_path, cell):
    """A request or a response of a CSV file is a text, whatever its first character."""
    path = tmp_path / "data.csv"
    path.write_text(f'request,response\n"{cell.replace(chr(34), chr(34) * 2)}",r\n')
    report = llmeval.evaluate(path, save=tmp_path / "r.jsonl")
    assert report.rows[0].record.request == cell
    assert report.to_html()


@pytest.mark.parametrize("value", [10**5_000, [[10**5_000]], MIDDLE], ids=["int", "list", "deep"])
def test_rows_that_are_no_file_are_bounded_too(value):
    """What a list of rows holds goes the same way."""
    found = json.loads(value) if isinstance(value, str) else value
    with pytest.raises(DataError, match=r"row 1, column 'attributes'|too many digits|too deep"):
        llmeval.evaluate([{"request": "q", "response": "r", "attributes": {"a": found}}])


def test_the_command_ends_with_2_for_bad_input_and_not_as_a_failed_gate(write, capsys):
    """1 is for a gate that was decided."""
    for line in (BRACES, LONG, '{"request": ' + LONG + "}", DEEP):
        assert main(["evaluate", str(write([line])), "--evaluators", "total_token_count"]) == 2
        told = capsys.readouterr()
        assert "line 1" in told.err
        assert "Traceback" not in told.err


def test_an_error_of_ours_is_no_failed_gate(write, capsys, monkeypatch):
    """It has an exit status of its own, and its traceback."""

    def broken(*_, **__):
        raise ZeroDivisionError("ours")

    monkeypatch.setattr("llmeval_sdk.offline.evaluate", broken)
    assert main(["evaluate", str(write([{"request": "q", "response": "r"}]))]) == 3
    assert "ZeroDivisionError" in capsys.readouterr().err
