"""``llmeval evaluate`` as a person calls it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.cli import main


CORRECT = "response/llm_judged/correctness/rating/percentage"
RECALL = "retrieval/ground_truth/document_recall/average"


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Run the command in an empty folder; returns its exit code and what it printed."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(sys, "path", list(sys.path))

    def call(*args):
        code = main(["evaluate", *map(str, args)])
        told = capsys.readouterr()
        return code, told.out, told.err

    return call


def test_a_file_is_evaluated_and_the_report_is_kept(run, rows, write, tmp_path):
    """Metrics, the worst rows, where it was saved; exit code 0."""
    code, out, _ = run(write(rows), "--evaluators", "document_recall,semantic_validation")
    assert code == 0
    assert f"{RECALL}" in out
    assert "Worst rows" in out
    saved = tmp_path / "store" / "reports" / "offline-data.jsonl"
    assert str(saved) in out
    assert len(llmeval.Report.load(saved).rows) == 6


def test_a_comparison_of_nothing_is_no_success(run, rows, write, tmp_path):
    """A baseline without any metric of this run blames nothing, and the gate does not pass."""
    before = tmp_path / "before.jsonl"
    run(write(rows), "--evaluators", "exact_match", "--save", before)
    code, out, _ = run(write(rows), "--evaluators", "document_recall", "--compare", before)
    assert code == 1
    assert "FAILED no metric has a value in both reports" in out
    assert "no metric surely got worse" not in out


def test_a_bound_that_is_missed_fails(run, rows, write, judge):
    """Exit code 1, and the line says by how much and over how many rows."""
    args = (write(rows), "--evaluators", "correctness", "--model-judge", "m")
    code, out, _ = run(*args, "--fail-under", f"{CORRECT}=0.9")
    assert code == 1
    assert f"FAILED {CORRECT} is 0.6667, below 0.9 (6 rows rated)" in out
    code, out, _ = run(*args, "--fail-under", f"{CORRECT}=0.5", "--fail-under", f"{CORRECT}=0.6")
    assert code == 0
    assert len(judge.requests) == 6, "the rerun uses the verdicts of the first run"
    assert "6 verdicts of earlier runs" in out


def test_a_metric_that_got_worse_fails(run, write):
    """Against a saved report; exit code 1 and the interval."""
    pytest.importorskip("numpy")

    def rows(right):
        return [
            {
                "request": f"q{n}",
                "response": "r",
                "retrieved_context": [{"doc_uri": "right" if n < right else "wrong"}],
                "expected_retrieved_context": [{"doc_uri": "right"}],
            }
            for n in range(60)
        ]

    before, after = write(rows(55), "before.jsonl"), write(rows(30), "after.jsonl")
    names = ("--evaluators", "document_recall")
    assert run(before, *names, "--save", "main.jsonl")[0] == 0
    code, out, _ = run(after, *names, "--compare", "main.jsonl")
    assert code == 1
    assert f"WORSE  {RECALL}: 0.9167 to 0.5" in out
    assert "25 rows got worse" in out
    assert run(before, *names, "--compare", "main.jsonl")[0] == 0


def test_files_for_people_and_for_ci_are_written(run, rows, write):
    """HTML, Markdown, JUnit, in folders that are made."""
    outs = [Path("out/report.html"), Path("out/report.md"), Path("out/report.xml")]
    options = ("--html", outs[0], "--markdown", outs[1], "--junit", outs[2])
    code, out, _ = run(write(rows), "--evaluators", "document_recall", *options)
    assert code == 0
    for path in outs:
        assert RECALL in path.read_text() or "testsuites" in path.read_text()
        assert f"wrote {path}" in out


def test_json_has_it_all(run, rows, write):
    """For scripts: metrics, counts, what is missed; nothing else is printed."""
    bounds = ("--fail-under", f"{RECALL}=0.9")
    code, out, _ = run(write(rows), "--evaluators", "document_recall", *bounds, "--json")
    told = json.loads(out)
    assert code == 1
    assert told["metrics"][RECALL] == pytest.approx(4 / 6)
    assert told["missed"] == {RECALL: pytest.approx(4 / 6)}
    assert told["rows"] == 6


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["nowhere.jsonl"], "no such file"),
        ([], "name the FILE"),
        (["{data}", "--evaluators", "correctnes"], "did you mean 'correctness'"),
        (["{data}", "--evaluators", "correctness"], "--model-judge"),
        (["{data}", "--fail-under", "contxt_relevance/average=1"], "did you mean"),
        (["{data}", "--compare", "{data}"], "is not a report"),
        (["{data}", "--model", "nowhere:app"], "cannot be loaded"),
        (["{data}", "--exporters", "nowhere"], "unknown exporter"),
        (["{data}", "--concurrency", "0"], "--concurrency"),
        (["--from-store"], "no store at"),
        (["{empty}"], "there are no rows"),
    ],
)
def test_what_cannot_be_done_is_exit_code_2(run, rows, write, args, said):
    """With a message that says what to do, before anything is asked."""
    data, empty = write(rows), write([], "empty.jsonl")
    code, _, err = run(*(arg.format(data=data, empty=empty) for arg in args))
    assert code == 2
    assert said in err


def test_a_bad_line_is_named_or_skipped(run, rows, write):
    """File and line; with --skip-bad a count."""
    data = write([rows[0], "{broken", rows[1]])
    code, _, err = run(data, "--evaluators", "document_recall")
    assert (code, f"{data}, line 2: is not JSON" in err) == (2, True)
    code, out, _ = run(data, "--evaluators", "document_recall", "--skip-bad")
    assert (code, "2 rows; 1 bad row skipped" in out) == (0, True)


def test_own_code_is_named_by_module_and_attribute(run, rows, write):
    """Evaluators and the app of the current folder."""
    Path("checks_of_mine.py").write_text(
        "import llmeval_sdk as llmeval\n"
        "@llmeval.heuristic\n"
        "def is_short(record: llmeval.Record) -> bool:\n"
        "    return len(record.response or '') < 9\n"
        "def answer(request):\n"
        "    if '3' in request:\n"
        "        raise ValueError('three')\n"
        "    return 'slate'\n"
    )
    data = write([{"request": row["request"]} for row in rows])
    names = ("--evaluators", "checks_of_mine:is_short")
    code, out, _ = run(data, "--model", "checks_of_mine:answer", *names)
    assert code == 1
    assert "is_short/average" in out
    assert "FAILED the model raised on 1 row" in out


def test_live_requests_of_the_store_are_evaluated(run, judge):
    """What the spans below a workflow told is its row; errors of the app are left out."""

    @llmeval.retrieval
    def search(question):
        return [{"content": "The roof is slate.", "doc_uri": "d1"}]

    @llmeval.workflow
    def answer(question):
        if question == "broken":
            raise ValueError(question)
        search(question)
        return "The roof is slate."

    llmeval.configure(exporters=["local"])
    for question in ("roof?", "What of the roof?"):
        answer(question)
    with pytest.raises(ValueError, match="broken"):
        answer("broken")
    llmeval.shutdown(10)
    names = ("--evaluators", "groundedness,context_relevance", "--model-judge", "m")
    code, out, _ = run("--from-store", "--since", "1h", *names, "--json")
    told = json.loads(out)
    assert code == 0
    assert told["counts"]["groundedness"]["evaluated"] == 2
    assert run("--from-store", "--span-name", "other", *names)[0] == 2


SLOW = """
import pathlib, time
def answer(request):
    with open("asked", "a") as file:
        file.write(request + "\\n")
    while pathlib.Path("hold").exists() and len(open("asked").readlines()) > 4:
        time.sleep(0.02)
    return "slate"
