"""What checks the workflow files finds mistakes in them, and only there."""

import os
import subprocess
from pathlib import Path

import pytest


ROOT = Path(__file__).resolve().parents[2]
FLAWLESS = """\
name: Greeting
on:
  push:
    branches: [main]
permissions: {}
concurrency:
  group: greeting
  cancel-in-progress: true
jobs:
  greet:
    name: Greet
    runs-on: ubuntu-latest
    timeout-minutes: 5
    steps:
      - uses: actions/checkout@v7
        with:
          persist-credentials: false
      - run: echo "$TITLE"
        env:
          TITLE: ${{ github.event.head_commit.message }}
"""


@pytest.fixture
def lint(tmp_path):
    """Return what runs `make lint-workflows` over a folder with one workflow, or with none."""
    if not (ROOT / ".venv-workflows").is_dir():
        pytest.skip("what checks the workflow files is not installed: make test-workflows")
    folder = tmp_path / ".github" / "workflows"
    folder.mkdir(parents=True)
    # Another make may have started the tests, with variables that are none of this one.
    around = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}

    def run(workflow=None):
        if workflow:
            (folder / "greeting.yml").write_text(workflow)
        return subprocess.run(
            ["make", "lint-workflows", f"FORGE={folder.parent}"],
            cwd=ROOT, env=around, capture_output=True, text=True, check=False,
        )  # fmt: skip

    return run


def test_a_flawless_workflow_passes(lint):
    """Without it, the failures below could have any reason."""
    linted = lint(FLAWLESS)
    assert linted.returncode == 0, linted.stdout + linted.stderr


def test_a_folder_without_a_workflow_fails(lint):
    """A folder that was renamed is not taken for one without mistakes."""
    linted = lint()
    assert linted.returncode != 0
    assert "no workflow file is in" in linted.stderr


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("runs-on: ubuntu-latest", "runs-on: ubuntu-newest", 'label "ubuntu-newest" is unknown'),
        ("jobs:", "job:", 'unexpected key "job"'),
        ("github.event.head_commit", "gitlab.event", 'undefined variable "gitlab"'),
        ("permissions: {}", "permissions: {content: read}", 'scope "content"'),
        ("name: Greet\n    runs-on", "needs: build\n    runs-on", 'needs job "build"'),
    ],
)
def test_actionlint_finds_what_the_forge_would_refuse(lint, right, wrong, message):
    """Such as an unknown key, variable, permission or job, with its place."""
    linted = lint(FLAWLESS.replace(right, wrong))
    assert linted.returncode != 0
    (line,) = [line for line in linted.stdout.splitlines() if message in line]
    assert "greeting.yml:" in line


@pytest.mark.parametrize(
    ("right", "wrong", "audit"),
    [
        ('"$TITLE"', '"${{ github.ref_name }}"', "template-injection"),
        ("permissions: {}", "permissions: write-all", "excessive-permissions"),
        ("persist-credentials: false", "persist-credentials: true", "artipacked"),
        ("actions/checkout@v7", "docker://alpine", "unpinned-images"),
        ("  push:\n    branches: [main]", "  pull_request_target:", "dangerous-triggers"),
    ],
)
def test_zizmor_finds_what_is_unsafe(lint, right, wrong, audit):
    """Although it is a workflow that the forge would run."""
    linted = lint(FLAWLESS.replace(right, wrong))
    assert linted.returncode != 0
    assert f"[{audit}]" in linted.stdout
