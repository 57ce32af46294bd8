"""A chart can be shown anywhere: no script, no style of its own, nothing of its data as markup."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from llmeval_sdk import charts


pytest.importorskip("vl_convert")

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def drawn():
    rows = [{"day": f"day {n}", "score": n / 8, "of": HOSTILE} for n in range(9)]
    return charts.svg(
        {
            "data": {"values": rows},
            "mark": "bar",
            "encoding": {
                "x": {"field": "day"},
                "y": {"field": "score", "type": "quantitative"},
                "color": {"field": "of"},
            },
        },
        title=f"Scores {HOSTILE}",
    )


def test_a_chart_is_one_svg_without_scripts_or_inline_styles(drawn):
    """A strict content security policy has nothing to refuse, and hostile data stays text."""
    root = ET.fromstring(drawn)
    assert root.tag.endswith("svg")
    tags = {node.tag.rpartition("}")[2] for node in root.iter()}
    assert "script" not in tags
    assert all("style" not in node.attrib for node in root.iter())


def test_the_page_decides_the_colours(drawn):
    """Every colour is a variable that the page can set, so that dark mode reaches charts."""
    colours = set(re.findall(r'(?:fill|stroke)="([^"]+)"', drawn))
    assert "var(--chart-1, #2f6fde)" in colours
    assert all(colour == "none" or colour.startswith("var(--chart-") for colour in colours)


def test_a_screen_reader_gets_every_value(drawn):
    """Each bar carries its category and its value as a label."""
    labels = re.findall(r'aria-label="([^"]*)"', drawn)
    assert any("day: day 8" in label and "score: 1" in label for label in labels)


def test_a_wrong_specification_is_refused():
    """What cannot be drawn is an error, not an empty picture."""
    with pytest.raises(ValueError, match="Vega-Lite"):
        charts.svg({"mark": "no such mark"}, title="x")