"""


def test_ctrl_c_keeps_what_is_done_and_resume_goes_on(run, rows, write, tmp_path):
    """Exit code 130; the second run asks the app only for the rest."""
    Path("slow_app.py").write_text(SLOW)
    Path("hold").touch()
    data = write([{"request": row["request"]} for row in rows])
    args = [str(data), "--model", "slow_app:answer", "--evaluators", "latency_seconds"]
    args += ["--concurrency", "2", "--save", "run.jsonl"]
    command = [sys.executable, "-m", "llmeval_sdk", "evaluate", *args]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ})
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if Path("asked").exists() and len(Path("asked").read_text().splitlines()) > 4:
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=40)
    assert process.returncode == 130
    assert "--resume" in out
    done = len(llmeval.Report.load("run.jsonl").rows)
    assert 3 <= done < 6
    Path("hold").unlink()
    Path("asked").unlink()
    code, out, _ = run(*args, "--resume")
    assert code == 0
    assert len(Path("asked").read_text().splitlines()) == 6 - done
    report = llmeval.Report.load("run.jsonl")
    assert [row.record.request for row in report.rows] == [row["request"] for row in rows]
    assert report.counts["latency_seconds"]["evaluated"] == 6


def test_resume_does_again_what_failed_or_changed(rows, tmp_path):
    """A row whose content is another, or whose app raised, is evaluated again; others are not."""
    asked = []

    def model(request):
        asked.append(request)
        if len(asked) == 2:
            raise ValueError("once")
        return "slate"

    data = [{"request": row["request"]} for row in rows]
    options = {"model": model, "evaluators": ["latency_seconds"], "concurrency": 1}
    llmeval.evaluate(data, **options, save=tmp_path / "run.jsonl")
    data[4]["request"] = "changed"
    asked[:] = [None] * 2
    report = llmeval.evaluate(data, **options, save=tmp_path / "run.jsonl", resume=True)
    assert asked[2:] == [data[1]["request"], "changed"]
    assert [row.record.request for row in report.rows] == [row["request"] for row in data]
    assert report.errors == {}
    loaded = llmeval.Report.load(tmp_path / "run.jsonl")
    assert [row.record.request for row in loaded.rows] == [row["request"] for row in data]


def test_a_run_of_other_evaluators_is_not_resumed(run, rows, write):
    """Half the rows would lack a metric."""
    data = write(rows)
    run(data, "--evaluators", "document_recall", "--save", "run.jsonl")
    code, _, err = run(data, "--evaluators", "context_relevance", "--save", "run.jsonl", "--resume")
    assert (code, "cannot be resumed" in err) == (2, True)


def test_a_torn_last_line_does_not_spoil_a_run(run, rows, write):
    """What a killed process was writing is done again."""
    data = write(rows)
    names = ("--evaluators", "document_recall", "--save", "run.jsonl")
    run(data, *names)
    lines = Path("run.jsonl").read_bytes().splitlines(keepends=True)
    Path("run.jsonl").write_bytes(b"".join(lines[:3]) + lines[3][:40])
    assert len(llmeval.Report.load("run.jsonl").rows) == 2
    assert run(data, *names, "--resume")[0] == 0
    assert len(llmeval.Report.load("run.jsonl").rows) == 6


def test_a_bad_variable_is_told(run, rows, write, monkeypatch):
    """A secret that is too short hashes nothing, and is not shown."""
    monkeypatch.setenv("LLMEVAL_HASH_IDS", "hunter2")
    code, _, err = run(write(rows), "--evaluators", "document_recall")
    assert code == 0
    assert "LLMEVAL_HASH_IDS=***: expected at least 16 characters" in err
