"""`.ci/suites.py` says what became of each suite, and fails for each that could have run and did not."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


ROOT = Path(__file__).resolve().parents[2]
RAN = """
echo 0 > "$TEST_EXITS_FILE"
file=$(echo "$*" | sed -n 's/.*--junitxml=\\([^ ]*\\).*/\\1/p')
[ -z "$file" ] || echo '<testsuite><testcase classname="tests.t" name="test_b"/></testsuite>' > "$file"
"""
SKIPPED = RAN.replace("/></testsuite>", '><skipped message="no server"/></testcase></testsuite>')


@pytest.fixture
def suites(tmp_path):
    """Return what runs suites of a checkout whose ``make`` is a shell script."""
    for name in (".ci/suites.py", "tests/support/interpreters.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)

    def run(make, *names):
        (tmp_path / "bin").mkdir()
        program = tmp_path / "bin" / "make"
        program.write_text(f"#!/bin/sh\n{make}\n")
        program.chmod(0o755)
        return subprocess.run(
            [sys.executable, tmp_path / ".ci" / "suites.py", *names],
            env={**os.environ, "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    return run


def test_what_cannot_be_installed_fails_and_is_named(suites):
    """A package index without Phoenix is no reason to pass, and the table says what is missing."""
    ended = suites('echo "CANNOT INSTALL Phoenix" > "$SUITE_TROUBLE"; exit 2', "backends")
    (row,) = [line for line in ended.stdout.splitlines() if line.startswith("backends")][-1:]
    assert (ended.returncode, row.split()[1]) == (1, "FAILED")
    assert row.endswith("CANNOT INSTALL Phoenix")


def test_a_suite_without_a_test_fails(suites):
    """A run that found no test proves nothing."""
    ended = suites("exit 0", "ragas")
    assert ended.returncode == 1
    assert "no test ran" in ended.stdout


def test_a_test_that_ran_nowhere_is_named_with_its_reason(suites):
    """Whether or not the suites are named; one that runs in another suite is not among them."""
    ended = suites(SKIPPED, "ragas", "guide")
    assert "1 tests ran in none of these suites:\n  tests.t::test_b: no server" in ended.stdout
    assert ended.returncode == 1


def test_a_test_that_ran_in_one_suite_is_not_left_out(suites):
    """It is skipped where its library is not."""
    make = f'case "$*" in *test-ragas*) {RAN};; *) {SKIPPED};; esac'
    ended = suites(make, "ragas", "guide")
    assert "ran in none" not in ended.stdout


PAST_THE_HOUR = {"python 3.10", "python 3.12", "coverage"}
"""What `make suites` runs alone: with it, CI takes longer than an hour."""


def test_continuous_integration_leaves_out_only_what_takes_it_past_the_hour():
    """A suite that is added is run: `.ci/run` names every other one."""
    known = set(
        re.findall(
            r"^    Suite\(\s*\"([^\"]+)\"", (ROOT / ".ci" / "suites.py").read_text(), re.MULTILINE
        )
    )
    known |= {f"python {version}" for version in ("3.10", "3.12", "3.13")}
    command = (ROOT / ".ci" / "run").read_text().partition("suites.py ")[2].replace("\\\n", " ")
    assert len(known) > 14
    assert set(shlex.split(command)) == known - PAST_THE_HOUR
