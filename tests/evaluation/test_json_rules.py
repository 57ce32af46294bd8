"""Escalations and budgets of groups that the environment gives as JSON: as in code, or closed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.evaluation.escalation import Escalation, above, below, flagged
from llmeval_sdk.evaluation.json_rules import parse_budgets, parse_escalations
from llmeval_sdk.evaluation.sampling import SamplingRule


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
KEYS = (
    "judge", "when", "share", "control_rate", "by", "of", "where", "per", "usd_per_day",
    "calls_per_minute", "tokens_per_minute", "unpriced_tokens_per_minute",
)  # fmt: skip


@pytest.mark.parametrize(
    ("entry", "in_code"),
    [
        (
            {"judge": "groundedness", "share": 0.2, "per": "tag:tenant", "control_rate": 0.02},
            Escalation("groundedness", share=0.2, per="tag:tenant", control_rate=0.02),
        ),
        (
            {"judge": "safety", "when": "recall < 0.7", "where": {"tag:plan": ["paid", "trial"]}},
            Escalation("safety", when=below("recall", 0.7), where={"tag:plan": ["paid", "trial"]}),
        ),
        (
            {"judge": "safety", "when": ["risk>0.8", "recall_warning=HIT_RETRIEVAL_LIMIT"]},
            Escalation(
                "safety", when=above("risk", 0.8) | flagged("recall_warning", "HIT_RETRIEVAL_LIMIT")
            ),
        ),
    ],
    ids=["share", "comparison", "comparisons"],
)
def test_an_escalation_of_the_environment_is_that_of_the_code(entry, in_code):
    """The keys are the keywords of the class, and mean the same."""
    read = parse_escalations(json.dumps([entry]))
    assert read.escalations == (in_code,)
    assert read.problems == read.closing == ()


def test_budgets_of_groups_of_the_environment_are_those_of_the_code():
    """`null` lifts a limit, as `None` does."""
    text = json.dumps(
        [
            {"usd_per_day": 0.5, "calls_per_minute": None, "per": "tag:tenant"},
            {"calls_per_minute": 3, "where": {"tag:tenant": "acme"}},
        ]
    )
    assert parse_budgets(text).groups == (
        Budget(usd_per_day=0.5, calls_per_minute=None, per="tag:tenant"),
        Budget(calls_per_minute=3, where={"tag:tenant": "acme"}),
    )


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"judge": "safety", "shar": 0.2}, "did you mean 'share'?"),
        ({"judge": "safety"}, "share"),
        ({"judge": "safety", "share": 2}, "share is a share from above 0 to 1"),
        ({"judge": "safety", "share": "0.2"}, "share is a share from above 0 to 1"),
        ({"judge": "safety", "share": float("nan")}, "share is a share from above 0 to 1"),
        ({"judge": "safety", "when": "recall"}, 'when is like "recall<0.7"'),
        ({"judge": "safety", "when": "recall<low"}, 'when is like "recall<0.7"'),
        ({"judge": "safety", "when": "recall<nan"}, "takes a number as its threshold"),
        ({"judge": "safety", "when": []}, 'when is like "recall<0.7"'),
        ({"judge": "safety", "when": [7]}, 'when is like "recall<0.7"'),
        ({"judge": "safety", "share": 0.2, "per": "tenant"}, "tag:KEY or user"),
        ({"judge": "safety", "share": 0.2, "where": {"tenant": "acme"}}, "tag:KEY or user"),
    ],
    ids=lambda part: str(part)[:60] if isinstance(part, dict) else "",
)
def test_an_escalation_that_cannot_be_read_keeps_its_judge_from_running(entry, said):
    """A judge whose rule was misspelt would otherwise run on every record."""
    read = parse_escalations(json.dumps([entry, {"judge": "groundedness", "share": 0.1}]))
    assert [escalation.name for escalation in read.escalations] == ["groundedness"]
    assert read.closing == (SamplingRule(0.0, evaluator="safety"),)
    assert said in read.problems[0]
    assert read.problems[0].startswith("escalation 1: ")


@pytest.mark.parametrize("text", ["{", "{}", "7", '[{"share": 0.2}]', "[null]", '[{"judge": 7}]'])
def test_where_nobody_can_say_which_judge_is_meant_none_runs(text):
    """Text that is no list, and entries without a judge's name, close everything."""
    read = parse_escalations(text)
    assert read.escalations == ()
    assert read.closing == (SamplingRule(0.0),)
    assert len(read.problems) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("{}", "no JSON list"),
        ("[7]", "no object"),
        ('[{"usd_per_day": 1}]', "where= or per="),
        ('[{"usd_per_day": -1, "per": "user"}]', "usd_per_day must be a number of at least 0"),
        ('[{"usd_per_day": NaN, "per": "user"}]', "usd_per_day must be a number of at least 0"),
        ('[{"usd_per_day": 1, "per": "tenant"}]', "tag:KEY or user"),
        ('[{"usd_per_day": 1, "tenant": "acme"}]', "unknown key 'tenant'"),
        ('[{"per": "user"}, {"usd_per_day": 2, "per": "user"}]', "about the same requests"),
    ],
)
def test_a_budget_of_a_group_that_cannot_be_read_is_a_problem(text, said):
    """The plan allows no judge then; the line says what is wrong."""
    assert said in parse_budgets(text).problems[0]


@pytest.mark.parametrize("text", [None, "", "  "])
def test_no_text_is_no_rule(text):
    """The default escalation applies, and no group has a limit."""
    assert parse_escalations(text).escalations is None
    assert parse_budgets(text).groups == parse_budgets(text).problems == ()


@given(st.lists(st.dictionaries(st.sampled_from(KEYS) | st.text(), JSON, max_size=4) | JSON))
def test_no_json_raises_and_none_goes_unsaid(entries):
    """Whatever stands there becomes rules or problems, one for each entry."""
    text = json.dumps(entries)
    escalations, budgets = parse_escalations(text), parse_budgets(text)
    assert len(escalations.escalations) + len(escalations.problems) == len(entries)
    assert len(escalations.closing) == len(escalations.problems)
    assert len(budgets.groups) + len(budgets.problems) == len(entries)
