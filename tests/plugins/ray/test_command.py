"""`llmeval evaluate --engine ray`, and the budget of a run on several workers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from golden import golden
from redis_server import SERVER, WHY_SKIPPED, running_redis

import llmeval_sdk as llmeval
from llmeval_sdk import Budget
from llmeval_sdk.cli import main
from llmeval_sdk.errors import DataError
from llmeval_sdk.judges.models import OpenAILLM


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    rows = golden(12)
    pq.write_table(pa.Table.from_pylist(rows), "all.parquet")
    for part in range(2):
        table = pa.Table.from_pylist(rows[part * 6 : part * 6 + 6])
        pq.write_table(table, f"data/part-{part}.parquet")
    return tmp_path


def test_the_command_gives_the_report_of_the_local_engine(ray_here, here, capsys):
    """JSON by JSON; the folder that it saves is a baseline for the next run."""
    common = ["--evaluators", "document_recall,context_relevance", "--json", "--experiment", "x"]
    assert main(["evaluate", "all.parquet", *common, "--save", "local.jsonl"]) == 0
    local = json.loads(capsys.readouterr().out)
    again = ["evaluate", "data/part-*.parquet", "--engine", "ray", "--workers", "2", *common]
    assert main(again) == 0
    report = json.loads(capsys.readouterr().out)
    assert Path(report.pop("saved")) == here / "store" / "reports" / "x"
    local.pop("saved")
    assert json.dumps(report) == json.dumps(local)
    assert main(["evaluate", "all.parquet", *common, "--compare", "store/reports/x"]) == 0
    assert json.loads(capsys.readouterr().out)["comparison"]["pairs"] == 12


def test_columns_of_another_schema_are_refused_before_a_row_is_read(ray_here, here):
    """With the name that ours has."""
    data = ray_here.data.from_items([{"question": "q", "answer": "a"}])
    with pytest.raises(DataError, match="rename 'question' to 'request'"):
        llmeval.evaluate(data, progress=False)
    pq.write_table(pa.table({"x": [1]}), "other.parquet")
    with pytest.raises(DataError, match="no column is one of the input schema"):
        llmeval.evaluate("other.parquet", engine="ray", progress=False)


def spent(ray_here, judge_server):
    rows = [{**row, "response": "Slate. " * 50} for row in golden(40)]
    report = llmeval.evaluate(
        ray_here.data.from_items(rows, override_num_blocks=4),
        evaluators=["correctness"],
        llm=OpenAILLM("stand-in", base_url=judge_server.base_url, api_key="k"),
        prices={"stand-in": (1_000.0, 1_000.0)},
        budget=Budget(usd_per_day=30.0),
        cache=False,
        progress=False,
    )
    assert report.counts["correctness"]["failed"] == report.reasons["correctness"]["over_budget"]
    return report


def test_workers_of_one_machine_spend_one_budget(ray_here, here, judge_server):
    """Their calls together cost no more than the run may."""
    report = spent(ray_here, judge_server)
    assert 0 < report.judge_usage.cost_usd <= 30.0
    assert 0 < judge_server.calls < 40
    assert not list(Path(os.environ["LLMEVAL_STORE"]).parent.glob("run-*"))  # the books are gone


@pytest.mark.skipif(SERVER is None, reason=WHY_SKIPPED)
def test_with_a_shared_redis_the_budget_is_kept_there(here, judge_server, tmp_path):
    """The command starts a Ray of its own; its workers lease what the run may spend."""
    import redis

    rows = [{**row, "response": "Slate. " * 50} for row in golden(40)]
    pq.write_table(pa.Table.from_pylist(rows), "many.parquet")
    command = [
        sys.executable, "-m", "llmeval_sdk", "evaluate", "many.parquet", "--engine", "ray",
        "--workers", "2", "--evaluators", "correctness", "--model-judge", "stand-in", "--json",
        "--price", "stand-in=1000,1000", "--max-usd", "30", "--no-cache",
    ]  # fmt: skip
    env = {**os.environ, "OPENAI_BASE_URL": judge_server.base_url, "OPENAI_API_KEY": "none"}
    with running_redis(tmp_path / "redis") as server:
        env["LLMEVAL_SHARED"] = server.address
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=400)
        names = [key.decode() for key in redis.Redis.from_url(server.address).scan_iter()]
    assert done.returncode == 1, done.stderr  # the gate fails: the money did not suffice
    report = json.loads(done.stdout)
    assert 0 < report["judge_usage"]["cost_usd"] <= 30.0
    assert report["reasons"]["correctness"]["over_budget"] > 0
    assert any("run." in name for name in names), names
