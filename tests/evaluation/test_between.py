"""Conditions read the probability of a decision, where there is one, before its value."""

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.evaluation.escalation import above, below, between, score_of
from llmeval_sdk.model import Evaluation, Failure


def decided(value, probability):
    return {
        "polite": Evaluation("polite", value, evaluator_kind="decision", probability=probability)
    }


@pytest.mark.parametrize(
    ("probability", "holds"), [(0.19, False), (0.2, True), (0.5, True), (0.8, True), (0.81, False)]
)
def test_a_decision_is_uncertain_between_two_probabilities(probability, holds):
    """The ends of the range belong to it."""
    condition = between("polite", 0.2, 0.8)
    assert condition.holds(decided("yes", probability)) is holds
    assert condition.names() == {"polite"}


def test_below_and_above_read_the_probability_too():
    """The rating of a decision says on which side of the threshold it lies, and no more."""
    said = decided("yes", 0.6)
    assert below("polite", 0.7).holds(said)
    assert not above("polite", 0.7).holds(said)
    assert score_of(said["polite"]) == 0.6


def test_without_a_probability_the_value_counts():
    """A judge model's rating, a precheck's, and any free score."""
    assert between("polite", 0.5, 1).holds({"polite": Evaluation("polite", "yes")})
    assert between("polite", 0.2, 0.8).holds({"polite": Evaluation("polite", 0.5)})
    assert not between("polite", 0.2, 0.8).holds({"polite": Evaluation("polite", "no")})


def test_what_failed_or_is_missing_is_unknown():
    """Neither the condition nor its negation holds."""
    condition = between("polite", 0.2, 0.8)
    failed = {"polite": Evaluation("polite", error=Failure("refused"))}
    for evaluations in ({}, failed):
        assert condition.truth(evaluations) is None
        assert not condition.holds(evaluations)
        assert not (~condition).holds(evaluations)
    assert condition.explain(failed) == "polite failed (refused)"


@pytest.mark.parametrize(
    ("probability", "text"),
    [
        (0.5, "polite 0.50 is between 0.2 and 0.8"),
        (0.123, "polite 0.123 is not between 0.2 and 0.8"),
    ],
)
def test_it_says_why(probability, text):
    """What decided stands with each judgement."""
    assert between("polite", 0.2, 0.8).explain(decided("no", probability)) == text


@pytest.mark.parametrize("ends", [(0.8, 0.2), (float("nan"), 1), ("0", 1), (0, None)])
def test_a_range_that_is_none_is_refused(ends):
    """It is told where it is written."""
    with pytest.raises(ConfigurationError, match="between"):
        llmeval.between("polite", *ends)
