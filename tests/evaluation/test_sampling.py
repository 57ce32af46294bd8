"""Sampling rules: Datadog's JSON, closed where it is wrong."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.evaluation.json_rules import parse_rules
from llmeval_sdk.evaluation.sampling import (
    SamplingRule,
    SamplingRules,
    escalation_draw,
    sampling_draw,
)
from llmeval_sdk.model import Record


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
TRACES = [f"{number:032x}" for number in range(4000)]


def of(span_name, trace_id=None):
    return Record(span_name=span_name, trace_id=trace_id)


def parsed(*entries):
    return parse_rules(json.dumps(entries))


@pytest.mark.parametrize("text", [None, "", "  ", "[]"])
def test_without_rules_everything_runs(text):
    """No text and an empty list are no rules, and no problem."""
    rules = parse_rules(text)
    assert rules.rate("polite", of("answer")) == 1.0
    assert rules.problems == ()


def test_the_first_match_wins():
    """Later rules do not matter once one matched."""
    rules = parsed(
        {"sample_rate": 0.1, "evaluator_label": "polite"},
        {"sample_rate": 0.9, "evaluator_label": "polite"},
        {"sample_rate": 0.5},
    )
    assert rules.rate("polite", of("answer")) == 0.1
    assert rules.rate("safety", of("answer")) == 0.5


def test_no_match_runs():
    """Whatever no rule names is judged."""
    rules = parsed({"sample_rate": 0, "evaluator_label": "polite"})
    assert rules.rate("safety", of("answer")) == 1.0


def test_names_are_exact():
    """There are no patterns and no case folding."""
    rules = parsed({"sample_rate": 0, "evaluator": "polite", "span_name": "answer"})
    assert rules.rate("polite", of("answer")) == 0
    assert rules.rate("Polite", of("answer")) == 1
    assert rules.rate("polite", of("answer_question")) == 1
    assert rules.rate("polite", of(None)) == 1


@pytest.mark.parametrize(
    ("rate", "meant"),
    [("0.5", 0.5), (" 1e-1", 0.1), (0, 0.0), (1, 1.0), (0.25, 0.25), (-0.0, 0.0)],
)
def test_numbers_and_numeric_strings_from_0_to_1_are_rates(rate, meant):
    """Templates often put numbers into quotes, and Datadog reads them."""
    rules = parsed({"sample_rate": rate})
    assert rules.rate("polite", of("answer")) == meant
    assert rules.problems == ()


@pytest.mark.parametrize(
    "rate",
    [None, "abc", math.nan, math.inf, [1], {}, "nan", 10**400, 2, 50, "50", 1.01, -1, True, False],
    ids=lambda r: repr(r)[:9],
)
def test_a_bad_rate_closes_what_its_rule_could_have_matched(rate):
    """50 may mean 50 % or all: no rate outside 0..1 spends anything, and the rest goes on."""
    rules = parsed({"sample_rate": rate, "evaluator_label": "polite"}, {"sample_rate": 0.3})
    assert rules.rate("polite", of("answer")) == 0
    assert rules.rate("safety", of("answer")) == 0.3
    assert len(rules.problems) == 1
    assert "sampling rule 1" in rules.problems[0]


def test_a_missing_rate_closes_its_names():
    """A rule that forgot its rate does not fall through to 100 %."""
    rules = parsed({"evaluator_label": "polite"})
    assert rules.rate("polite", of("answer")) == 0
    assert "sample_rate is missing" in rules.problems[0]


@pytest.mark.parametrize("entry", [1, "x", None, [], True])
def test_an_entry_that_is_no_object_closes_everything_after_it(entry):
    """Nobody can say what it was meant to match, so from there on nothing runs."""
    rules = parsed({"sample_rate": 1, "evaluator": "polite"}, entry, {"sample_rate": 1})
    assert rules.rate("polite", of("answer")) == 1
    assert rules.rate("safety", of("answer")) == 0
    assert "sampling rule 2" in rules.problems[0]


def test_a_misspelt_key_closes_its_rule_and_names_the_right_key():
    """A rule that would match more than it was meant to does not spend."""
    rules = parsed({"sample_rate": 1.0, "spanname": "checkout"}, {"sample_rate": 0.5})
    assert rules.rate("polite", of("answer")) == 0
    assert "did you mean 'span_name'?" in rules.problems[0]


@pytest.mark.parametrize("name", [None, "", 3, ["polite"]])
def test_an_unusable_name_closes_all_it_could_have_meant(name):
    """Null means nothing to Datadog and anything to a reader, so it does not spend."""
    rules = parsed({"sample_rate": 1, "evaluator_label": name, "span_name": "answer"})
    assert rules.rate("polite", of("answer")) == 0
    assert rules.rate("polite", of("other")) == 1
    assert rules.problems


def test_two_keys_that_contradict_each_other_close_their_rule():
    """``evaluator`` and ``evaluator_label`` are one thing."""
    same = parsed({"sample_rate": 0.5, "evaluator": "a", "evaluator_label": "a"})
    assert (same.rate("a", of("s")), same.problems) == (0.5, ())
    differing = parsed({"sample_rate": 0.5, "evaluator": "a", "evaluator_label": "b"})
    assert differing.rate("a", of("s")) == differing.rate("b", of("s")) == 0


@pytest.mark.parametrize(
    "text", ["{", "nonsense", "{}", "3", "null", '"[]"', "[" * 100_000], ids=lambda t: t[:9]
)
def test_unreadable_rules_switch_the_paid_judges_off(text):
    """Datadog runs everything then, which is the dearest reading."""
    rules = parse_rules(text)
    assert rules.rate("polite", of("answer")) == 0
    assert "the paid judges are off" in rules.problems[0]


@given(text=st.text() | JSON.map(json.dumps) | st.lists(JSON).map(json.dumps))
def test_no_text_raises(text):
    """Whatever stands in the variable, reading it gives rates in 0..1 and one-line problems."""
    rules = parse_rules(text)
    assert 0 <= rules.rate("polite", of("answer")) <= 1
    assert all("\n" not in problem for problem in rules.problems)


@pytest.mark.parametrize("rate", [None, "0.5", math.nan, 7, 50, -0.1, [1], True, 10**400])
def test_a_bad_rate_in_python_raises(rate):
    """A person is watching: a rule that cannot be meant raises where it is written."""
    with pytest.raises(ConfigurationError, match="sample_rate must be a number from 0"):
        SamplingRule(rate)


def test_a_name_that_is_no_name_raises():
    """Only names and None can be matched."""
    with pytest.raises(ConfigurationError, match="SamplingRule: evaluator must"):
        SamplingRule(0.5, evaluator="")
    with pytest.raises(ConfigurationError, match="SamplingRule: span_name must"):
        SamplingRule(0.5, span_name=3)
    with pytest.raises(ConfigurationError, match="SamplingRule"):
        SamplingRules.of([{"sample_rate": 0.5}])


def test_rules_from_python_match_like_rules_from_json():
    """Both ways of writing the rules decide the same."""
    ours = SamplingRules.of([SamplingRule(0.5, evaluator="polite"), SamplingRule(0)])
    theirs = parsed({"sample_rate": 0.5, "evaluator_label": "polite"}, {"sample_rate": 0})
    for trace in TRACES[:200]:
        for name in ("polite", "safety"):
            assert ours.decide(name, of("s", trace)) == theirs.decide(name, of("s", trace))


def test_a_lower_rates_traces_lie_within_a_higher_ones():
    """Raising a rate only adds traces."""
    low = {t for t in TRACES if parsed({"sample_rate": 0.2}).decide("a", of("s", t))[0]}
    high = {t for t in TRACES if parsed({"sample_rate": 0.5}).decide("a", of("s", t))[0]}
    assert low < high


def test_a_trace_is_whole():
    """Every judge and span of a trace gets the same answer at the same rate."""
    rules = parsed({"sample_rate": 0.5})
    for trace in TRACES[:100]:
        answers = {rules.decide(e, of(s, trace)) for e in ("a", "b") for s in ("x", "y", None)}
        assert len(answers) == 1


def test_the_ends_of_the_scale_are_exact():
    """Rate 0 never runs and rate 1 always, with and without an id."""
    for trace in (*TRACES[:500], None, ""):
        assert SamplingRules((SamplingRule(0),)).decide("a", of("s", trace)) == (False, 0.0)
        assert SamplingRules((SamplingRule(1),)).decide("a", of("s", trace)) == (True, 1.0)


def test_a_record_without_a_trace_is_sampled_at_the_rate():
    """No id means a fresh draw, not always the same one."""
    rules = parsed({"sample_rate": 0.5})
    runs = sum(rules.decide("a", of("s", None))[0] for _ in range(2000))
    assert 850 < runs < 1150  # 6.7 standard deviations


IDS = {
    "sequential": lambda n: f"{n:032x}",
    "64 bits in the low half": lambda n: f"{n * 0x9E3779B97F4A7C15 % 2**64:032x}",
    "64 bits in the high half": lambda n: f"{n * 0x9E3779B97F4A7C15 % 2**64:016x}{0:016x}",
    "steps of 2**56": lambda n: f"{n << 56:032x}",
    "timestamp first": lambda n: f"{0x65000000 + n // 50:08x}{n * 2654435761 % 2**32:08x}{n:016x}",
}


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
@pytest.mark.parametrize("draw", [sampling_draw, escalation_draw])
def test_draws_are_uniform_for_ids_that_are_not_random(ids, draw):
    """Twenty equal bins fill evenly, by chi-squared, whatever pattern the ids follow."""
    count, bins = 10_000, [0] * 20
    for number in range(count):
        bins[int(draw(ids(number)) * 20)] += 1
    assert sum((found - count / 20) ** 2 / (count / 20) for found in bins) < 50  # p = 1e-4


def test_a_stream_cut_at_its_head_is_still_sampled_at_the_rate():
    """Traces that OpenTelemetry's ratio sampler kept (low bits below a bound) are not special."""
    bound = 2**56 // 100
    kept = [f"{(n << 56) | (n * 0x9E3779B97F4A7 % bound):032x}" for n in range(1, 5000)]
    share = sum(sampling_draw(trace) < 0.1 for trace in kept) / len(kept)
    assert abs(share - 0.1) < 0.02


