"""A reply is a verdict to the letter, or malformed: never a wrong score, never another exception."""

import json
import random
import string

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.judges import prompt
from llmeval_sdk.judges.prompt import FACTS, RECALL, SCORE, YES_NO, category, in_range, read
from llmeval_sdk.model.json_object import MAX_CHARACTERS


GOOD = {"rationale": "because", "rating": "yes"}


def malformed(text, form=YES_NO):
    with pytest.raises(JudgeError) as caught:
        read(text, form)
    return caught.value.type == "malformed"


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(GOOD),
        f"```json\n{json.dumps(GOOD)}\n```",
        f"Sure! {json.dumps(GOOD)} Hope that helps.",
        f'<think>maybe {{"rating": "no"}}</think>{json.dumps(GOOD)}',
        '{"rating": " YES ", "rationale": "because"}',
        f"[{json.dumps(GOOD)}]",
        f"the set {{x | x > 0}} then {json.dumps(GOOD)}",
    ],
)
def test_wrapping_is_tolerated(text):
    """Fences, prose, thoughts and case around the one object do not matter."""
    assert read(text, YES_NO) == GOOD


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yes",
        "{}",
        '{"rating": "yes"}',
        '{"rating": "yes", "rationale": null}',
        '{"rating": "maybe", "rationale": "x"}',
        '{"rating": true, "rationale": "x"}',
        '{"rating": ["yes"], "rationale": "x"}',
        '{"rating": "yes", "rationale": "x", "score": 1}',
        '{"rating": "yes", "rating": "no", "rationale": "x"}',
        json.dumps(GOOD) + json.dumps({**GOOD, "rating": "no"}),
        json.dumps([GOOD, GOOD]),
        json.dumps({"verdict": GOOD}),
        json.dumps(json.dumps(GOOD)),
        '{"rating": "yes", "rationale": "x"',
        "<think>" + json.dumps(GOOD),
        '{"a":' * 50_000,
        "{" * 100_000,
        json.dumps(GOOD) + " " * MAX_CHARACTERS,
        '{"rating": "yes", "rationale": ' + "9" * 6_000 + "}",
    ],
)  # fmt: skip
def test_anything_else_is_malformed(text):
    """Missing, extra and repeated keys, other types, two objects, nesting bombs."""
    assert malformed(text)


@pytest.mark.parametrize(
    "score",
    ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1.0001", "-0.0001", "99999",
     '"0.5"', "true", "null", "[0.5]", "{}", "9" * 400],
)  # fmt: skip
def test_a_score_that_is_no_number_in_range_is_malformed(score):
    """The scale is 0..1, and only a finite JSON number is a score."""
    text = f'{{"rationale": "x", "score": {score}}}'
    with pytest.raises(JudgeError) as caught:
        in_range(read(text, SCORE)["score"])
    assert caught.value.type == "malformed"


def test_the_ends_of_the_range_are_scores():
    """0 and 1 are in, as floats, and minus zero is zero."""
    for text, expected in (("0", "0.0"), ("1", "1.0"), ("-0.0", "0.0"), ("0.25", "0.25")):
        found = in_range(read(f'{{"rationale": "x", "score": {text}}}', SCORE)["score"])
        assert str(found) == expected


def test_a_category_is_given_back_as_it_was_named():
    """Whatever case the model writes, the value is the author's word."""
    form = category("Formal", "casual")
    assert read('{"rationale": "", "rating": "FORMAL"}', form)["rating"] == "Formal"
    assert malformed('{"rationale": "", "rating": "yes"}', form)


def test_a_rationale_can_always_be_exported():
    """Half a surrogate pair becomes a mark, and a novel is cut."""
    text = json.dumps({"rating": "no", "rationale": "\ud800" + "x" * 10_000})
    rationale = read(text, YES_NO)["rationale"]
    assert rationale.encode("utf-8").startswith(b"?x")
    assert len(rationale) == prompt.RATIONALE_CHARACTERS


FORMS = (YES_NO, SCORE, RECALL, FACTS, category("a", "b"))


def check(text):
    """Read with every form: a fitting verdict or `malformed`, nothing else."""
    kinds = {"malformed"}
    verdicts = 0
    for form in FORMS:
        try:
            verdict = read(text, form)
            for key in ("score", "context_recall_score"):
                if key in verdict:
                    assert 0.0 <= in_range(verdict[key]) <= 1.0
        except JudgeError as error:
            kinds.add(error.type)
            continue
        verdicts += 1
        assert verdict.keys() == form.schema["properties"].keys()
        if "rating" in verdict:
            assert verdict["rating"] in form.schema["properties"]["rating"]["enum"]
    assert kinds == {"malformed"}
    return verdicts


PIECES = [
    "{", "}", "[", "]", '"', ":", ",", "\\", "\n", "```json\n", "```", "<think>", "</think>",
    '"score"', '"rating"', '"rationale"', '"reason"', '"context_recall_score"', '"facts"',
    '"number"', '"stated"', '"yes"', '"no"', "true", "false", "null", "NaN", "Infinity", "-", "0",
    "1", "0.5", "2", "1e999", "-1", "\\u0000", "\\ud83d", "\ufeff", "\u200b", "é", "yes",
    json.dumps(GOOD), '{"rationale": "x", "score": 0.5}', '{"rationale": "x", "score": ',
    '{"reason": "x", "context_recall_score": 1}', '{"facts": [{"number": 1, "stated": "yes"}]',
]  # fmt: skip


def test_ten_thousand_odd_replies_give_no_wrong_score_and_no_other_exception():
    """A seeded mix of fragments, mutations and noise."""
    chance = random.Random(20_261_121)
    whole = [
        json.dumps(GOOD),
        '{"rationale": "x", "score": 0.5}',
        '{"reason":"r","context_recall_score":0.9}',
    ]
    verdicts = 0
    for turn in range(12_000):
        if turn % 3 == 0:
            text = "".join(chance.choices(PIECES, k=chance.randrange(12)))
        elif turn % 3 == 1:
            signs = list(chance.choice(whole))
            for _ in range(chance.randrange(1, 5)):
                place = chance.randrange(len(signs))
                signs[place : place + chance.randrange(3)] = chance.choice(PIECES)
            text = "".join(signs)
        else:
            text = "".join(
                chance.choices(string.printable + "\u200b\ud800", k=chance.randrange(80))
            )
        verdicts += check(text)
    assert 100 < verdicts < 6_000  # the mix holds verdicts and other things


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["yes", "no", 0.5]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["rating", "rationale", "score", "reason", "facts", "number", "stated"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_json, st.text(max_size=10), st.text(max_size=10))
def test_any_json_at_all_is_a_verdict_or_malformed(value, before, after):
    """Whatever JSON a model makes up, in whatever it wraps it."""
    check(before + json.dumps(value) + after)


@pytest.mark.parametrize("braces", [0, 1, 62, 63, 64, 65, 200, 5_000])
@pytest.mark.parametrize("brace", ["{", "{ ", "{{x} "])
def test_a_second_verdict_is_found_behind_any_number_of_braces(braces, brace):
    """A yes that a no follows leaves open what was meant, wherever the no stands."""
    other = json.dumps({**GOOD, "rating": "no"})
    assert malformed(f"{json.dumps(GOOD)} {brace * braces}{other}")
    assert malformed(f"{brace * braces}{json.dumps(GOOD)} {other}")


def test_a_reply_of_too_many_braces_is_refused_in_time():
    """What cannot be searched for a second object is no verdict."""
    assert malformed(json.dumps(GOOD) + "{" * 200_000)
    assert malformed('{"a":' * 40_000 + json.dumps(GOOD))
