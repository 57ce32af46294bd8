"""What does not fit into one request goes in several; nothing is cut, and nothing is left out."""

import gc

import pytest
from decisions_asked import CHANCES, DATA, WIRES, YES_NO, numbers, yes_no

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.judges.models.decisions import Limits
from llmeval_sdk.judges.models.decisions.client import DecisionCall
from llmeval_sdk.judges.models.sending import Sender
from llmeval_sdk.model import Option, Question
from llmeval_sdk.model.protocols import further_request


def names(server):
    """Return the names of the questions of each request."""
    asked = [seen.body["questions"] for seen in server.decisions]
    return [[one["name"] for one in part] if isinstance(part, list) else [*part] for part in asked]


MANY = [f"q{number}" for number in range(450)]


@pytest.mark.parametrize(("wire", "most"), [("openai", 400), ("systemone", 64)])
def test_more_questions_than_a_request_takes_go_in_several(serve, ask, wire, most):
    """As few requests as possible, each question in one of them, all answers together."""
    server = serve()
    decision = ask(server, wire, yes_no(*MANY))
    asked = names(server)
    asked.sort(key=lambda part: MANY.index(part[0]))  # all but the first at the same time
    assert [len(part) for part in asked[:-1]] == [most] * (len(asked) - 1)
    assert [name for part in asked for name in part] == MANY == list(decision.answers)
    assert decision.requests == len(asked) == -(-len(MANY) // most)
    assert all(answer.error is None for answer in decision.answers.values())


def test_as_many_questions_as_a_request_takes_go_in_one(serve, ask):
    """The limit itself still fits."""
    server = serve()
    assert ask(server, "openai", yes_no(*MANY[:400])).requests == 1


def test_the_limits_of_a_server_can_be_said(serve, ask):
    """One that takes less than its wire is asked for less at a time."""
    server = serve(most_questions=2)
    decision = ask(server, "systemone", yes_no(*"abcde"), limits=Limits(questions=2, options=26))
    assert sorted(names(server)) == [["a", "b"], ["c", "d"], ["e"]]  # they are asked side by side
    assert all(answer.error is None for answer in decision.answers.values())


def test_a_chat_model_is_asked_one_question_a_request(serve, ask):
    """That is the wire's limit, and each of them counts."""
    server = serve()
    decision = ask(server, "logprobs", yes_no(*"abcde"))
    assert decision.requests == len(server.decisions) == 5


def test_known_token_limits_divide_the_questions(serve, ask):
    """The data is sent with each part, whole; parts are made as large as they may be."""
    server = serve()
    long = [Question(name, "yes_no", "word " * 600) for name in "abcd"]  # about 1,000 tokens each
    decision = ask(server, "openai", long, limits=Limits(questions=9, options=2, tokens=2_500))
    assert sorted(names(server)) == [["a", "b"], ["c", "d"]]
    contents = [seen.body["input"] for seen in server.decisions]
    assert contents[0] == contents[1]
    assert list(decision.answers) == [*"abcd"]


def test_data_beyond_a_known_limit_is_left_to_the_server(serve, ask):
    """An estimate may be wrong; more requests with the same data would not make it shorter."""
    server = serve()
    data = {"response": "word " * 3_000}
    decision = ask(
        server, "openai", yes_no(*"abcd"), data, limits=Limits(questions=9, options=2, tokens=100)
    )
    assert decision.requests == 1
    assert server.decisions[0].body["input"][0]["content"] == [
        {"type": "input_json", "data": {"response": "word " * 3_000}}
    ]


@pytest.mark.parametrize("wire", ["openai", "systemone"])
def test_a_request_that_is_too_long_for_the_server_is_divided(serve, ask, wire):
    """Servers differ in what they take, and say so: questions are halved until they fit."""
    server = serve(most_tokens=700)
    long = [Question(name, "yes_no", "word " * 200) for name in "abcde"]  # 250 tokens each
    decision = ask(server, wire, long)
    assert all(answer.error is None for answer in decision.answers.values())
    assert list(decision.answers) == [*"abcde"]
    assert decision.requests == len(server.decisions)
    asked = names(server)
    assert len(asked[0]) == 5
    assert max(len(part) for part in asked[1:]) < 5


def test_data_that_is_too_long_is_an_error_of_the_call(serve, ask):
    """It is never cut; the error comes after a few requests, not after one for each question."""
    server = serve(most_tokens=100)
    with pytest.raises(JudgeError) as caught:
        ask(server, "systemone", yes_no(*MANY[:64]), {"response": "word " * 1_000})
    assert caught.value.type == "too_long"
    assert len(server.decisions) <= 7  # 64, 32 … 1


def test_a_single_question_that_is_too_long_costs_its_siblings_nothing(serve, ask):
    """The shorter ones are asked first, so that it is known whose fault it is."""
    server = serve(most_tokens=400)
    huge = Question("huge", "yes_no", "word " * 2_000)
    decision = ask(server, "openai", [huge, *yes_no("a", "b", "c")])
    found = numbers(decision)
    assert found.pop("huge") == "too_long"
    assert set(map(str, found.values())) == {"{'yes': 0.75, 'no': 0.25}"}
    assert list(decision.answers) == ["huge", "a", "b", "c"]


@pytest.mark.parametrize(
    ("wire", "kind", "count", "fits"),
    [
        ("openai", "choice", 255, True), ("openai", "choice", 256, False),
        ("openai", "score", 10, True), ("openai", "score", 11, False),
        ("systemone", "choice", 255, True), ("systemone", "choice", 256, False),
        ("systemone", "score", 10, True), ("systemone", "score", 11, False),
        ("logprobs", "choice", 20, True), ("logprobs", "choice", 21, False),
        ("logprobs", "score", 10, True), ("logprobs", "score", 11, False),
        ("openai", "choice", 1, False), ("openai", "score", 0, False),
    ],
)  # fmt: skip
def test_options_and_levels_are_limited_by_the_wire(serve, ask, model, wire, kind, count, fits):
    """It is said at registration, and asked all the same it is an error of that question alone."""
    server = serve(decide=lambda data, question: (
        {"yes": 0.75, "no": 0.25} if question.type == "yes_no" else
        {option.value: 1 / len(question.options) for option in question.options}
    ))  # fmt: skip
    question = Question("big", kind, "Which?", tuple(Option(f"o{n}") for n in range(count)))
    why = model(server, wire).refuses(question)
    assert (why is None) is fits
    found = numbers(ask(server, wire, [question, YES_NO]))
    assert found["groundedness"] == {"yes": 0.75, "no": 0.25}
    if fits:
        assert len(found["big"]) == count
    else:
        assert f"{count} {'options' if kind == 'choice' else 'levels'}" in why
        assert wire in why
        assert found["big"] == "bad_request"
        assert len(server.decisions) == 1


def test_questions_that_nobody_could_answer_are_refused(model, serve):
    """Options have values of their own, and a yes/no question has no others."""
    server = serve()
    for wire in WIRES:
        asked = model(server, wire)
        twice = Question("q", "choice", "Which?", (Option("a"), Option("a")))
        assert "the same value" in asked.refuses(twice)
        maybe = Question("q", "yes_no", "Is it?", (Option("maybe"),))
        assert "yes and no" in asked.refuses(maybe)


def test_two_questions_of_one_name_are_refused(serve, ask):
    """Nobody could tell their answers apart."""
    server = serve()
    with pytest.raises(JudgeError, match="the same name"):
        ask(server, "openai", yes_no("a", "a"))
    assert server.requests == []


def test_nothing_is_asked_where_there_is_nothing_to_ask(serve, ask):
    """No request, no answer, no error."""
    server = serve()
    decision = ask(server, "openai", [])
    assert (dict(decision.answers), decision.requests) == ({}, 0)
    assert server.requests == []


@pytest.mark.parametrize("wire", WIRES)
def test_each_further_request_is_permitted_by_the_budget(serve, ask, wire):
    """Whether it is made by a limit or by a failure; the permission says what went wrong before."""
    server = serve("rate_limited", retry_after=0.01)
    troubles = []

    async def permit(error):
        troubles.append(error and error.type)

    token = further_request.set(permit)
    try:
        decision = ask(server, wire, yes_no("a", "b"))
    finally:
        further_request.reset(token)
    expected = ["rate_limited", None] if wire == "logprobs" else ["rate_limited"]
    assert troubles == expected
    assert decision.requests == len(expected) + 1 == len(server.decisions)


def test_what_the_budget_refuses_keeps_the_answers_that_were_paid_for(serve, ask):
    """The questions of the requests that were not made have its reason as their error."""
    server = serve()

    async def refuse(error):
        raise JudgeError("budget", "no money left")

    token = further_request.set(refuse)
    try:
        decision = ask(server, "logprobs", yes_no("a", "b", "c"))
    finally:
        further_request.reset(token)
    assert numbers(decision) == {"a": {"yes": 0.75, "no": 0.25}, "b": "budget", "c": "budget"}
    assert decision.requests == 1


def test_a_failure_after_an_answer_costs_the_rest_only(serve, ask):
    """A server that goes down in the middle of a call takes no answer back."""
    server = serve("good", default="unavailable", retry_after=0.01)
    decision = ask(server, "logprobs", yes_no("a", "b", "c"))
    assert numbers(decision) == {
        "a": {"yes": 0.75, "no": 0.25},
        "b": "unavailable",
        "c": "unavailable",
    }
    assert decision.requests == len(server.decisions) == 7  # the two were asked at the same time


@pytest.mark.parametrize("fault", ["html", "cut", "not_the_wire"])
def test_a_reply_that_cannot_be_read_costs_the_questions_of_its_request_only(serve, ask, fault):
    """What was answered stands, and what was not asked yet is asked."""
    server = serve("good", fault)
    decision = ask(server, "logprobs", yes_no("a", "b", "c"))
    answer, answered = {"yes": 0.75, "no": 0.25}, numbers(decision)
    assert answered["a"] == answer
    unread, read = ("b", "c") if answered["b"] == "malformed" else ("c", "b")
    assert (answered[unread], answered[read]) == ("malformed", answer)  # both were asked at once
    assert decision.requests == 3


def test_nothing_is_sent_once_the_time_is_over(serve, ask):
    """A request that nobody could wait for is not made, and not asked of the budget."""
    server = serve()
    with pytest.raises(JudgeError, match="no time is left") as caught:
        ask(server, "openai", timeout=0.0)
    assert caught.value.type == "timeout"
    assert server.requests == []


def test_the_limits_are_those_of_a_record_of_ours(serve, ask):
    """Five judges and twenty chunks are one request on every wire that takes several questions."""
    for wire in ("openai", "systemone"):
        server = serve()
        chunks = [f"chunk_relevance.{number}" for number in range(1, 21)]
        decision = ask(server, wire, [YES_NO, *yes_no("a", "b", "c", "d", *chunks)], DATA)
        assert decision.requests == len(server.decisions) == 1
        assert numbers(decision)["groundedness"] == CHANCES["groundedness"]


def test_a_decision_leaves_nothing_to_the_collector(serve, ask):
    """What a call held is freed at its end: the collector stops all threads of the app."""
    server = serve()
    gc.collect()
    gc.disable()
    try:
        ask(server, "systemone", yes_no("one"))
        kinds = map(type, gc.get_objects())  # `is`, because other tests' classes refuse to compare
        left = [kind for kind in kinds if kind is Sender or kind is DecisionCall]
    finally:
        gc.enable()
    assert not left
