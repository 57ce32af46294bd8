"""Conditions on cheap scores, and what an escalation makes of them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.evaluation.admission import Ruling
from llmeval_sdk.evaluation.escalation import (
    Cascade,
    Escalation,
    above,
    below,
    between,
    compared_by,
    default_escalation,
    flagged,
)
from llmeval_sdk.model import Evaluation, Failure


def said(**values):
    return {
        name: value if isinstance(value, Evaluation) else Evaluation(name, value)
        for name, value in values.items()
    }


BROKEN = Evaluation("x", 0.1, error=Failure("timeout"))
KEYS = [f"{number:032x}" for number in range(3000)]


def test_below_and_above_compare_strictly():
    """A score at the threshold is neither below nor above it."""
    assert below("x", 0.7).holds(said(x=0.69))
    assert not below("x", 0.7).holds(said(x=0.7))
    assert above("x", 0.7).holds(said(x=0.71))
    assert not above("x", 0.7)(said(x=0.7))


@pytest.mark.parametrize(
    "silent", [{}, said(x=None), said(x=BROKEN), said(x=float("nan")), said(x="a")], ids=repr
)
def test_a_silent_score_makes_no_condition_hold(silent):
    """Absent, not applicable, failed or no number: neither the condition nor its negation holds."""
    for condition in (below("x", 0.5), above("x", -1), ~below("x", 0.5), ~above("x", 0.5)):
        assert condition.truth(silent) is None
        assert not condition.holds(silent)


def test_flagged_matches_a_value_or_a_label():
    """The words are compared exactly, with values of their own type only."""
    condition = flagged("x", "HIT", "LOW")
    assert condition.holds(said(x="HIT"))
    assert condition.holds(said(x=Evaluation("x", 0.2, label="LOW")))
    assert not condition.holds(said(x="hit"))
    assert flagged("x", False).holds(said(x=False))
    assert not flagged("x", False).holds(said(x=0.0))


@pytest.mark.parametrize(
    ("value", "raised"),
    [(word, True) for word in ("HIT_RETRIEVAL_LIMIT", "fail", "no", False)]
    + [(word, False) for word in ("pass", "Yes", "skipped", "", True, None, 0.0, 0.9)],
)
def test_flagged_without_words_means_a_failed_check_or_a_warning(value, raised):
    """A failed check and any category that does not say that all is well are flags."""
    assert flagged("x").holds(said(x=value)) is raised


def test_a_flag_that_nobody_raised_is_known_not_to_be_raised():
    """``~flagged`` holds for an absent warning, but not for a failed evaluator."""
    assert (~flagged("x", "HIT")).holds({})
    assert (~flagged("x", "HIT")).holds(said(x=None))
    assert not (~flagged("x", "HIT")).holds(said(x=BROKEN))


@given(st.lists(st.sampled_from([0.1, 0.9, None]), min_size=3, max_size=3))
def test_joining_follows_three_valued_logic(values):
    """``|``, ``&`` and ``~`` are Kleene's or, and, not; one known part may settle the whole."""
    evaluations = said(**dict(zip("abc", values, strict=True)))
    a, b, c = (below(name, 0.5) for name in "abc")
    known = [None if value is None else value < 0.5 for value in values]
    either = True if True in known else None if None in known else False
    every = False if False in known else None if None in known else True
    assert (a | b | c).truth(evaluations) is either
    assert (a & b & c).truth(evaluations) is every
    assert (~(a | b | c)).truth(evaluations) is (None if either is None else not either)
    assert ((a & b) | c).truth(evaluations) is (~(~(a & b) & ~c)).truth(evaluations)


def test_a_condition_knows_what_it_reads():
    """The names say which heuristics have to run first."""
    assert (below("a", 1) | flagged("b") & ~above("c", 0)).names() == {"a", "b", "c"}


def test_it_is_known_which_scores_are_compared_with_a_number():
    """Through all that joins conditions; a flag compares none."""
    rule = (below("a", 1) | flagged("b", "LOW")) & ~between("c", 0, 1)
    assert compared_by(rule) == {"a", "c"}
    assert compared_by(flagged("b")) == frozenset()


