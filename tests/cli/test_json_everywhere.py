"""Every command whose output a program may want to read has `--json`, and prints only that."""

import argparse
import json

import pytest

from llmeval_sdk.cli import _parser


WITHOUT = {
    "demo": "has `--json` among its own options",
    "run": "prints what the program prints",
    "export": "prints JSON lines by itself",
    "ragas": "only its `setup` prints something",
    "dataset": "only its actions print something",
}
"""Commands that need no such option, and why."""


def commands_of(parser, path=()):
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield " ".join((*path, name)), below
                yield from commands_of(below, (*path, name))


@pytest.mark.plugin("ragas")
def test_every_command_has_the_option():
    """The exceptions have their reason; a new command is asked for the option."""
    lacking = {
        name
        for name, parser in commands_of(_parser())
        if not any("--json" in action.option_strings for action in parser._actions)
    }
    assert lacking == set(WITHOUT)


def test_the_agent_prints_an_object_before_and_one_after(llmeval, tmp_path):
    """The first says what it drains, so that a program knows it has begun; the last is the account."""
    done = llmeval("agent", "--spool", tmp_path / "spool", "--once", "--json")
    assert done.returncode == 0, done.stderr
    first, last = map(json.loads, done.stdout.splitlines())
    assert (first["spool"], first["exporters"]) == (str(tmp_path / "spool"), ["local"])
    assert (last["taken"], last["left"], last["complete"]) == (0, 0, True)


@pytest.mark.plugin("ragas")
def test_ragas_setup_prints_what_it_did(llmeval, tmp_path):
    """Where there is no environment, nothing was removed."""
    home = tmp_path / "ragas"
    done = llmeval("ragas", "setup", "--dir", home, "--remove", "--json")
    assert json.loads(done.stdout) == {"folder": str(home), "removed": False}


@pytest.mark.parametrize("command", ["report", "report --by user", "traces", "compare --by model"])
def test_nothing_to_say_is_a_document_too(llmeval, store, command):
    """A store with a single span and no score prints JSON, not a sentence."""
    store.span("01" * 8)
    done = llmeval(*command.split(), "--store", store.path, "--json")
    assert json.loads(done.stdout) is not None, done.stderr
