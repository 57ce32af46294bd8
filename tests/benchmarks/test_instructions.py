"""Counting instructions: the paths do their work, and more of them than the baseline has is seen."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.instruction_paths import PATHS
from benchmarks.instructions import TITLES, show


ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("path", PATHS)
def test_a_path_does_its_work(path, tmp_path):
    """It ends with an error where a record was dropped or a fault swallowed."""
    command = [sys.executable, "-m", "benchmarks.instruction_paths", path, "5", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "store.db").exists() == (path == "store")


def test_a_path_above_its_baseline_by_more_than_five_percent_is_named(capsys):
    """One that got better, or is new, is not."""
    worse = show({"call": 1_051, "worker": 900, "store": 7}, {"call": 1_000, "worker": 1_000})
    assert worse == [TITLES["call"]]
    rows = capsys.readouterr().out.splitlines()
    assert [row.endswith("WORSE") for row in rows] == [False, True, False, False]


def test_where_valgrind_is_missing_the_suite_is_told(tmp_path):
    """Then nothing fails, and nothing is left out in silence either."""
    trouble = tmp_path / "trouble"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.instructions"],
        cwd=ROOT, env={"PATH": str(tmp_path), "SUITE_TROUBLE": str(trouble)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert "valgrind is not installed" in done.stdout
    assert trouble.read_text().startswith("NOT COMPARED: valgrind is not installed")
