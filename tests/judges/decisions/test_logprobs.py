"""A chat model decides by the probabilities of its first token, or does not decide."""

import asyncio
import math
import threading
import time
from contextlib import asynccontextmanager

import pytest
from decisions_asked import CHANCES, CHOICE, DATA, SCORE, YES_NO, numbers, yes_no

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.model.protocols import answer_by, further_place
from llmeval_sdk.testing.judge_server import ServedAnswer, error


def saying(server, *tokens, **choice):
    """Have a server answer with some tokens, each a mapping of the likeliest texts."""
    import json

    content = [
        {
            "token": max(top, key=top.get),
            "logprob": math.log(max(top.values())),
            "top_logprobs": [
                {"token": text, "logprob": math.log(chance) if chance else -9999.0}
                for text, chance in top.items()
            ],
        }
        for top in tokens
    ]
    message = {"role": "assistant", "content": "whatever"}
    reply = {"choices": [{"message": message, "logprobs": {"content": content}, **choice}]}
    server.reply = lambda seen: ServedAnswer(200, json.dumps(reply).encode())
    return server


def test_spellings_of_a_label_are_summed_up(serve, ask):
    """Case and space differ from one tokenizer to the next; other tokens count for nothing."""
    server = saying(
        serve(),
        {"Yes": 0.3, " yes": 0.1, "YES": 0.1, "\u2581yes": 0.1, "\u0120Yes": 0.1, "no": 0.1,
         "No\n": 0.1, "Yesterday": 0.05},
    )  # fmt: skip
    decision = ask(server, "logprobs", [YES_NO])
    assert numbers(decision) == {"groundedness": {"yes": 0.777778, "no": 0.222222}}


def test_the_first_token_that_is_not_blank_counts(serve, ask):
    """What a model says before is not an answer yet, and what it says after is none."""
    server = saying(serve(), {"\n\n": 0.9}, {" ": 0.8}, {"no": 0.75, "yes": 0.25}, {"yes": 1.0})
    decision = ask(server, "logprobs", [YES_NO])
    assert numbers(decision) == {"groundedness": {"yes": 0.25, "no": 0.75}}


def test_nothing_but_blanks_is_no_answer(serve, ask):
    """Such as of a model that thinks first."""
    server = saying(serve(), {"\n": 1.0}, {" ": 1.0})
    assert numbers(ask(server, "logprobs", [YES_NO])) == {"groundedness": "unanswered"}
    server = saying(serve())
    assert numbers(ask(server, "logprobs", [YES_NO])) == {"groundedness": "unanswered"}


@pytest.mark.parametrize(
    ("mass", "is_answered"), [(0.0, False), (0.49, False), (0.51, True), (1.0, True)]
)
def test_a_low_label_mass_is_no_answer(serve, ask, mass, is_answered):
    """A model that would rather say something else has not answered."""
    server = saying(serve(), {"yes": mass, "Well": 1 - mass})
    decision = ask(server, "logprobs", [YES_NO])
    expected = {"yes": 1.0, "no": 0.0} if is_answered else "unanswered"
    assert numbers(decision) == {"groundedness": expected}


@pytest.mark.parametrize(
    ("fault", "expected"),
    [("refusal", "refused"), ("nan", "malformed"), ("bad_sum", "malformed"),
     ("low_mass", "unanswered"), ("missing", "unanswered")],
)  # fmt: skip
def test_a_fault_is_an_error_of_its_question(serve, ask, fault, expected):
    """The others are asked by requests of their own, and answered."""
    server = serve("good", fault)
    decision = ask(server, "logprobs", [SCORE, YES_NO, CHOICE])
    # The three requests are under way at once, so any of them may be the second to arrive.
    answers = numbers(decision)
    (faulty,) = (name for name, answer in answers.items() if answer == expected)
    assert answers == {**CHANCES, faulty: expected}
    assert decision.requests == 3


def test_a_content_filter_is_a_refusal(serve, ask):
    """As chat completions say it."""
    server = saying(serve(), {"yes": 1.0}, finish_reason="content_filter")
    assert numbers(ask(server, "logprobs", [YES_NO])) == {"groundedness": "refused"}


@pytest.mark.parametrize(
    "top",
    [None, [], "yes", [None], [{}], [{"token": "yes"}], [{"token": 3, "logprob": -1}],
     [{"token": "yes", "logprob": True}], [{"token": "yes", "logprob": "-1"}],
     [{"token": "yes", "logprob": 0.5}], [{"token": "yes", "logprob": None}]],
    ids=str,
)  # fmt: skip
def test_logprobs_that_cannot_be_read_are_an_error(serve, ask, top):
    """The token alone would pass for certain, however unlikely it was."""
    import json

    content = [{"token": "yes", "logprob": -0.1, "top_logprobs": top}]
    message = {"role": "assistant", "content": "yes"}
    reply = {"choices": [{"message": message, "logprobs": {"content": content}}]}
    server = serve()
    server.reply = lambda seen: ServedAnswer(200, json.dumps(reply).encode())
    assert numbers(ask(server, "logprobs", [YES_NO])) == {"groundedness": "malformed"}


