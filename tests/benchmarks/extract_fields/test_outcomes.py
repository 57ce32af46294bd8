"""How answers are sorted, and the arithmetic of the tables."""

from __future__ import annotations

import pytest
from extract_fields.grading import OUTCOMES, Key, grader, keys, outcome

from llmeval_sdk.model import Record


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
