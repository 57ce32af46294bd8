"""How answers are sorted, and the arithmetic of the tables."""

from __future__ import annotations

import pytest

from llmeval_sdk.model import Record
from llmeval_sdk.plugins.demo.grading import OUTCOMES, Key, grader, keys, outcome


STATED = Key("teapot", "minimum_python", ("3.9",), stated=True)
UNSTATED = Key("samovar", "minimum_python", ("3.12",), stated=False)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (STATED, "3.9", "right"),
        (STATED, "3.8", "wrong"),
        (STATED, None, "missed"),
        (UNSTATED, None, "abstained"),
        (UNSTATED, "3.8", "invented"),
        (UNSTATED, "3.12", "right"),
    ],
)
def test_each_answer_has_one_outcome(key, value, expected):
    """Right or not, answered or not, stated or not: five outcomes, all of them explained."""
    assert outcome(key, value) == expected
    assert expected in OUTCOMES


def test_only_fields_with_ground_truth_are_asked(teapot, samovar):
    """A field that a header leaves out makes no record."""
    asked = {(key.package, key.field) for key in keys([teapot, samovar], ["repository", "license"])}
    assert asked == {("teapot", "repository"), ("teapot", "license"), ("samovar", "license")}


def test_the_grader_says_what_the_header_says():
    """The evaluator looks its record up by package and field, and stays silent on others."""
    against_header = grader([STATED])
    record = Record(
        value="3.8", field_config={"name": "minimum_python"}, attributes={"package": "teapot"}
    )
    said = against_header.evaluate(record)
    assert said.value == "wrong"
    assert said.explanation == "header: 3.9"
    assert against_header.evaluate(Record(field_config={"name": "license"})) is None


def test_auroc_counts_pairs():
    """Pairs in order over all pairs, ties half, nothing where one side is empty."""
    pytest.importorskip("rich")
    from llmeval_sdk.statistics import auroc

    assert auroc([0.9, 0.5, 0.5, 0.1], [True, True, False, False]).value == pytest.approx(3.5 / 4)
    assert auroc([0.9], [True]) is None


def made(outcome, **values):
    """Make a result with one evaluation for each keyword."""
    from llmeval_sdk.model import Evaluation, SpanData
    from llmeval_sdk.plugins.demo.show import Result

    span = SpanData("t", "s", None, "extract_field", "workflow", 0, 1, request="q", response="a")
    evaluations = {
        name: value if isinstance(value, Evaluation) else Evaluation(name, value)
        for name, value in {"against_header": outcome, **values}.items()
    }
    return Result(span, evaluations, {}, (), (), {})


def test_risks_and_scores_are_compared_on_one_scale():
    """A high risk is bad and a high score is good; a record without one stands in the middle."""
    pytest.importorskip("rich")
    from llmeval_sdk.plugins.demo.show import risk_of

    row = made("wrong", extraction_risk=0.9, aggregated_confidence=0.9)
    assert risk_of(row, "extraction_risk") == pytest.approx(0.9)
    assert risk_of(row, "aggregated_confidence") == pytest.approx(0.1)
    assert risk_of(row, "retrieval_risk") == 0.5


def test_the_wrong_value_that_is_shown_has_its_rival():
    """The one whose rivals hold the header's answer goes first; without a rival none is shown."""
    pytest.importorskip("rich")
    from llmeval_sdk.model import Evaluation
    from llmeval_sdk.plugins.demo.show import wrong_but_present

    def risk(value, rival):
        return Evaluation("extraction_risk", value, metadata={"rivals": [{"value": rival}]})

    header = Evaluation("against_header", "wrong", explanation="header: 3.9")
    telling = made("wrong", against_header=header, extraction_risk=risk(0.4, "3.9"))
    other = made("wrong", against_header=header, extraction_risk=risk(0.9, "3.7"))
    assert wrong_but_present([other, telling]) is telling
    assert wrong_but_present([made("wrong"), made("right", extraction_risk=0.1)]) is None


def test_a_bar_fills_its_width_whatever_the_rounding():
    """The marks add up to the width, in the proportions of the counts."""
    pytest.importorskip("rich")
    from llmeval_sdk.plugins.demo.show import _bar

    counts = {"unanimous": 1, "majority": 1, "mixed": 1, "conflicting": 4}
    bar = _bar(counts, width=12)
    assert len(bar) == 12
    assert bar.count("░") == pytest.approx(12 * 4 / 7, abs=1)
    assert _bar(dict.fromkeys(counts, 0)) == ""
