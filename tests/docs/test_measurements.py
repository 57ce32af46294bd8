"""The page of measurements is what its command makes of the figures that are kept."""

import copy
import re
from pathlib import Path

import pytest

from benchmarks.page import OURS, page, read, worse
from benchmarks.recorded import RESULTS


ROOT = Path(__file__).parents[2]


def test_the_page_is_what_the_command_makes_of_the_kept_figures():
    """A figure that was typed into the page, or measured without `make measurements`, is seen."""
    assert (ROOT / "docs" / "measurements.md").read_text("utf-8") == page()


def test_the_page_begins_with_where_we_are_worse_and_is_short():
    """At most 700 words, of the text and of the tables."""
    text = page()
    assert re.search(r"^## (.+)$", text, re.MULTILINE)[1] == "Where we are worse"
    assert len(re.findall(r"[^\s|]*\w[^\s|]*", text)) <= 700


@pytest.fixture
def rows():
    """Return the kept figures of all peers, to change some."""
    return copy.deepcopy(read(RESULTS, "peers")["figures"]["peers"])


def test_a_peer_that_is_clearly_better_is_named(rows):
    """With both figures, whether or not the page has said so before."""
    for row in rows:
        row["cases"]["small"]["p50"] = 20.0 if row["adapter"] == OURS else 30.0
    assert not [line for line in worse(rows) if "median of a call" in line]
    rows[-1]["cases"]["small"]["p50"] = 10.0
    (line,) = [line for line in worse(rows) if "median of a call" in line]
    assert f"we have 20.0; {rows[-1]['title']} has 10.0" in line


def test_an_empty_process_is_no_peer(rows):
    """It costs nothing and does nothing."""
    assert not any("no SDK" in line for line in worse(rows))
