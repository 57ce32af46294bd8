"""Run the whole suite with this Python, three files at a time.

    python tests/all.py [pytest's arguments]          # what ``make matrix`` runs
    python tests/all.py --every-change [arguments]    # what ``make test`` runs
    python tests/all.py --waiting tests/plugins/fleet         # tests that mostly wait: four at a time

``--every-change`` leaves `OWN_SUITES` to suites of their own, so that it takes minutes only.
``--of-every-python`` runs `OF_EVERY_PYTHON` only. ``--coverage`` prints the branch coverage of
those of every change that do their work in this process, and fails below the floor in
``pyproject.toml``; whether they pass is for a run without it to say.

No test is decided by a clock, so all of them run beside others.
"""

import os
import subprocess
import sys
from pathlib import Path


ROOT = Path(__file__).resolve().parent.parent
OWN_SUITES = (
    "tests/faults", "tests/pipeline/spool/test_survival.py",
    "tests/plugins/sessions/test_processes.py", "tests/plugins/serverless/test_freezing.py",
    "tests/servers", "tests/docs",
)  # fmt: skip
"""What ``make test-faults``, ``test-servers`` and ``test-docs`` run."""
OWN_ENVIRONMENT = (
    "tests/plugins/fleet", "tests/plugins/shared", "tests/plugins/ray", "tests/workflows",
    "tests/judges/models/test_price_list.py", "tests/hosts/pyinstaller",
)  # fmt: skip
"""What only ``make test-fleet``, ``test-ray``, ``test-workflows``, ``test-prices`` and
``test-pyinstaller`` can run: with Redis and Celery, with Ray, with what checks the workflow files,
with genai-prices, or with PyInstaller."""
IN_OTHER_PROCESSES = (
    "tests/test_examples.py", "tests/test_peers.py", "tests/plugins/demo", "tests/core",
    "tests/plugins/ragas/child",
    "tests/frozen", "tests/cli/test_in_process.py", "tests/offline/test_pytest_plugin.py",
    "tests/exporters/otlp/test_services.py", "tests/judges/decisions/test_benchmark.py",
)  # fmt: skip
"""Tests of what other processes do, whose lines the measurement of coverage does not see."""
OF_EVERY_PYTHON = (
    "tests/tracing", "tests/model", "tests/process",
    "tests/pipeline/runtime", *map(str, sorted(Path("tests/pipeline").glob("test_*.py"))),
    "tests/pipeline/spool/test_round_trip.py",
    *map(str, sorted(Path("tests/exporters").glob("test_*.py"))), "tests/plugins/openinference",
    "tests/frozen", "tests/plugins/demo", "tests/cli/test_main.py", "tests/cli/test_in_process.py",
    "tests/offline/test_model.py", "tests/plugins/sessions/test_turn_store.py",
    "tests/plugins/sessions/test_live.py",
)  # fmt: skip
"""What CI runs on each other Python: what depends on the interpreter (wrapped functions, frames,
threads, forks, exits, pickles, annotations), each command once, and the demo."""
ENDS = "--max-worker-restart=0"
"""A run ends when a process of its own is killed: with a new one in its place xdist waits for ever
for the tests of the old one."""
THREE_FILES = ("-n", "3", "--dist", "loadfile", ENDS)
FOUR_TESTS = ("-n", "4", "--dist", "load", ENDS)
"""One more than the cores of CI: some tests wait, for deadlines and for other processes."""


def main(arguments):
    """Run the tests that the arguments choose; returns what pytest exits with, or 1."""
    ours = {"--every-change", "--of-every-python", "--coverage", "--waiting"}.intersection(
        arguments
    )
    arguments = [part for part in arguments if part not in ours]
    ignored = tuple(place for place in OWN_ENVIRONMENT if place not in arguments)
    ignored += OWN_SUITES if ours & {"--every-change", "--coverage"} else ()
    ignored += IN_OTHER_PROCESSES if "--coverage" in ours else ()
    arguments += [f"--ignore={place}" for place in ignored]
    if "--of-every-python" in ours:
        arguments += OF_EVERY_PYTHON
    command = [*(FOUR_TESTS if "--waiting" in ours else THREE_FILES), *arguments]
    if "--coverage" in ours:
        command += ["--cov", "--cov-report=", "--cov-fail-under=0"]
    code = subprocess.run([sys.executable, "-m", "pytest", *command], check=False).returncode
    if code > 1 and (exits := os.environ.get("TEST_EXITS_FILE")):
        with Path(exits).open("a") as file:  # a run that was killed could not write its own
            file.write(f"{code}\n")
    if "--coverage" not in ours:
        return code
    report = [sys.executable, "-m", "coverage", "report"]
    is_low = subprocess.run(report, check=False, cwd=ROOT).returncode != 0
    if code == 1:
        print("tests fail where a trace function slows them; `make test` is what decides there")
    return int(is_low or code > 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
