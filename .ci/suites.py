"""Run every suite beyond ``make test``, and say at the end what each of them did.

    python3 .ci/suites.py [NAME …]        # all of them, or those that are named

A suite is a target of the Makefile. Those that keep no time run two at a time, after the others.
One that fails fails the run. One that this machine cannot run
(a Python that is not installed, no Chromium and no right to install it) is named in the table with
the reason. So are one that had nothing to compare with, and tests that were skipped in every suite:
nothing is left out in silence.
With ``EVERY_SUITE_MUST_RUN=1``, one that this machine cannot run fails the run as well.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path


ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))
from interpreters import interpreter  # noqa: E402 - the tests' own helper, found by the line above


RESULTS = ROOT / "build" / "ci"
BEGUN = time.monotonic()
AT_A_TIME = 2
"""Suites that run beside each other, of those that keep no time."""
NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True)
class Suite:
    """One target of the Makefile, and what must be there for it to run."""

    name: str
    target: str
    shows: str
    python: str = ""
    """The version of Python that it needs besides the one that runs everything."""
    commands: tuple[str, ...] = ()
    """Commands of which one must be there, unless this user may install packages."""
    variables: tuple[str, ...] = ()
    """Further variables for make, as ``NAME=value``."""
    arguments: str = ""
    """What the target gets as its ARGS."""
    counts_tests: bool = True
    within: float = float("inf")
    """It is left out where so many seconds have passed since the first suite began."""
    keeps_time: bool = True
    """Whether its tests measure, or wait with deadlines, so that nothing may run beside it."""


SUITES = (
    Suite("test", "test", "lint, types, import contract and the tests of every change"),
    Suite("faults", "test-faults", "networks, forks, signals, killed processes, damaged stores"),
    Suite(
        "servers",
        "test-servers",
        "gunicorn, uvicorn, uWSGI, Celery, RQ, multiprocessing",
        commands=("redis-server",),
    ),
    Suite("datadog", "test-datadog", "ddtrace and Datadog's test agent"),
    Suite(
        "fleet",
        "test-fleet",
        "the judge fleet and what many hosts share: Redis, Celery's workers, kill -9",
        commands=("redis-server",),
    ),
    Suite(
        "viewer",
        "test-viewer",
        "the viewer in Chromium",
        commands=("chromium", "chromium-browser", "google-chrome"),
    ),
    Suite(
        "hosts",
        "test-hosts",
        "one service in seventeen hosts: what was sent, stored, judged",
        commands=("redis-server",),
        counts_tests=False,
    ),
    # The longest begin first, so that none runs on by itself at the end.
    Suite(
        "backends",
        "test-backends",
        "Phoenix, MLflow, an OTLP receiver, instrumentations, Prometheus and dashboards",
        keeps_time=False,
    ),
    Suite(
        "core",
        "core",
        "the core without its plugins, and each plugin gone in turn",
        counts_tests=False,
        keeps_time=False,
    ),
    *(
        Suite(
            f"python {version}",
            "matrix",
            f"what depends on the interpreter, on Python {version}",
            python=version,
            variables=(f"VERSIONS={version}",),
            arguments="--of-every-python",
            keeps_time=False,
        )
        for version in ("3.10", "3.12", "3.13")
    ),
    Suite(
        "ray",
        "test-ray",
        "offline evaluation on Ray Data: the same report, kill -9, resuming",
        keeps_time=False,
    ),
    Suite("guide", "test-guide", "Datadog's Ragas guide, end to end", keeps_time=False),
    Suite("ragas", "test-ragas", "the real Ragas", keeps_time=False),
    Suite(
        "prices",
        "test-prices",
        "the price list of models, beside genai-prices itself",
        keeps_time=False,
    ),
    Suite(
        "pyinstaller",
        "test-pyinstaller",
        "an app that PyInstaller froze: traces, scores, a judge, commands",
        keeps_time=False,
    ),
    Suite(
        "docs",
        "test-docs",
        "the site builds without a warning, its pages can be followed",
        keeps_time=False,
    ),
    Suite(
        "package",
        "test-package",
        "wheel and sdist, installed and used",
        counts_tests=False,
        keeps_time=False,
    ),
    Suite(
        "instructions",
        "instructions",
        "no main path takes over 5 % more instructions than its baseline",
        commands=("valgrind",),
        counts_tests=False,
        keeps_time=False,  # what runs beside it changes times, and no count
    ),
    Suite(
        "workflows",
        "test-workflows",
        "the workflow files of the forge, and that what checks them finds mistakes",
        commands=("npm",),
        keeps_time=False,
    ),
    Suite(
        "coverage",
        "coverage",
        "branch coverage, above its floor",
        counts_tests=False,
        within=2_300,  # it takes minutes of two cores, and all suites have an hour
        keeps_time=False,
    ),
)


@dataclass
class Outcome:
    """What came of one suite."""

    suite: Suite
    state: str = "passed"
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    """Processor time, which says how long it takes on a machine that does nothing else."""
    ran: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    skipped: dict[str, str] = field(default_factory=dict)
    """The names of the tests that were skipped, with the reasons."""
    unsteady: set[str] = field(default_factory=set)
    """Tests that failed at first and passed when they ran again by themselves."""
    reason: str = ""

    def line(self) -> str:
        """Return this suite's row of the table."""
        tests = f"{len(self.ran):,} ran, {len(self.skipped)} skipped" if self.ran else ""
        times = f"{self.seconds:5.0f} s {self.cpu_seconds:5.0f} s"
        shown = self.reason or self.suite.shows
        return f"{self.suite.name:<12} {self.state:<11} {times}  {tests:<23} {shown}"


