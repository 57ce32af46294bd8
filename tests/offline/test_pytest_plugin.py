"""The pytest plugin, in a pytest of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from golden import golden


RECALL = "retrieval/ground_truth/document_recall/average"
SUITE = f"""
import pytest

def marked(data="data.jsonl", path="{RECALL}", least=0.6):
    return pytest.mark.llmeval(data, evaluators=["document_recall"], at_least={{path: least}})

@marked()
def test_holds():
    pass

@marked()
def test_report(llmeval_report):
    assert len(llmeval_report.rows) == 6

@marked(least=0.9)
def test_missed():
    pass

@marked(data="nowhere.jsonl")
def test_no_data():
    pass

@marked(path="recal/average")
def test_no_path():
    pass

@marked(least=0.9)
def test_body():
    assert 1 == 2

def test_unmarked(llmeval_report):
    pass
"""


FLAKY = """
import pytest
import llmeval_sdk as llmeval

@llmeval.heuristic
def flaky(record: llmeval.Record) -> float:
    if "roof 0" not in record.request:
        raise ValueError("down")
    return 1.0

def marked(**options):
    return pytest.mark.llmeval(
        "data.jsonl", evaluators=["flaky"], at_least={"flaky/average": 0.9}, **options
    )

@marked()
def test_failed_often():
    pass

@marked(min_rated=0.1)
def test_one_row_is_enough():
    pass

@pytest.mark.llmeval("data.jsonl", evaluators=["flaky"], at_least={"flaky/percentage": 0})
def test_no_metric():
    pass
"""
LOST = """
import pytest

ROWS = [{"request": str(n), "response": "a" if n % 2 else None, "expected_response": "a"} for n in range(10)]

@pytest.mark.llmeval(ROWS, evaluators=["exact_match"], at_least={"exact_match/average": 0.9})
def test_lost_exact():
    pass

@pytest.mark.llmeval(ROWS, evaluators=["regex:a"], at_least={"regex/average": 0.9})
def test_lost_bound():
    pass

@pytest.mark.llmeval(ROWS, evaluators=["regex:a"], min_rated=1.0)
def test_lost_rated():
    pass
"""
SILENT = """
import pytest

ROWS = [{"request": f"q{n}", "expected_response": "slate"} for n in range(10)]

def boom(request):
    raise RuntimeError(request)

@pytest.mark.llmeval(ROWS, evaluators=["regex:.*"], model=boom)
def test_raises():
    pass

@pytest.mark.llmeval(
    ROWS, evaluators=["regex:.*"], model=lambda request: {"value": None},
    at_most={"no_answer/percentage": 0.1},
)
def test_answers_nothing():
    pass

@pytest.mark.llmeval(
    ROWS, evaluators=["regex:.*"], model=lambda request: "slate", at_most={"no_answer/percentage": 0.1},
)
def test_answers():
    pass
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Write test files beside the data and run them; returns pytest's output."""

    def call(*texts):
        folder = tmp_path_factory.mktemp("suite")
        lines = "".join(f"{json.dumps(row)}\n" for row in golden())
        (folder / "data.jsonl").write_text(lines)
        for number, text in enumerate(texts):
            (folder / f"test_{number}.py").write_text(text)
        command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"]
        command += ["-c", "/dev/null", "--rootdir", str(folder), "--color=no", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
        return done.stdout + done.stderr

    return call


@pytest.fixture(scope="module")
def told(run):
    """What pytest says of each test of the suites above, by name."""
    out = run(SUITE, FLAKY, LOST, SILENT)
    # Where CI is set, pytest repeats the whole messages in its summary.
    failures, _, _ = out.partition("short test summary info")
    parts = re.split(r"^_+ (?:ERROR at setup of )?(test_\w+) _+$", failures, flags=re.MULTILINE)
    return {"": out, **dict(zip(parts[1::2], parts[2::2], strict=True))}


def test_a_bound_that_holds_passes_and_the_report_is_a_fixture(told):
    """The marker alone checks; the body may look further."""
    assert "11 failed, 4 passed, 1 error" in told[""]
    assert not {"test_holds", "test_report"} & set(told)


def test_a_bound_that_is_missed_reads_well(told):
    """Value, bound, rows, and the rows that are to blame; no traceback of ours."""
    assert f"{RECALL} is 0.6667, below 0.9 (6 rows rated)" in told["test_missed"]
    assert "q0: What is roof 0 made of?" in told["test_missed"]
    assert "pytest_plugin.py" not in told["test_missed"]


def test_mistakes_are_told_shortly(told):
    """Data that is not there, a path that is none, a fixture without the marker."""
    assert "no such file" in told["test_no_data"]
    assert "no metric 'recal/average'" in told["test_no_path"]
    assert "mark the test with its data" in told["test_unmarked"]
    assert "another exception" not in told[""]


def test_a_failing_body_is_its_own_failure(told):
    """The bounds do not hide what the test itself found."""
    assert "assert 1 == 2" in told["test_body"]


def test_unused_it_loads_nothing(run):
    """No module of the package beyond its testing kit and those of the bare package is imported."""
    listed = "{n for n in sys.modules if n.startswith('llmeval_sdk')}"
    bare = subprocess.run(
        [sys.executable, "-c", f"import sys, llmeval_sdk; print({listed})"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    out = run(
        "import sys\n"
        "def test_it():\n"
        f"    loaded = {listed}\n"
        f"    assert loaded - {bare.stdout.strip()} == {{'llmeval_sdk.testing', 'llmeval_sdk.testing.pytest_plugin'}}, loaded\n"
    )
    assert "1 passed" in out


def test_an_evaluator_that_failed_on_most_rows_fails_the_test(told):
    """Unless fewer rows are said to be enough; a metric that is not there is told before."""
    often = told["test_failed_often"]
    assert "flaky/average does not count: flaky rated 1 of the 6 rows that had its inputs" in often
    assert "ValueError (5)" in often
    assert "test_one_row_is_enough" not in told
    missing = "no metric 'flaky/percentage': did you mean 'flaky/average'?"
    assert missing in told["test_no_metric"]


def test_lost_answers_pass_no_test(told):
    """They are misses where answers were expected, and rows that were not rated elsewhere."""
    assert "exact_match/average is 0.5, below 0.9 (10 rows rated)" in told["test_lost_exact"]
    unrated = "regex rated 5 of the 10 rows that had its inputs or lost their answer"
    assert unrated in told["test_lost_bound"]
    assert unrated in told["test_lost_rated"]


def test_an_app_that_raises_or_answers_nothing_fails(told):
    """The first without any bound, the second by an upper one on the share of lost answers."""
    assert "the model raised on 10 rows" in told["test_raises"]
    lost = "no_answer/percentage is 1, above 0.1 (10 rows, 10 without an answer)"
    assert lost in told["test_answers_nothing"]
    assert "test_answers" not in told