def test_a_logprob_of_minus_infinity_is_no_chance(serve, ask):
    """Some servers write it so, or as a huge number."""
    server = serve()
    body = (
        b'{"choices": [{"message": {"content": "no"}, "logprobs": {"content": [{"token": "no", '
        b'"logprob": -0.0, "top_logprobs": [{"token": "no", "logprob": 0}, {"token": "yes", '
        b'"logprob": -Infinity}, {"token": "Yes", "logprob": -1' + b"0" * 400 + b"}]}]}}]}"
    )
    server.reply = lambda seen: ServedAnswer(200, body)
    assert numbers(ask(server, "logprobs", [YES_NO])) == {"groundedness": {"yes": 0.0, "no": 1.0}}


@pytest.mark.parametrize("fault", ["refuses_logprobs", "without_logprobs"])
def test_a_model_without_logprobs_says_what_to_use_instead(serve, ask, fault):
    """Whether the server refuses or forgets them: it is asked once, and never guessed."""
    server = serve(default=fault)
    with pytest.raises(JudgeError, match="logprobs") as caught:
        ask(server, "logprobs")
    for words in ("gpt-4.1", "vLLM", "openai/gpt-6-luna", "systemone/"):
        assert words in str(caught.value)
    assert not caught.value.retryable
    assert len(server.decisions) == 1


def test_a_403_about_logprobs_says_so_too(serve, ask):
    """OpenAI refuses them to some models as a matter of permission."""
    server = serve()
    message = "You are not allowed to request logprobs from this model"
    server.reply = lambda seen: error(403, message, "forbidden")
    with pytest.raises(JudgeError, match=r"openai/gpt-6-luna.*not allowed") as caught:
        ask(server, "logprobs")
    assert caught.value.type == "bad_request"


def test_a_parameter_that_a_model_does_not_take_is_left_out(serve, ask):
    """As for judges: another name of the limit, no temperature; learned once for the model."""
    server = serve()
    reply = server.reply

    def picky(seen):
        if "max_tokens" in seen.body:
            return error(400, "Use 'max_completion_tokens' instead.", "unsupported_parameter")
        if "temperature" in seen.body:
            return error(400, "'temperature' does not support 0.", "unsupported_value")
        return reply(seen)

    server.reply = picky
    decision = ask(server, "logprobs", [YES_NO])
    assert numbers(decision) == {"groundedness": CHANCES["groundedness"]}
    assert decision.requests == 3
    assert ask(server, "logprobs", [YES_NO], DATA).requests == 1


def test_questions_are_asked_at_the_same_time(serve, ask):
    """The first shows that the model gives logprobs; the others are answered once all have come."""
    server = serve(default="good")
    reply, all_came = server.reply, threading.Barrier(8)

    def together(seen):
        if len(server.requests) > 1:
            all_came.wait(30)
        return reply(seen)

    server.reply = together
    decision = ask(server, "logprobs", yes_no(*"abcdefghi"))
    assert set(map(str, numbers(decision).values())) == {str({"yes": 0.75, "no": 0.25})}
    assert decision.requests == len(server.decisions) == 9


def test_no_more_are_asked_at_a_time_than_there_is_room_for(serve, model):
    """Where no place is free, one goes after the other."""
    server = serve()
    busy = []

    @asynccontextmanager
    async def none_free():
        busy.append(True)
        yield False

    token = further_place.set(none_free)
    try:
        decision = asyncio.run(model(server, "logprobs").decide(DATA, yes_no(*"abcd")))
    finally:
        further_place.reset(token)
    assert decision.requests == 4
    assert len(busy) == 2


def test_what_was_answered_by_the_deadline_counts(serve, model):
    """A question without an answer in time is an error of its own; the others were paid for."""
    server = serve("good", "good", "good", default="hang")
    token = answer_by.set(time.monotonic() + 2.0)
    try:
        decision = asyncio.run(model(server, "logprobs").decide(DATA, yes_no(*"abcde")))
    finally:
        answer_by.reset(token)
    said = numbers(decision)
    assert said["a"] == {"yes": 0.75, "no": 0.25}
    assert sorted(map(str, said.values())).count("timeout") == 2