def test_an_explanation_says_what_was_decisive():
    """Of an "or" the parts that hold are told; of one that does not, all are."""
    rule = below("recall", 0.7) | flagged("warning", "HIT")
    assert rule.explain(said(recall=0.4)) == "recall 0.40 < 0.7"
    assert rule.explain(said(recall=0.4, warning="HIT")) == "recall 0.40 < 0.7; warning is HIT"
    assert (
        rule.explain(said(recall=0.8, warning="LOW"))
        == "recall 0.80 >= 0.7; warning is LOW, not HIT"
    )
    assert rule.explain(said(recall=BROKEN)) == "recall failed (timeout); warning gave no value"
    assert (below("a", 1) & above("b", 1)).explain(said(a=0, b=2)) == "a 0.00 < 1 and b 2.00 > 1"
    assert (below("a", 1) & above("b", 1)).explain(said(a=3, b=2)) == "a 3.00 >= 1"
    assert below("a", 0.7).explain(said(a=0.699)) == "a 0.699 < 0.7"
    assert above("a", 0.7).explain(said(a=0.7)) == "a 0.70 <= 0.7"
    assert flagged("a", "LOW").explain(said(a=Evaluation("a", 0.2, label="LOW"))) == "a is LOW"
    assert flagged("a", "LOW", "HIGH").explain(said(a="ok")) == "a is ok, not LOW or HIGH"


def test_pythons_own_or_is_refused():
    """``a or b`` would silently drop a condition, so it raises and says what to write."""
    with pytest.raises(ConfigurationError, match=r"\| & and ~"):
        below("a", 1) or below("b", 1)


