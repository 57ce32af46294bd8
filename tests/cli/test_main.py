"""The command itself: help, exit codes, and handing over to the demo."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import llmeval_sdk
from llmeval_sdk import cli


@pytest.mark.parametrize("command", ["report", "explain", "doctor"])
def test_every_command_has_help_with_an_example(llmeval, command):
    """A person who knows only the name gets to a first result."""
    done = llmeval(command, "--help")
    assert done.returncode == 0
    assert f"example:\n  llmeval {command}" in done.stdout


@pytest.mark.parametrize("command", [*cli.commands(), "ragas setup"])
@pytest.mark.plugin("ragas")
def test_help_is_as_wide_as_the_terminal(llmeval, command):
    """Paragraphs are filled, tables and examples keep their lines, and no word is broken."""
    done = llmeval(*command.split(), "--help", COLUMNS="80")
    assert [line for line in done.stdout.splitlines() if len(line) > 80] == []
    wide = llmeval(*command.split(), "--help", COLUMNS="200")
    examples = [line for line in done.stdout.splitlines() if line.startswith("  llmeval ")]
    assert wide.stdout.split("usage: ")[1].split("\n\n", 1)[1].split() == (
        done.stdout.split("usage: ")[1].split("\n\n", 1)[1].split()
    )
    assert all(line in wide.stdout for line in examples)


def listed(done):
    """Return the commands that a help lists."""
    lines = (line for line in done.stdout.splitlines() if line.startswith("    "))
    return {line.split()[0] for line in lines if line[4] != " "} - {"COMMAND"}


def test_help_lists_the_commands_of_every_day_and_the_exit_codes(llmeval):
    """``llmeval --help`` names twelve commands at most, and how to see the rest."""
    for asking in ("--help", "-h"):
        done = llmeval(asking)
        assert done.returncode == 0
        assert listed(done) == set(cli._DAILY) & set(cli.commands())
        assert "--all" in done.stdout
    assert len(cli._DAILY) == 12
    assert "0 success, 1 a finding such as a failed gate, 2 the command" in done.stdout


def test_help_with_all_lists_every_command(llmeval):
    """In either order."""
    for asking in (("--help", "--all"), ("--all", "--help")):
        done = llmeval(*asking)
        assert done.returncode == 0
        assert listed(done) == set(cli.commands())


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (
            ("agreement", "labels of me.jsonl", "--risk"),
            "llmeval judges 'labels of me.jsonl' --risk",
        ),
        (("calibrate", "--evaluator", "x"), "llmeval judges --calibrate --evaluator x"),
        (("calibrate", "--help"), "llmeval judges --calibrate --help"),
    ],
)
def test_a_command_of_before_prints_what_to_write(llmeval, before, now):
    """The whole command, ready to be copied."""
    done = llmeval(*before)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(f": {now}\n")


def test_the_command_says_its_version(llmeval):
    """It is the one that is installed."""
    done = llmeval("--version")
    assert (done.returncode, done.stdout) == (0, f"llmeval {llmeval_sdk.__version__}\n")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "the following arguments are required: COMMAND"),
        (("reprot",), "invalid choice: 'reprot'"),
        (("report", "--nonsense"), "--nonsense; `llmeval report --help` lists the options"),
        (("report", "extra"), "unrecognized arguments: extra"),
        (("explain",), "one of the arguments ID --last --worst is required"),
    ],
)
def test_wrong_usage_is_exit_code_2(llmeval, args, words):
    """The message says what was wrong; nothing runs."""
    done = llmeval(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


@pytest.mark.plugin("demo")
def test_the_demo_gets_its_arguments_as_they_are(monkeypatch):
    """Options behind ``llmeval demo`` are the demo's own, also ``--help`` and ``--``."""
    import llmeval_sdk.plugins.demo.command

    given = []
    monkeypatch.setattr(
        llmeval_sdk.plugins.demo.command, "main", lambda argv: given.append(argv) or 7
    )
    args = ["--help", "--limit", "3", "-x", "word", "--", "more"]
    assert cli.main(["demo", *args]) == 7
    assert given == [args]


@pytest.mark.plugin("demo")
def test_the_demo_is_reached_for_real(llmeval):
    """``llmeval demo --help`` is the demo's help, not ours."""
    done = llmeval("demo", "--help")
    assert done.returncode == 0
    assert "usage: llmeval demo" in done.stdout


def test_help_loads_nothing_heavy():
    """Looking at the help takes no judge, no client and no rich."""
    code = (
        "import sys\nfrom llmeval_sdk import cli\n"
        "try: cli.main(['--help'])\nexcept SystemExit: pass\n"
        "print(sorted({'openai', 'rich', 'asyncio', 'tenacity', 'rapidfuzz', 'numpy'} & set(sys.modules)))"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=50
    )
    assert done.stdout.splitlines()[-1] == "[]"
