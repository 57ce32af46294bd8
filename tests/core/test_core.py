"""The core knows nothing of what can be deleted, and stays within its ceilings.

``make core`` deletes each part and runs what is left; here is what can be seen without that.
"""

import deletable
import pytest

from llmeval_sdk import registry
from llmeval_sdk.errors import ConfigurationError


def test_the_core_imports_no_part_that_can_be_deleted():
    """It finds viewer, offline runs, Ragas and the like by name, when one is asked for."""
    assert deletable.core_imports_of_parts() == []


TOO_LARGE = pytest.mark.xfail(strict=True, reason="the core has 21,374 lines of code so far")


@pytest.mark.parametrize(
    "what", [pytest.param("lines of code", marks=TOO_LARGE), "public names", "settings"]
)
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


def test_what_was_deleted_is_said_to_be_absent():
    """A name whose file is gone is an error that says so, wherever it is asked for by name."""
    with pytest.raises(ConfigurationError, match="not part of this installation"):
        registry.load("llmeval_sdk.exporters.deleted:Exporter")
