"""A run on Ray gives the report of the local engine, however the data is cut."""

import json
import random

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.errors import DataError
from llmeval_sdk.judges.models import OpenAILLM
from llmeval_sdk.offline import Report


EVALUATORS = [
    "context_relevance",
    "context_precision",
    "document_recall",
    "recall_warning",
    "picky",
]


@llmeval.heuristic(name="picky")
def picky(record) -> float:
    """Fail on some rows, and give awkward floats on the others."""
    number = int(record.request_id[1:])
    if number % 7 == 3:
        raise ValueError(f"poison {number}")
    return random.Random(number).uniform(0, 1) * 10.0 ** -(number % 9)


def made(count):
    """Make rows that differ in what they have, with numbers whose sum depends on their order."""
    chance = random.Random(11)
    rows = []
    for n in range(count):
        row = {
            "request_id": f"q{n}",
            "request": f"What is roof {n} made of?",
            "response": chance.choice(["gold", f"slate {n}", "I do not know"]),
            "expected_response": f"slate {n}",
            "retrieved_context": [
                {"content": f"Roof {n} is slate {k}.", "doc_uri": f"d{k}", "score": chance.random()}
                for k in range(chance.randint(1, 4))
            ],
            "expected_retrieved_context": [{"doc_uri": f"d{chance.randint(0, 3)}"}],
        }
        if n % 5 == 0:
            row["retrieved_context"] = None
        rows.append(row)
    return rows


def said(report):
    """Return all that a report says, as bytes: its JSON, its pages and each of its rows."""
    plain = {
        "metrics": report.metrics,
        "counts": report.counts,
        "reasons": report.reasons,
        "errors": report.errors,
        "skipped": report.skipped,
        "problems": report.problems,
        "evaluators": report.evaluators,
        "rows": [
            [
                row.number,
                row.record.request_id,
                {name: repr(e.value) for name, e in row.evaluations.items()},
            ]
            for row in report.rows
        ],
        "html": report.to_html(),
        "markdown": report.to_markdown(),
        "junit": report.to_junit(),
    }
    return json.dumps(plain).encode()


def evaluators():
    return [*EVALUATORS[:-1], picky]


@pytest.mark.parametrize("blocks", [1, 2, 7])
def test_any_number_of_blocks_gives_the_local_report(ray_here, blocks):
    """Byte by byte: JSON, HTML with its worst rows, Markdown, JUnit and every row."""
    rows = made(300)
    local = llmeval.evaluate(rows, evaluators=evaluators(), experiment="x", progress=False)
    dataset = ray_here.data.from_items(rows, override_num_blocks=blocks)
    report = llmeval.evaluate(dataset, evaluators=evaluators(), experiment="x", progress=False)
    assert said(report) == said(local)
    assert report.counts["picky"]["failed"] == 43
    assert report.rows[-1].number == 300
    assert [row.number for row in report.rows[10:13]] == [11, 12, 13]


def test_parquet_files_are_read_in_their_order_and_saved_by_block(ray_here, tmp_path):
    """A pattern of files, as if they were one; the results are Parquet, and load as a report."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = made(90)
    for part in range(3):
        table = pa.Table.from_pylist(rows[part * 30 : part * 30 + 30])
        pq.write_table(table, tmp_path / f"part-{part}.parquet", row_group_size=8)
    whole = pa.Table.from_pylist(rows).to_pylist()
    local = llmeval.evaluate(whole, evaluators=evaluators(), experiment="x", progress=False)
    report = llmeval.evaluate(
        tmp_path / "part-*.parquet", engine="ray", evaluators=evaluators(), experiment="x",
        save=tmp_path / "out", workers=2, progress=False,
    )  # fmt: skip
    assert said(report) == said(local)
    assert said(Report.load(tmp_path / "out")) == said(local)
    files = sorted((tmp_path / "out").glob("*.parquet"))
    table = pa.concat_tables(pq.read_table(path) for path in files)
    assert table.num_rows == 90
    ours = dict(zip(table["request_id"].to_pylist(), table["picky"].to_pylist(), strict=True))
    assert ours == {row.record.request_id: row.evaluations["picky"].value for row in local.rows}
    assert not list((tmp_path / "out").glob("*.verdicts"))


def test_a_large_parquet_file_is_read_in_order_and_in_blocks(ray_here, tmp_path):
    """Ray's newer reader gives the parts of a file above 32 MB in any order, and not block by block."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [
        {"request_id": f"r{n}", "request": random.Random(n).randbytes(1000).hex()}
        for n in range(40_000)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "large.parquet", row_group_size=2_000)
    assert (tmp_path / "large.parquet").stat().st_size > 32 << 20
    report = llmeval.evaluate(
        tmp_path / "large.parquet", engine="ray", evaluators=["recall_warning"], experiment="x",
        save=tmp_path / "out", workers=2, progress=False,
    )  # fmt: skip
    ids = [row.record.request_id for row in report.rows]
    assert ids == [row["request_id"] for row in rows]
    assert len(list((tmp_path / "out").glob("*.parquet"))) >= 4


@pytest.mark.parametrize("blocks", [1, 5])
def test_bad_rows_are_counted_and_told_as_the_local_engine_does(ray_here, blocks):
    """Also an id that appeared in another block."""
    rows = made(60)
    rows[17]["expected_facts"] = ["both"]
    rows[41]["request_id"] = "q2"
    rows[43]["latency_seconds"] = -1.0
    options = {"evaluators": evaluators(), "experiment": "x", "progress": False}
    local = llmeval.evaluate(rows, skip_bad=True, **options)
    assert local.skipped == 3
    dataset = ray_here.data.from_items(rows, override_num_blocks=blocks)
    assert said(llmeval.evaluate(dataset, skip_bad=True, **options)) == said(local)
    for number in (17, 41, 43):
        bad = made(60)
        bad[number] = rows[number]
        with pytest.raises(DataError) as ours:
            llmeval.evaluate(ray_here.data.from_items(bad, override_num_blocks=blocks), **options)
        with pytest.raises(DataError) as theirs:
            llmeval.evaluate(bad, **options)
        assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("blocks", [1, 4])
def test_judges_are_asked_as_often_and_give_the_same_report(
    ray_here, blocks, judge_server, monkeypatch, tmp_path
):
    """A pool of actors asks the judge over HTTP, each question once."""
    monkeypatch.chdir(tmp_path)
    rows = made(40)
    llm = OpenAILLM("stand-in", base_url=judge_server.base_url, api_key="k")
    options = {
        "evaluators": ["correctness", "document_recall"], "llm": llm, "experiment": "x",
        "progress": False, "cache": False,
    }  # fmt: skip
    local = llmeval.evaluate(rows, **options)
    assert judge_server.calls == 40
    dataset = ray_here.data.from_items(rows, override_num_blocks=blocks)
    report = llmeval.evaluate(dataset, **options)
    assert judge_server.calls == 80
    assert said(report) == said(local)
    assert report.judge_usage == local.judge_usage