def obstacle(suite: Suite) -> str:
    """Return why this machine cannot run a suite, or has no time for it, or nothing."""
    if time.monotonic() - BEGUN > suite.within:
        return (
            f"more than {suite.within / 60:.0f} minutes had passed; `make {suite.target}` runs it"
        )
    if suite.python and interpreter(suite.python) is None:
        return f"Python {suite.python} is not installed"
    if suite.commands and not any(map(shutil.which, suite.commands)):
        may_install = os.geteuid() == 0 and shutil.which("apt-get")
        if not may_install:
            return f"none of {', '.join(suite.commands)} is installed"
    return ""


def read_results(path: Path, outcome: Outcome) -> None:
    """Read pytest's own account of a run."""
    for case in ET.parse(path).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        skip = case.find("skipped")
        if skip is not None:
            outcome.skipped[name] = skip.get("message") or ""
            continue
        outcome.ran.add(name)
        if case.find("failure") is not None or case.find("error") is not None:
            outcome.failed.add(name)


def left_tests_out(outcome: Outcome, exits: Path) -> bool:
    """Say whether a run ended before its last test, so that nobody knows what it left out.

    A pytest that broke off exits with another status than 0, 1 (tests failed) or 5 (none chosen).
    Beside xdist, a file that cannot be collected exits with 1 too: pytest's account then names it
    as a test that belongs to no module.
    """
    codes = exits.read_text().split() if exits.is_file() else []
    broke_off = not codes or not set(codes) <= {"0", "1", "5"}
    return broke_off or any(name.startswith("::") for name in outcome.failed)


def run(suite: Suite) -> Outcome:
    """Run one suite: with its output as it comes, or at its end where others run beside it."""
    outcome = Outcome(suite, reason=obstacle(suite))
    if outcome.reason:
        outcome.state = "CANNOT RUN"
        return outcome
    path = RESULTS / f"{suite.name.replace(' ', '-')}.xml"
    exits, trouble = path.with_suffix(".exits"), path.with_suffix(".trouble")
    output = path.with_suffix(".log")
    for old in (path, exits, trouble, output):
        old.unlink(missing_ok=True)
    # pytest writes its exit status (tests/conftest.py), the Makefile what it could not install;
    # `make instructions` writes that there is no baseline for this Python, and does not fail.
    written = {"TEST_EXITS_FILE": str(exits), "SUITE_TROUBLE": str(trouble)}
    # What failed is remembered for each suite by itself, because two may run at the same time.
    memory = f"--override-ini=cache_dir={path.with_suffix('.cache')}"
    account = f"--junitxml={path} {memory}" if suite.counts_tests else ""
    print(f"\n=== {suite.name}: {suite.shows}", flush=True)
    begun = time.monotonic()
    status = make(suite, account, outcome, output, written)
    if path.exists():
        read_results(path, outcome)
    if status and outcome.failed and not left_tests_out(outcome, exits):
        status = once_more(suite, memory, outcome, output)
    outcome.seconds = time.monotonic() - begun
    if status:
        outcome.state = "FAILED"
        outcome.reason = "; ".join(trouble.read_text().splitlines() if trouble.is_file() else ())
    elif trouble.is_file():
        outcome.state, outcome.reason = "LEFT OUT", "; ".join(trouble.read_text().splitlines())
    elif suite.counts_tests and not outcome.ran:
        outcome.state, outcome.reason = "FAILED", "no test ran"
    if output.is_file():
        print(f"\n=== the output of {suite.name}\n{output.read_text(errors='replace')}")
    return outcome