WRONG = {
    "no name": lambda: below("", 1),
    "a threshold of text": lambda: below("x", "0.7"),
    "a threshold that is no number": lambda: above("x", float("nan")),
    "a score as a word": lambda: flagged("x", 0.5),
    "joined with a name": lambda: below("x", 1) | "y",
    "neither rule nor budget": lambda: Escalation("j"),
    "rule and budget": lambda: Escalation("j", when=below("x", 1), share=0.2),
    "rule and score": lambda: Escalation("j", when=below("x", 1), by="x"),
    "a function as the rule": lambda: Escalation("j", when=lambda evaluations: True),
    "control above 1": lambda: Escalation("j", when=below("x", 1), control_rate=1.5),
    "control of True": lambda: Escalation("j", when=below("x", 1), control_rate=True),
    "budget 0": lambda: Escalation("j", share=0),
    "budget in percent": lambda: Escalation("j", share=20),
    "budget of text": lambda: Escalation("j", share="0.2"),
    "control outside the budget": lambda: Escalation("j", share=0.1, control_rate=0.2),
    "score that is no name": lambda: Escalation("j", share=0.1, by=3),
    "judge without a name": lambda: Escalation("", share=0.1),
    "judge that is none": lambda: Escalation(3, share=0.1),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_what_cannot_be_meant_raises(wrong):
    """Set-up mistakes are loud."""
    with pytest.raises(ConfigurationError):
        wrong()


TOLD = {
    "below() takes an evaluator's name first": lambda: below("", 1),
    "below() takes a number as its threshold": lambda: below("x", "0.7"),
    "above() takes an evaluator's name first": lambda: above("", 1),
    "above() takes a number as its threshold": lambda: above("x", None),
    "flagged() takes an evaluator's name first": lambda: flagged(""),
    "between() takes a number as its threshold": lambda: between("x", "0", 1),
    "Cascade takes a judge or its name first, not 3": lambda: Cascade(3),
    "Cascade takes a judge or its name first, not ''": lambda: Cascade(""),
    "Cascade('j'): low is a probability": lambda: Cascade("j", low=-0.1),
    "Cascade('j'): high is a probability": lambda: Cascade("j", high=1.1),
    "Cascade('j'): low=0.9 must not be above high=0.8": lambda: Cascade("j", low=0.9),
    "Escalation('j'): where= takes tag:KEY": lambda: Escalation("j", share=0.1, where={"t": "a"}),
    "Escalation('j'): per= takes tag:KEY": lambda: Escalation("j", share=0.1, per="tenant"),
    "Escalation('j'): share is a share from above 0 to 1": lambda: Escalation("j", share=0),
    "Escalation('j'): control_rate is a share from 0 to 1": lambda: Escalation(
        "j", share=0.1, control_rate=-1
    ),
}


@pytest.mark.parametrize("told", TOLD)
def test_a_mistake_is_told_with_what_it_is_in(told):
    """By the name of the function, or of the judge, and of the argument."""
    with pytest.raises(ConfigurationError, match=f"^{re.escape(told)}"):
        TOLD[told]()


def test_a_heuristic_cannot_be_escalated_to():
    """Heuristics run on every record anyway."""

    class Cheap:
        kind, name = "heuristic", "cheap"

    with pytest.raises(ConfigurationError, match="only judges"):
        Escalation(Cheap(), share=0.2)


def test_a_judge_object_stands_for_its_name():
    """An app passes what it has at hand."""

    class Polite:
        kind, name = "judge", "polite"

    assert Escalation(Polite(), share=0.2).name == "polite"


def test_control_defaults_to_a_part_of_the_share_and_to_none_for_a_rule():
    """A share serves both ends, catching and measuring; a rule only asks."""
    assert Escalation("j", when=below("x", 1)).control == 0
    assert Escalation("j", share=0.2).control == pytest.approx(0.09)
    assert Escalation("j", share=0.04).control == pytest.approx(0.018)
    assert Escalation("j", share=0.2, control_rate=0.02).control == 0.02
    assert Escalation("j", share=0.2).names() == {
        "groundedness_risk",
        "extraction_risk",
        "abstention_risk",
    }


def test_a_rule_that_holds_always_asks():
    """The chance of an escalated record is 1."""
    decision = Escalation("j", when=below("x", 0.5)).decide(said(x=0.1), "t")
    assert (decision.run, decision.probability, decision.why) == (True, 1.0, "x 0.10 < 0.5")


def test_the_control_sample_has_its_rate_and_says_so():
    """Records that were not escalated are judged at the control rate."""
    escalation = Escalation("j", when=below("x", 0.5), control_rate=0.1)
    decisions = [escalation.decide(said(x=0.9), key) for key in KEYS]
    runs = [decision for decision in decisions if decision.run]
    assert abs(len(runs) / len(KEYS) - 0.1) < 0.03
    assert {decision.probability for decision in decisions} == {0.1}
    assert runs[0].why == "control sample of 0.1: x 0.90 >= 0.5"
    assert [d.run for d in decisions] == [escalation.decide(said(x=0.9), k).run for k in KEYS]


def test_the_default_escalation_is_low_or_cut_off_recall():
    """Recall below the threshold or a hit limit asks context_recall_llm, without a control sample."""
    rule = default_escalation(0.7)
    assert rule.name == "context_recall_llm"
    assert rule.control == 0
    assert rule.decide(said(context_recall_heuristic=0.6), "t").run
    assert rule.decide(
        said(context_recall_heuristic=1.0, recall_warning="HIT_RETRIEVAL_LIMIT"), "t"
    ).run
    assert not rule.decide(said(context_recall_heuristic=0.7, recall_warning=None), "t").run
    assert not rule.decide(said(recall_warning="HIGH_THRESHOLD_FILTERING"), "t").run
    assert not rule.decide({}, "t").run


def test_without_a_threshold_the_default_escalation_asks_below_seven_tenths():
    """What is judged costs money, so the default is part of what is promised."""
    rule = default_escalation()
    assert rule.decide(said(context_recall_heuristic=0.69), "t").run
    assert not rule.decide(said(context_recall_heuristic=0.7), "t").run


def test_a_cascade_of_another_judge_is_uncertain_in_the_same_range():
    """An address that stands for a judge keeps both bounds and the control sample."""
    cascade = Cascade("polite", low=0.3, high=0.6, control_rate=0.11)
    other = cascade.asking("safety")
    assert (other.name, other.when, other.control) == ("safety", between("safety", 0.3, 0.6), 0.11)


def test_what_a_share_is_not_of_is_not_judged_and_says_why():
    """Neither by chance nor for the control sample."""
    of_answers = Escalation("j", share=1.0, of="answers")
    ruling = of_answers.decide(said(extraction_risk=0.9), "t")
    assert ruling == Ruling(run=False, probability=0.0, why="the share is of answers")
    silent = Escalation("j", share=1.0).decide(said(abstention_risk=0.9), "t")
    assert (silent.run, silent.probability) == (False, 0.0)
    assert "by='abstention_risk'" in silent.why
