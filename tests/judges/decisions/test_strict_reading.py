"""What is wrong with one answer is an error of that question, and costs its siblings nothing."""

import json
from dataclasses import replace

import pytest
from decisions_asked import CHANCES, CHOICE, DATA, QUESTIONS, SCORE, YES_NO, numbers, yes_no

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.judges.models.decisions.wires import distribution
from llmeval_sdk.model import Option, Question


def changing(server, change):
    """Have every reply of a server changed before it is sent."""
    reply = server.reply

    def changed(seen):
        wire = reply(seen)
        body = json.loads(wire.body)
        change(body)
        return replace(wire, body=json.dumps(body).encode())

    server.reply = changed
    return server


FAULTS = {
    "refusal": "refused",
    "renamed": "malformed",
    "missing": "malformed",
    "twice": "malformed",
    "wrong_type": "malformed",
    "nan": "malformed",
}


@pytest.mark.parametrize("wire", ["openai", "systemone"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("first", QUESTIONS, ids=lambda question: question.type)
def test_a_fault_is_an_error_of_its_question(serve, ask, wire, fault, first):
    """Whatever the type of the question; all others are answered as they were."""
    rest = [question for question in QUESTIONS if question is not first]
    decision = ask(serve(fault), wire, [first, *rest])
    expected = {name: CHANCES[name] for name in (question.name for question in rest)}
    assert numbers(decision) == {first.name: FAULTS[fault], **expected}
    assert decision.answers[first.name].error.message
    assert decision.requests == 1


@pytest.mark.parametrize("wire", ["openai", "systemone"])
@pytest.mark.parametrize("question", [CHOICE, SCORE], ids=lambda question: question.type)
def test_probabilities_that_do_not_sum_to_1_are_no_answer(serve, ask, wire, question):
    """A distribution that is none says nothing about any of its options."""
    decision = ask(serve("bad_sum"), wire, [question, YES_NO])
    assert numbers(decision) == {
        question.name: "malformed",
        "groundedness": {"yes": 0.8, "no": 0.2},
    }


@pytest.mark.parametrize("wire", ["openai", "systemone"])
def test_a_probability_above_1_is_no_answer(serve, ask, wire):
    """A yes/no answer has one number, which has to be from 0 to 1."""
    assert numbers(ask(serve("bad_sum"), wire, [YES_NO])) == {"groundedness": "malformed"}


@pytest.mark.parametrize("wire", ["openai", "systemone"])
def test_a_surplus_answer_is_nobody_s(serve, ask, wire):
    """It is never a score, and the questions that were asked keep theirs."""
    assert numbers(ask(serve("surplus"), wire)) == CHANCES


def test_answers_out_of_order_are_errors_on_a_wire_that_has_an_order(serve, ask):
    """Two that changed places are both in doubt; those that stand where they should are not."""
    decision = ask(serve("wrong_order"), "openai", [*QUESTIONS, *yes_no("last")])
    found = numbers(decision)
    assert (found["groundedness"], found["tone"]) == ("malformed", "malformed")
    assert (found["helpful"], found["last"]) == (CHANCES["helpful"], {"yes": 0.75, "no": 0.25})
    assert "order" in decision.answers["tone"].error.message


def test_an_object_of_answers_has_no_order(serve, ask):
    """System One names each answer, so that their order says nothing."""
    assert numbers(ask(serve("wrong_order"), "systemone")) == CHANCES


@pytest.mark.parametrize("place", ["diagnostics", "x_label_mass"])
def test_a_low_label_mass_is_no_answer(serve, ask, place):
    """VLLM and SGLang say how much of the model's probability the options hold together."""
    if place == "diagnostics":
        server = serve("low_mass")
    else:
        server = changing(
            serve(), lambda body: body["answers"]["groundedness"].update(x_label_mass=0.2)
        )
    decision = ask(server, "systemone")
    found = numbers(decision)
    assert found.pop("groundedness") == "unanswered"
    assert found == {name: CHANCES[name] for name in ("tone", "helpful")}


@pytest.mark.parametrize(
    ("chances", "is_answer"),
    [
        ({"a": 0.33, "b": 0.33, "c": 0.33}, True),
        ({"a": 0.34, "b": 0.34, "c": 0.33}, True),
        ({"a": 0.3, "b": 0.33, "c": 0.33}, False),
        ({"a": 0.5, "b": 0.5}, False),
        ({"a": 0.5, "b": 0.5, "c": 0.0, "d": 0.0}, False),
        ({"a": 1, "b": 0, "c": 0}, True),
        ({"a": True, "b": 0, "c": 0}, False),
        ({"a": "1", "b": 0, "c": 0}, False),
        ({"a": -0.1, "b": 1.1, "c": 0}, False),
        ({"a": float("nan"), "b": 0.5, "c": 0.5}, False),
        ({"a": float("inf"), "b": 0.5, "c": 0.5}, False),
        ({"a": 10**400, "b": 0.5, "c": 0.5}, False),
        ({"a": None, "b": 0.5, "c": 0.5}, False),
        ({}, False),
    ],
)
def test_a_distribution_is_read_to_two_decimals_and_sums_to_1(chances, is_answer):
    """Some hosts round; what is kept sums to 1 exactly enough to compute with."""
    question = Question("q", "choice", "Which?", tuple(map(Option, "abc")))
    answer = distribution(question, chances.items())
    assert (answer.error is None) is is_answer
    if is_answer:
        assert sum(answer.probabilities.values()) == pytest.approx(1, abs=1e-12)
        assert list(answer.probabilities) == ["a", "b", "c"]


def test_many_options_never_hide_one():
    """Rounding to two decimals is allowed for each option, up to a bound for all together."""
    question = Question("q", "choice", "Which?", tuple(Option(str(n)) for n in range(100)))
    short = {str(n): 0.009 for n in range(100)}  # 0.9 together
    assert distribution(question, short.items()).error is not None
    near = {str(n): 0.0096 for n in range(100)}
    assert distribution(question, near.items()).error is None


CHANGES = {
    "an option that was not on offer": lambda tone: tone["probabilities"][0].update(value="odd"),
    "true is not 'true'": lambda tone: tone["probabilities"][0].update(value=True),
    "an option twice": lambda tone: tone["probabilities"].append(dict(tone["probabilities"][0])),
    "an option less": lambda tone: tone["probabilities"].pop(0),
    "probabilities as an object": lambda tone: tone.update(probabilities={"friendly": 1.0}),
    "no objects in the list": lambda tone: tone.update(probabilities=[0.2, 0.3, 0.5]),
    "a choice that is not the likeliest": lambda tone: tone.update(choice="rude"),
    "a choice that was not on offer": lambda tone: tone.update(choice="odd"),
    "a choice that is a list": lambda tone: tone.update(choice=["neutral"]),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_choice_is_read_strictly(serve, ask, what):
    """Each option once, no other, and a choice that its probabilities bear out."""
    server = changing(serve(), lambda body: CHANGES[what](body["answers"][1]))
    found = numbers(ask(server, "openai"))
    assert found.pop("tone") == "malformed"
    assert found == {name: CHANCES[name] for name in ("groundedness", "helpful")}


LEVELS = {
    "a number that is no level": lambda levels: levels[0].update(value=3),
    "a negative number": lambda levels: levels[0].update(value=-1),
    "a number as text": lambda levels: levels[0].update(value="0"),
    "true for 1": lambda levels: levels[1].update(value=True),
    "a label of another level": lambda levels: levels[0].update(label="helpful"),
}


@pytest.mark.parametrize("what", LEVELS)
def test_a_level_is_known_by_number_and_label(serve, ask, what):
    """Where the two disagree, nobody knows which level the probability is of."""
    server = changing(serve(), lambda body: LEVELS[what](body["answers"][2]["probabilities"]))
    assert numbers(ask(server, "openai"))["helpful"] == "malformed"


@pytest.mark.parametrize(
    "answer",
    [None, [], "yes", 0.7, {}, {"type": "noul"}, {"type": "noul", "noul": "0.7"},
     {"type": "noul", "noul": True}, {"type": "noul", "noul": [0.7]}, {"type": ["noul"]}],
    ids=str,
)  # fmt: skip
def test_what_is_no_answer_of_system_one_is_an_error(serve, ask, answer):
    """Of any type that JSON has."""
    server = changing(serve(), lambda body: body["answers"].update(groundedness=answer))
    found = numbers(ask(server, "systemone"))
    assert found.pop("groundedness") == "malformed"
    assert found == {name: CHANCES[name] for name in ("tone", "helpful")}


def test_nameless_answers_are_nobody_s(serve, ask):
    """Every question has a name here, so an answer without one answers none of them."""
    server = changing(serve(), lambda body: body["answers"][0].update(name=None))
    assert numbers(ask(server, "openai"))["groundedness"] == "malformed"


def test_a_hundred_thousand_surplus_answers_cost_little(serve, ask):
    """Reading takes time in proportion to what came, however the names are."""
    surplus = [{"name": f"s{n % 7}"} for n in range(100_000)]
    server = changing(serve(), lambda body: body["answers"].extend(surplus))
    assert numbers(ask(server, "openai")) == CHANCES


@pytest.mark.parametrize("wire", ["openai", "systemone", "logprobs"])
@pytest.mark.parametrize("fault", ["not_the_wire", "cut", "html"])
def test_a_reply_that_is_not_the_wire_s_fails_the_whole_call(serve, ask, wire, fault):
    """Nothing of it can be trusted; it is not asked for again."""
    server = serve(fault)
    with pytest.raises(JudgeError) as caught:
        ask(server, wire)
    assert caught.value.type == "malformed"
    assert len(server.decisions) == 1


@pytest.mark.parametrize(
    "body", [[], "x", 3, None, {"answers": None}, {"answers": 3}, {"answers": "yes"}]
)
@pytest.mark.parametrize("wire", ["openai", "systemone", "logprobs"])
def test_json_of_another_form_fails_the_whole_call(serve, ask, wire, body):
    """Whatever JSON it is."""
    from llmeval_sdk.testing.judge_server import ServedAnswer

    server = serve()
    server.reply = lambda seen: ServedAnswer(200, json.dumps(body).encode())
    with pytest.raises(JudgeError) as caught:
        ask(server, wire)
    assert caught.value.type == "malformed"


def test_a_server_of_the_other_wire_is_named(serve, ask):
    """Three bodies share one path: the error says which wire the reply looks like."""
    server = changing(serve(), lambda body: body.update(answers={}))
    with pytest.raises(JudgeError, match="systemone/"):
        ask(server, "openai")
    server = changing(serve(), lambda body: body.update(answers=[]))
    with pytest.raises(JudgeError, match="openai/"):
        ask(server, "systemone", path="/decisions")


def test_what_failed_as_a_whole_says_what_it_used(serve, ask):
    """A reply that cannot be read was paid for all the same."""
    server = changing(serve(), lambda body: body.update(answers=3))
    with pytest.raises(JudgeError) as caught:
        ask(server, "openai", data=DATA)
    assert caught.value.usage.input_tokens > 0