def make(
    suite: Suite,
    arguments: str,
    outcome: Outcome,
    output: Path,
    written: Mapping[str, str] = NOTHING,
) -> int:
    """Make a suite's target, add its processor time to the outcome and return its exit status."""
    command = ["make", "--no-print-directory", suite.target, *suite.variables]
    # Named also where it is empty: else a target takes the ARGS that `make suites` was given.
    command.append(f"ARGS={suite.arguments} {arguments}".rstrip())
    with nullcontext() if suite.keeps_time else output.open("ab") as file:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **written}, stdout=file, stderr=file
        )
        _, status, usage = os.wait4(process.pid, 0)
    outcome.cpu_seconds += usage.ru_utime + usage.ru_stime
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode


def once_more(suite: Suite, memory: str, outcome: Outcome, output: Path) -> int:
    """Run the tests that failed again, by themselves, and name those that pass then.

    A machine that is busy with something else fails a bar of time now and then. Such a test is no
    reason to refuse a change, but it is named in the table, so that somebody looks at it.
    """
    print(
        f"\n=== {suite.name}: {len(outcome.failed)} failed; they run again by themselves",
        flush=True,
    )
    again = f"--last-failed --last-failed-no-failures=none {memory}"
    status = make(suite, again, outcome, output)
    if not status:
        outcome.unsteady, outcome.failed = outcome.failed, set()
    return status


def never_run(outcomes: list[Outcome]) -> dict[str, str]:
    """Return the tests that were skipped in every suite, with a reason."""
    ran: set[str] = set().union(*(outcome.ran for outcome in outcomes))
    return {
        name: reason
        for outcome in outcomes
        for name, reason in outcome.skipped.items()
        if name not in ran
    }


def run_all(suites: list[Suite]) -> Iterator[Outcome]:
    """Yield what came of each suite: those that keep time one by one, then the others."""
    for suite in suites:
        if suite.keeps_time:
            outcome = run(suite)
            yield outcome
            if suite.name == "test" and outcome.state == "FAILED":
                return  # the heavier suites would say the same, later
    # Two that ran at the same time would both make the environment that all of them share.
    subprocess.run(["make", "--no-print-directory", "environment"], cwd=ROOT, check=False)
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        yield from pool.map(run, [suite for suite in suites if not suite.keeps_time])


def main(names: list[str]) -> int:
    """Run the suites and print the table; 1 when one of them failed."""
    known = {suite.name: suite for suite in SUITES}
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no suite is called {unknown[0]!r}: there are {', '.join(known)}", file=sys.stderr)
        return 2
    RESULTS.mkdir(parents=True, exist_ok=True)
    outcomes = []
    for outcome in run_all([known[name] for name in names or known]):
        outcomes.append(outcome)
        print(outcome.line(), flush=True)  # in case the run is ended before its table
    print(f"\n{'suite':<12} {'state':<11} {'time':>7} {'cpu':>7}  {'tests':<23} what it shows")
    for outcome in outcomes:
        print(outcome.line())
        for test in sorted(outcome.failed):
            print(f"             failed: {test}")
        for test in sorted(outcome.unsteady):
            print(f"             UNSTEADY, passed when it ran again: {test}")
    print(f"{'all of them':<24} {time.monotonic() - BEGUN:5.0f} s")
    left_out = never_run(outcomes)
    if left_out:
        print(f"\n{len(left_out)} tests ran in none of these suites:")
        for name, reason in sorted(left_out.items()):
            print(f"  {name}: {reason}")
    failed = [outcome for outcome in outcomes if outcome.state == "FAILED"]
    cannot = [outcome for outcome in outcomes if outcome.state == "CANNOT RUN"]
    for outcome in outcomes:
        if outcome.state in ("CANNOT RUN", "LEFT OUT"):
            print(f"NOT RUN on this machine: {outcome.suite.name}: {outcome.reason}")
    must_run = os.environ.get("EVERY_SUITE_MUST_RUN") == "1"
    return 1 if failed or (must_run and cannot) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
