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
        around = (
            "TEST_EXITS_FILE",
            "SUITE_TROUBLE",
        )  # of the suite that this test itself is part of
        own = {name: value for name, value in os.environ.items() if name not in around}
        return subprocess.run(
            [sys.executable, tmp_path / ".ci" / "suites.py", *names],
            env={**own, "PATH": f"{program.parent}{os.pathsep}{own['PATH']}"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    return run


def test_what_cannot_be_installed_fails_and_is_named(suites, tmp_path, monkeypatch):
    """A package index without Phoenix is no reason to pass, and the table says what is missing."""
    around = tmp_path / "around"
    monkeypatch.setenv("SUITE_TROUBLE", str(around))
    ended = suites('echo "CANNOT INSTALL Phoenix" > "$SUITE_TROUBLE"; exit 2', "backends")
    (row,) = [line for line in ended.stdout.splitlines() if line.startswith("backends")][-1:]
    assert (ended.returncode, row.split()[1]) == (1, "FAILED")
    assert row.endswith("CANNOT INSTALL Phoenix")
    assert not around.exists()


@pytest.mark.parametrize(("must_run", "status"), [("", 0), ("1", 1)])
def test_what_cannot_run_fails_where_every_suite_must(
    suites, tmp_path, monkeypatch, must_run, status
):
    """Where a machine is made for the suites, one that it cannot run is a mistake of its set-up."""
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("EVERY_SUITE_MUST_RUN", must_run)
    ended = suites("exit 0", "fleet")
    assert "NOT RUN on this machine: fleet: none of redis-server is installed" in ended.stdout
    assert ended.returncode == status


def test_what_has_no_baseline_is_left_out_and_named(suites, tmp_path, monkeypatch):
    """Another Python than the baseline's is no failure, even where every suite must run."""
    valgrind = tmp_path / "installed" / "valgrind"
    valgrind.parent.mkdir()
    valgrind.touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{valgrind.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("EVERY_SUITE_MUST_RUN", "1")
    make = 'case "$*" in *instructions*) echo "NOT COMPARED: no baseline" > "$SUITE_TROUBLE";; esac'
    ended = suites(make, "instructions")
    assert "NOT RUN on this machine: instructions: NOT COMPARED: no baseline" in ended.stdout
    assert ended.returncode == 0


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


@pytest.fixture
def all_tests(tmp_path):
    """Return what runs `tests/all.py` over a test that fails until `mended` is there."""
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "all.py", tmp_path / "tests")
    settings = "[pytest]\naddopts = -p xdist.plugin\n"
    (tmp_path / "pytest.ini").write_text(settings)
    (tmp_path / "tests" / "test_one.py").write_text(
        "import pathlib\ndef test_unsteady():\n    assert pathlib.Path('mended').exists()\n"
    )

    def run(*arguments):
        command = [sys.executable, "tests/all.py", "-n1", *arguments]
        # Without the plugins of this machine, which take more time than a test.
        own = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        return subprocess.run(
            command, cwd=tmp_path, env=own, capture_output=True, check=False
        ).returncode

    return run


def test_what_failed_and_passes_alone_passes_the_second_run(all_tests, tmp_path):
    """As the second run of a suite, with ``--last-failed``."""
    assert all_tests() == 1
    assert all_tests("--last-failed") == 1
    (tmp_path / "mended").touch()
    assert all_tests("--last-failed") == 0


def test_a_run_without_tests_has_lost_them(all_tests, tmp_path):
    """It fails."""
    (tmp_path / "tests" / "test_one.py").unlink()
    assert all_tests() != 0


def test_a_killed_process_ends_the_run(all_tests, tmp_path, monkeypatch):
    """It neither waits for ever nor passes for a run of every test when the test passes alone."""
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path / "tests")
    monkeypatch.setenv("TEST_EXITS_FILE", str(tmp_path / "exits"))
    for file in range(6):
        (tmp_path / "tests" / f"test_{file}.py").write_text(
            "import os, pytest\n"
            "@pytest.mark.parametrize('number', range(40))\n"
            f"def test_killed(number):\n    ({file}, number) == (3, 20) and os.kill(os.getpid(), 9)\n"
        )
    assert all_tests("-n3") != 0
    assert "3" in (tmp_path / "exits").read_text().split()
