"""The core knows nothing of what can be deleted, and stays within its ceilings.

``make core`` deletes each part and runs what is left; here is what can be seen without that.
"""

import sys
from types import ModuleType

import deletable
import pytest

import llmeval_sdk as llmeval
from llmeval_sdk import registry
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.testing import FakeLLM, capture


def test_the_core_imports_no_part_that_can_be_deleted():
    """It finds viewer, offline runs, Ragas and the like by name, when one is asked for."""
    assert deletable.core_imports_of_parts() == []


@pytest.mark.parametrize("what", deletable.CEILINGS)
def test_the_core_stays_below_its_ceilings(what):
    """What is added either retires something or belongs to a part."""
    assert deletable.core_figures()[what] <= deletable.CEILINGS[what]


def test_every_part_is_there():
    """A file that was moved or renamed is named anew, so that nothing slips into the core."""
    for part, places in deletable.PARTS.items():
        for place in places:
            assert (deletable.PACKAGE / place).exists(), f"{part}: {place}"


def test_a_part_goes_with_what_is_built_upon_it():
    """Who deletes what reads the store deletes the viewer; nothing stands upon the viewer alone."""
    assert {"viewer", "cli", "offline"} <= deletable.built_upon("reading")
    assert "offline" not in deletable.built_upon("viewer")
    assert deletable.built_upon("phoenix") == {"phoenix"}


def test_code_is_counted_without_what_explains_it(tmp_path):
    """A docstring, a comment or a blank line costs nothing; a text that is a value does."""
    file = tmp_path / "some.py"
    file.write_text(
        '"""Doc.\n\nMore.\n"""\n\n# why\nA = """x\ny"""\n\n\ndef f():\n    """Doc."""\n'
    )
    assert deletable.code_lines(file) == 3


def test_a_share_of_judgements_goes_by_the_scores_that_are_there(monkeypatch):
    """Without the part for extractions, only who names its score is told that it is gone."""
    for name in ("extraction_risk", "abstention_risk"):
        monkeypatch.setitem(registry.HEURISTICS, name, "llmeval_sdk.heuristics.deleted:risk")
    setup = {"llm": FakeLLM({"rationale": "said so", "rating": "yes"}), "exporters": ["memory"]}
    llmeval.configure(**setup, judge_share=1.0)
    by_a_deleted_score = llmeval.Escalation("groundedness", share=0.5, by="extraction_risk")
    with pytest.raises(ConfigurationError, match="not part of this installation"):
        llmeval.configure(**setup, escalations=[by_a_deleted_score])


def test_no_metrics_are_shown_where_their_part_was_deleted(monkeypatch):
    """The worker goes on and nothing is said: nobody asked for them."""
    monkeypatch.setitem(sys.modules, "llmeval_sdk.exporters.otel.metrics", None)
    monkeypatch.setitem(sys.modules, "opentelemetry.metrics", ModuleType("metrics"))
    with capture() as seen:
        before = dict(llmeval.stats().problems)
        with llmeval.workflow("w"):
            pass
        assert dict(seen.drain().problems) == before


def test_what_was_deleted_is_said_to_be_absent():
    """A name whose file is gone is an error that says so, wherever it is asked for by name."""
    with pytest.raises(ConfigurationError, match="not part of this installation"):
        registry.load("llmeval_sdk.exporters.deleted:Exporter")
