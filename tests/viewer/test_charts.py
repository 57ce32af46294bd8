"""A chart can be shown anywhere: no script, no style of its own, nothing of its data as markup."""

import re
import sys
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st


pytest.importorskip("starlette")

from llmeval_sdk.store.scores import RecentEvaluations
from llmeval_sdk.viewer import _charts
from llmeval_sdk.viewer._charts import Point, figures, means_by_period, period_of, words_by_period


HOSTILE = "<script>alert(1)</script>\0\a\x1b\ufffe\uffff\ud83d\udc00 \U0001fffe\u202e"
SECOND = 1_000_000_000
_texts = st.text(st.characters(exclude_categories=()), max_size=60)
_values = st.one_of(_texts, st.floats(), st.integers(0, 1), st.none())
_times = st.integers(0, 1 << 62)


def every_chart(recent):
    """Draw all that a page may draw of some evaluations."""
    found = figures("x", recent, judge=False)
    period = period_of(recent.times)
    points = [Point(at, mean, count=n) for at, mean, n in means_by_period(recent, period)]
    draw = [
        _charts.over_time(points, period),
        _charts.categories(found.categories),
        _charts.words_over_time(words_by_period(recent, period), period),
    ]
    draw += [_charts.distribution(found)] * bool(found.histogram)
    return [str(_charts.drawn(each, next(iter(found.categories), "none"))) for each in draw]


@given(st.lists(st.tuples(_times, _values), max_size=30))
def test_whatever_was_stored_is_drawn_as_text(rows):
    """Any text, number and time gives well-formed SVG that a page can send: no crash, no markup."""
    recent = RecentEvaluations(
        tuple(at for at, _ in rows), tuple(value for _, value in rows), 0, False
    )
    for drawn in every_chart(recent):
        root = ET.fromstring(f"<all>{drawn}</all>")
        tags = {node.tag.rpartition("}")[2] for node in root.iter()}
        assert tags <= {"all", "div", "svg", "text", "rect", "circle", "line", "path", "title"}
        drawn.encode()
        assert "nan" not in re.sub(r">[^<]*<|aria-label=\"[^\"]*\"", "", drawn)


def test_control_characters_and_halves_of_emoji_are_replaced():
    """What made a native chart library end the host's process is a replacement character."""
    recent = RecentEvaluations((SECOND, 2 * SECOND), (HOSTILE, HOSTILE), 0, False)
    for drawn in every_chart(recent):
        assert "script>" not in drawn
        assert not re.search("[\0-\x08\ud800-\udfff\ufffe\uffff\u202e]", drawn)
    assert "vl_convert" not in sys.modules


def test_the_page_decides_the_colours_and_nothing_is_styled_inline():
    """Every colour is a variable that the page can set, so that dark mode reaches charts."""
    recent = RecentEvaluations((SECOND, 9 * SECOND), (0.2, 0.7), 0, False)
    for drawn in every_chart(recent):
        colours = set(re.findall(r'(?:fill|stroke)="([^"]+)"', drawn))
        assert all(each == "none" or each.startswith("var(--chart-") for each in colours)
        assert " style=" not in drawn


def test_a_screen_reader_gets_every_value():
    """Each bar carries its category and its count as a label, and as a tooltip."""
    drawn = _charts.categories({"unanimous": 12, "mixed": 3})(520, "How far extractions agree")
    assert 'aria-label="unanimous: 12 records"' in drawn
    assert "<title>mixed: 3 records</title>" in drawn
    assert 'aria-label="How far extractions agree"' in drawn


def test_the_numbers_of_a_scale_are_whole():
    """A small cost has more digits than the usual margin holds, and none of them is cut off."""
    points = [Point(SECOND, 0.00012, count=3), Point(2 * SECOND, 0.00047, count=4)]
    for drawn in str(_charts.drawn(_charts.over_time(points, SECOND, amount=True), "x")).split(
        "<svg"
    ):
        texts = re.findall(r"<text[^>]*>([^<]*)</text>", drawn)
        assert not [text for text in texts if "…" in text]
        assert not texts or "0.0002" in texts
