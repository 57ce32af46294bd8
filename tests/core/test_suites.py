"""`.ci/suites.py` says what became of each suite, and fails for each that could have run and did not."""

import os
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


def test_suites_that_keep_no_time_run_two_at_a_time(suites):
    """Each waits for the other's beginning; what they print is not mixed."""
    make = (
        'case "$*" in *core*) me=core other=coverage;; *coverage*) me=coverage other=core;; *) exit;;'
        'esac; echo "begin $me"; touch "$me.begun"; n=0; '
        'while [ ! -e "$other.begun" ]; do n=$((n+1)); [ $n -lt 3000 ] || exit 3; sleep 0.01; done; '
        'echo "end $me"'
    )
    ended = suites(make.replace("*core*)", "*' core '*)"), "core", "coverage")
    assert ended.returncode == 0, ended.stdout
    assert "begin core\nend core" in ended.stdout
    assert "begin coverage\nend coverage" in ended.stdout


def test_suites_that_keep_time_run_by_themselves(suites):
    """A bar of time means nothing beside another suite."""
    make = f"mkdir alone || exit 1; {RAN}\nsleep 0.05; rmdir alone"
    assert suites(make, "servers", "datadog", "viewer").returncode == 0


def test_continuous_integration_runs_every_suite():
    """It names none, so that no suite is left out in silence."""
    assert (ROOT / ".ci" / "run").read_text().rstrip().endswith("python3 .ci/suites.py")