def test_the_two_draws_of_an_id_are_independent():
    """Being in the control sample says nothing about being sampled, so chances multiply."""
    both = sum(sampling_draw(t) < 0.5 and escalation_draw(t) < 0.5 for t in TRACES) / len(TRACES)
    assert abs(both - 0.25) < 0.035


@pytest.mark.parametrize(
    ("key", "sampled", "escalated"),
    [
        ("0af7651916cd43dd8448eb211c80319c", 0.5759908542100994, 0.5281840357061591),
        ("a", 0.33270821551061536, 0.13298777900627534),
        ("ü\ud800", 0.39752425368492106, 0.8185521193219022),
    ],
)
def test_draws_are_the_same_in_every_release(key, sampled, escalated):
    """Hosts of one trace may run different releases, and have to keep or leave it together."""
    assert (sampling_draw(key), escalation_draw(key)) == (sampled, escalated)


def test_a_draw_that_equals_the_rate_is_not_drawn():
    """The smallest draw is 0 and the largest is below 1, so that a rate is met exactly."""
    draw = sampling_draw(TRACES[0])
    rules = SamplingRules((SamplingRule(draw),))
    assert rules.decide("a", of("s", TRACES[0])) == (False, draw)


@pytest.mark.parametrize("name", [None, "", 3])
def test_an_unusable_span_name_closes_its_rule_and_is_named(name):
    """As an evaluator's does: reading rules never raises."""
    rules = parsed({"sample_rate": 1, "evaluator": "polite", "span_name": name})
    assert rules.rate("polite", of("answer")) == 0
    assert rules.rate("safety", of("answer")) == 1
    assert rules.problems == (
        (
            f"sampling rule 1: span_name {name!r} is no name (leave the key out to match any);"
            " counted as 0 for evaluator 'polite'"
        ),
    )


def test_a_problem_says_for_what_its_rule_counts_as_0():
    """Whoever reads it knows what is no longer judged, and all that is wrong."""
    rules = parsed(
        {"evaluator": "polite", "span_name": "answer"},
        {"sample_rate": 1, "evaluator": 3},
        {"sample_rate": 2, "evaluator": "a", "evaluator_label": "b"},
    )
    assert rules.problems == (
        (
            "sampling rule 1: sample_rate is missing;"
            " counted as 0 for evaluator 'polite' and span 'answer'"
        ),
        (
            "sampling rule 2: evaluator_label 3 is no name (leave the key out to match any);"
            " counted as 0 for all"
        ),
        (
            "sampling rule 3: evaluator and evaluator_label differ;"
            " sample_rate 2 is no number from 0 to 1; counted as 0 for all"
        ),
    )


def test_a_rule_about_tags_can_be_kept_in_a_set():
    """Equal rules are one, also where their condition is a mapping."""
    rules = {SamplingRule(0.5, where={"tag:tenant": "acme"}) for _ in range(2)}
    assert len(rules) == 1
