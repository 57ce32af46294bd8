"""One answer to "which number is this" and "is this bad", wherever it is asked."""

import json
import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmeval_sdk.evaluation.escalation import below, flagged, score_of
from llmeval_sdk.model import Evaluation, Record, values
from llmeval_sdk.offline.agreement import side
from llmeval_sdk.offline.report.row import Row
from llmeval_sdk.offline.report.summary import goodness, low


GOOD = ("yes", "Yes", "pass", "passed", "true", " OK ", "good", "right", "up", True, 1.0, 0.9)
BAD = ("no", "fail", "FAILED", "false", "wrong", "down", "bad", False, 0.0, 0.1)
NEUTRAL = (None, "", "abstained", "Skipped", "n/a", "not applicable", "some category")


@pytest.mark.parametrize("value", GOOD, ids=repr)
def test_what_is_good_is_good_everywhere(value):
    """Pages, offline reports, conditions and labels call the same values good."""
    assert values.standing("polite", value) == "good"
    assert goodness(Evaluation("polite", value)) > 0.7
    assert not flagged("polite").holds({"polite": Evaluation("polite", value)})
    assert side(value) == "yes"


@pytest.mark.parametrize("value", BAD, ids=repr)
def test_what_is_bad_is_bad_everywhere(value):
    """Pages, offline reports, conditions and labels call the same values bad."""
    evaluation = Evaluation("polite", value)
    assert values.standing("polite", value) == "bad"
    assert low(Row(Record(), {"polite": evaluation})) == [evaluation]
    assert below("polite", 0.5).holds({"polite": evaluation})
    assert side(value) == "no"


@pytest.mark.parametrize("value", NEUTRAL, ids=repr)
def test_what_says_nothing_is_neutral_everywhere(value):
    """Abstained, skipped and not applicable have no number, no colour, and make nothing hold."""
    evaluation = Evaluation("polite", value)
    assert values.standing("polite", value) == "neutral"
    assert goodness(evaluation) is None
    assert score_of(evaluation) is None
    assert values.number(value) is None
    assert below("polite", 0.5).truth({"polite": evaluation}) is None


@pytest.mark.parametrize(
    "name", ["groundedness_risk", "retrieval_risk", "extraction_risk", "my_risk"]
)
def test_a_risk_is_bad_where_it_is_high(name):
    """The name's ending decides, so that an own risk needs no registration."""
    assert values.standing(name, 0.9) == "bad"
    assert values.standing(name, 0.1) == "good"
    assert goodness(Evaluation(name, 0.9)) == pytest.approx(0.1)


def test_an_abstained_score_is_neutral_by_its_label():
    """A risk of an answer that was not attempted is shown, without being called bad."""
    assert values.standing("extraction_risk", 0.95, "abstained") == "neutral"
    assert values.standing("extraction_risk", 0.95, "high") == "bad"
    assert goodness(Evaluation("extraction_risk", 0.95, label="abstained")) is None


@pytest.mark.parametrize(
    "name", ["latency_seconds", "total_token_count", "words_count", "abstention_risk"]
)
def test_a_measure_is_neither_good_nor_bad(name):
    """Half a second is no score of 0.5."""
    assert values.standing(name, 0.5) == "neutral"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400, object(), [1], "7"])
def test_what_is_no_number_is_none(value):
    """Neither a score beyond all bounds nor a foreign object breaks a mean."""
    assert values.number(value) is None


@given(st.text() | st.floats() | st.booleans() | st.integers() | st.none(), st.text())
def test_any_value_has_an_answer(value, name):
    """Whatever an evaluator returned, there is a standing, and a goodness within 0 and 1."""
    good = values.goodness(name, value)
    assert good is None or 0 <= good <= 1
    assert (values.standing(name, value) == "neutral") == (good is None)


def test_the_module_costs_nothing_to_import():
    """It stands beside the nouns and loads no other room."""
    code = (
        "import sys, json, llmeval_sdk.model; before = set(sys.modules); import llmeval_sdk.model.values;"
        "print(json.dumps([m for m in set(sys.modules) - before if m.startswith('llmeval_sdk')]))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(out.stdout) == ["llmeval_sdk.model.values"]
