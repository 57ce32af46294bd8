"""The core knows nothing of what can be deleted.

``make core`` deletes the plugins and runs what is left; here is what can be seen without that.
"""

import ast
import re
from pathlib import Path

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import registry
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.testing import FakeLLM


PACKAGE = Path(llmeval.__file__).parent
MOST_ENTRIES = 22


def test_one_look_shows_the_parts():
    """The top of the package has few enough entries to be held in mind."""
    entries = {path.name for path in PACKAGE.iterdir()} - {"__pycache__", "py.typed"}
    assert len(entries) <= MOST_ENTRIES, sorted(entries)


def test_the_core_names_no_plugin():
    """It finds them by the one list of the registry, and what they bring by tables of names."""
    naming = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if "plugins" not in path.relative_to(PACKAGE).parts
        and "llmeval_sdk.plugins." in path.read_text("utf-8")
    }
    assert naming == {"__init__.py"}  # the public names of `instrument`, which are loaded lazily


@pytest.mark.parametrize("plugin", registry.plugins(), ids=lambda plugin: plugin.name)
def test_a_plugin_imports_only_plugins_that_it_requires(plugin):
    """So whoever deletes one knows which others go with it."""
    allowed = {plugin.name, *plugin.requires}
    for need in registry.plugins():
        if need.name in allowed:
            allowed |= {*need.requires}
    imported = set()
    for path in (PACKAGE / "plugins" / plugin.name).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(f"{node.module}.{name.name}" for name in node.names)]
                imported |= {
                    name.split(".")[2] for name in names if name.startswith("llmeval_sdk.plugins.")
                }
    assert imported <= allowed


def test_no_address_of_the_core_stands_outside_the_registry():
    """An address in a text is seen by no type checker: those there are stand in one file."""
    address = re.compile(r"""["']llmeval_sdk\.[\w.]+:\w+["']""")
    found = {
        str(path.relative_to(PACKAGE)): address.findall(path.read_text("utf-8"))
        for path in PACKAGE.rglob("*.py")
        if path.name != "registry.py" and "plugins" not in path.relative_to(PACKAGE).parts
    }
    assert {path: texts for path, texts in found.items() if texts} == {}


def test_a_share_of_judgements_goes_by_the_scores_that_are_there(monkeypatch):
    """Without a score of extractions, only who names it is told that it is gone."""
    for name in ("extraction_risk", "abstention_risk"):
        monkeypatch.setitem(registry.heuristics(), name, "llmeval_sdk.heuristics.deleted:risk")
    setup = {"llm": FakeLLM({"rationale": "said so", "rating": "yes"}), "exporters": ["memory"]}
    llmeval.configure(**setup, judge_share=1.0)
    by_a_deleted_score = llmeval.Escalation("groundedness", share=0.5, by="extraction_risk")
    with pytest.raises(ConfigurationError, match="not part of this installation"):
        llmeval.configure(**setup, escalations=[by_a_deleted_score])


def test_what_was_deleted_is_said_to_be_absent():
    """A name whose file is gone is an error that says so, wherever it is asked for by name."""
    with pytest.raises(ConfigurationError, match="not part of this installation"):
        registry.load("llmeval_sdk.exporters.deleted:Exporter")
