"""The workflow files of the forge run what people run, on the Pythons that are declared."""

import re
import runpy
from pathlib import Path

import pytest


ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = {path.stem: path.read_text("utf-8") for path in ROOT.glob(".github/workflows/*.yml")}
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
SUITES = runpy.run_path(str(ROOT / ".ci" / "suites.py"))["SUITES"]
USUAL = "3.11"
"""The Python that runs the suites, but for those of a certain version."""


def listed(name, workflow):
    """Return the values of a name in the matrices of a workflow."""
    lists = re.findall(rf"^ +{name}: \[(.*)\]$", workflow, re.MULTILINE)
    return [value.strip(' "') for values in lists for value in values.split(",")]


def made(workflow):
    """Return the targets that a workflow makes, in its commands and by a matrix of them."""
    commands = re.findall(r"^ +(?:- )?run: (.*)$", workflow, re.MULTILINE)
    after_make = [part for line in commands for part in re.findall(r"\bmake ([^&|;]*)", line)]
    words = [word for part in after_make for word in part.split()]
    return [word for word in words if re.fullmatch("[a-z-]+", word)] + listed("target", workflow)


def declared():
    """Return the versions of Python that the package declares."""
    settings = (ROOT / "pyproject.toml").read_text("utf-8")
    return re.findall(r"Programming Language :: Python :: (3\.\d+)", settings)


def number(version):
    """Return what sorts 3.9 before 3.10."""
    return [int(part) for part in version.split(".")]


@pytest.mark.parametrize("name", ["pull-request", "nightly", "release"])
def test_each_workflow_runs_something(name):
    """Else the tests below would hold for files that they cannot read."""
    assert made(WORKFLOWS[name]) + listed("suite", WORKFLOWS[name])


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_makes_targets_that_exist(name):
    """A target that was renamed is noticed before the night."""
    assert {*made(WORKFLOWS[name])} <= TARGETS


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_runs_suites_that_exist(name):
    """By the names that `.ci/suites.py` has for them."""
    assert {*listed("suite", WORKFLOWS[name])} <= {suite.name for suite in SUITES}


def test_each_suite_is_a_target():
    """The table of a run tells people to make it."""
    assert {suite.target for suite in SUITES} <= TARGETS


def test_every_suite_runs_in_the_night():
    """By the command that runs all of them, and fails where one cannot run."""
    night = WORKFLOWS["nightly"]
    assert re.search(r'run: \.ci/run\n +env:\n +EVERY_SUITE_MUST_RUN: "1"$', night, re.MULTILINE)


@pytest.mark.parametrize("name", ["pull-request", "nightly"])
def test_the_declared_pythons_must_pass(name):
    """Exactly these, which are those of the suites as well."""
    versions = listed("python", WORKFLOWS[name])
    assert versions == declared()
    assert versions == sorted(
        {USUAL, *(suite.python for suite in SUITES if suite.python)}, key=number
    )


@pytest.mark.parametrize("name", ["pull-request", "nightly"])
def test_an_undeclared_python_is_an_experiment(name):
    """Its failure fails no run; once it is declared, it has to move into the list."""
    tried = re.findall(r'^ +- python: "(3\.\d+)"\n +(.*)$', WORKFLOWS[name], re.MULTILINE)
    assert tried
    assert {is_experimental for _, is_experimental in tried} == {"experimental: true"}
    assert not {version for version, _ in tried} & {*declared()}
    assert "continue-on-error: ${{ matrix.experimental || false }}" in WORKFLOWS[name]


def test_the_declared_systems_are_tried():
    """Each in its own right: the tests simulate on Linux what the others lack."""
    settings = (ROOT / "pyproject.toml").read_text("utf-8")
    declared_systems = re.findall(r"Operating System :: (?:\w+ :: )?(\w+)", settings)
    others = listed("system", WORKFLOWS["pull-request"])
    assert declared_systems == ["MacOS", "Windows", "Linux"]
    assert others == ["macos-latest", "windows-latest"]
    assert "runs-on: ubuntu-latest" in WORKFLOWS["pull-request"]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_each_job_ends_in_time(name):
    """One that hangs does not run for the six hours that the forge gives it."""
    jobs = WORKFLOWS[name].count("runs-on:")
    assert jobs
    assert len(re.findall(r"^    timeout-minutes: \d\d$", WORKFLOWS[name], re.MULTILINE)) == jobs


@pytest.mark.parametrize("name", WORKFLOWS)
def test_each_action_has_a_version(name):
    """A tag, or the hash of one: zizmor would take the name of a branch as well."""
    actions = re.findall(r"uses: (.*)", WORKFLOWS[name])
    assert actions
    for action in actions:
        assert re.search(r"@(v\d+(\.\d+)*|[0-9a-f]{40} # v\d+(\.\d+)*)$", action), action


def test_only_the_upload_gets_an_identity():
    """What builds a release can write nowhere, and what uploads it checks out no code of ours."""
    jobs = re.split(
        r"^  (?=\w+:$)", WORKFLOWS["release"].partition("\njobs:\n")[2], flags=re.MULTILINE
    )
    build, publish, announce = jobs[1:]
    assert "write" not in build
    assert "id-token: write" in publish
    assert "id-token" not in announce
    for job in (publish, announce):
        assert "actions/checkout" not in job
        assert made(job) == []
