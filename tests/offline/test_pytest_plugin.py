"""The pytest plugin, in a pytest of its own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from golden import golden


RECALL = "retrieval/ground_truth/document_recall/average"


@pytest.fixture
def run(tmp_path):
    """Write a test file beside the data and run it; returns pytest's exit code and output."""

    def call(text, *args):
        lines = "".join(f"{json.dumps(row)}\n" for row in golden())
        (tmp_path / "data.jsonl").write_text(lines)
        (tmp_path / "test_it.py").write_text(text)
        command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"]
        command += ["-c", "/dev/null", "--rootdir", str(tmp_path), str(tmp_path), *args]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        return done.returncode, done.stdout + done.stderr

    return call


def marked(least, body="pass", arguments=""):
    return (
        "import pytest\n"
        f"@pytest.mark.llmeval('data.jsonl', evaluators=['document_recall'], "
        f"at_least={{'{RECALL}': {least}}})\n"
        f"def test_recall({arguments}):\n    {body}\n"
    )


def test_a_bound_that_holds_passes_and_the_report_is_a_fixture(run):
    """The marker alone checks; the body may look further."""
    body = "assert len(llmeval_report.rows) == 6"
    assert run(marked(0.6))[0] == 0
    assert run(marked(0.6, body, "llmeval_report"))[0] == 0


def test_a_bound_that_is_missed_reads_well(run):
    """Value, bound, rows, and the rows that are to blame; no traceback of ours."""
    code, out = run(marked(0.9))
    assert code == 1
    assert f"{RECALL} is 0.6667, below 0.9 (6 rows rated)" in out
    assert "q0: What is roof 0 made of?" in out
    assert "pytest_plugin.py" not in out


def test_mistakes_are_told_shortly(run):
    """Data that is not there, a path that is none, a fixture without the marker."""
    text = marked(0.5).replace("data.jsonl", "nowhere.jsonl")
    code, out = run(text)
    assert code == 1
    assert "no such file" in out
    code, out = run(marked(0.5).replace(RECALL, "recal/average"))
    assert code == 1
    assert "no metric 'recal/average'" in out
    code, out = run("def test_it(llmeval_report): pass\n")
    assert code == 1
    assert "mark the test with its data" in out


def test_a_failing_body_is_its_own_failure(run):
    """The bounds do not hide what the test itself found."""
    code, out = run(marked(0.9, "assert 1 == 2"))
    assert code == 1
    assert "assert 1 == 2" in out


def test_unused_it_loads_nothing(run):
    """No module of the package beyond the plugin's own is imported."""
    code, out = run(
        "import sys\n"
        "def test_it():\n"
        "    loaded = {n for n in sys.modules if n.startswith('llmeval_sdk')}\n"
        "    assert loaded == {'llmeval_sdk', 'llmeval_sdk.pytest_plugin'}, loaded\n"
    )
    assert code == 0, out
