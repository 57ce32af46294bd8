"""Structured output: each server gets the best way to ask that it understands."""

import asyncio
import json

import pytest

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.judges.models import OpenAILLM, sending
from llmeval_sdk.model import Message, Usage
from llmeval_sdk.testing.judge_server import ServedAnswer


ANSWER = {"rationale": "because", "rating": "yes"}


def modes(server):
    """Say how each call asked for its structure."""
    found = []
    for seen in server.chats:
        if "tools" in seen.body:
            found.append("tool")
        else:
            found.append(seen.body.get("response_format", {}).get("type", "text"))
    return found


@pytest.mark.parametrize(
    ("behaviour", "climbed"),
    [
        ("good", ["json_schema"]),
        ("schema_500", ["json_schema", "tool"]),
        ("tool_only", ["json_schema", "tool"]),
        ("json_object_only", ["json_schema", "tool", "json_object"]),
        ("text_only", ["json_schema", "tool", "json_object", "text"]),
    ],
)
def test_each_server_is_asked_in_the_best_way_it_understands(serve, ask, behaviour, climbed):
    """A server that refuses a way to ask is asked in the next one, down to plain words."""
    server = serve(default=behaviour)
    completion = ask(server)
    assert json.loads(completion.text) == ANSWER
    assert modes(server) == climbed


def test_the_step_that_worked_is_remembered_for_the_server_and_model(serve, ask):
    """The second call to a server, even by another client, goes straight to what it understands."""
    server = serve(default="json_object_only")
    ask(server)
    ask(server)
    assert modes(server) == ["json_schema", "tool", "json_object", "json_object"]


def test_a_remembered_step_is_forgotten_after_a_while(serve, ask, monkeypatch):
    """A server that learned better is asked in the best way again."""
    server = serve("tool_only", "tool_only")
    ask(server)
    monkeypatch.setattr(sending, "REMEMBER_SECONDS", -1.0)
    ask(server)
    assert modes(server) == ["json_schema", "tool", "json_schema"]


def test_an_unreadable_reply_leads_to_the_next_step(serve, ask):
    """Prose where JSON was asked for costs one more call, not the verdict."""
    server = serve("malformed")
    assert json.loads(ask(server).text) == ANSWER
    assert modes(server) == ["json_schema", "tool"]


def test_fenced_json_is_readable(serve, ask):
    """A code fence and prose around the object are no reason to ask again."""
    server = serve("fenced")
    assert json.loads(ask(server).text.split("```json")[1].split("```")[0]) == ANSWER
    assert server.calls == 1


def test_a_reply_without_a_required_key_leads_to_the_next_step(serve, ask):
    """An object that lacks what the schema requires is not readable."""
    server = serve(lambda request: {"rationale": "no rating"})
    assert json.loads(ask(server).text) == ANSWER
    assert server.calls == 2


def test_usage_is_summed_over_the_steps(serve, ask):
    """What an unreadable reply cost is part of the completion's usage."""
    server = serve("malformed", "malformed")
    usage = ask(server).usage
    once = ask(server).usage
    assert server.calls == 4
    assert once.output_tokens < usage.output_tokens
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens


def test_a_server_that_only_babbles_is_malformed_and_its_cost_is_known(serve, ask):
    """When the last step is unreadable too, the error carries what all steps cost."""
    server = serve(default="malformed")
    with pytest.raises(JudgeError) as caught:
        ask(server)
    assert caught.value.type == "malformed"
    assert not caught.value.retryable
    assert server.calls == 4
    assert isinstance(caught.value.usage, Usage)
    assert caught.value.usage.total_tokens > 0


def test_words_for_the_schema_are_sent_only_where_the_server_takes_none(serve, ask):
    """The schema stands in the system message from the third step on, and not before."""
    server = serve(default="json_object_only")
    ask(server)
    roles = [[turn["role"] for turn in seen.body["messages"]] for seen in server.chats]
    assert roles == [["user"], ["user"], ["system", "user"]]
    assert '"required": ["rationale", "rating"]' in server.chats[2].body["messages"][0]["content"]


def test_a_reasoning_model_gets_the_parameters_it_takes(serve, ask):
    """`max_tokens` and `temperature` give way to what the server asks for, and stay away."""
    server = serve(default="reasoning")
    ask(server)
    ask(server)
    last = server.chats[-1].body
    assert server.calls == 4
    assert last["max_completion_tokens"] == 64
    assert "max_tokens" not in last
    assert "temperature" not in last


SCHEMA = {"type": "object", "properties": {"rating": {"type": "string"}}}


def test_first_calls_at_the_same_time_all_learn_what_a_reasoning_model_takes(serve):
    """The first refusal changes the parameters for the others, which then send theirs once more."""
    server = serve(default="reasoning")
    options = {"api_key": "sk-any", "timeout": 5.0, "backoff": 0.001}
    llm = OpenAILLM("stand-in", base_url=server.base_url, **options)

    async def ask_all():
        turns = [Message("user", "question?")]
        calls = [llm.complete(turns, schema=SCHEMA, max_tokens=64) for _ in range(8)]
        return await asyncio.gather(*calls)

    assert len(asyncio.run(ask_all())) == 8
    last = server.chats[-1].body
    assert last["response_format"]["type"] == "json_schema"
    assert last["max_completion_tokens"] == 64


def test_without_a_schema_the_text_comes_back_as_it_is(serve, ask):
    """A judge that wants prose gets prose, in one call without any structure."""
    server = serve(answer=lambda request: "just words")
    completion = ask(server, schema=None)
    assert (completion.text, completion.model, completion.finish_reason) == (
        "just words",
        "stand-in",
        "stop",
    )
    assert modes(server) == ["text"]


def test_every_request_is_deterministic_and_bounded(serve, ask):
    """Temperature 0 and a limit of tokens are on every request, and more parameters on top."""
    server = serve()
    ask(server, parameters={"seed": 7}, max_tokens=99)
    body = server.chats[0].body
    assert (body["temperature"], body["max_tokens"], body["seed"]) == (0, 99, 7)
    assert body["response_format"]["json_schema"]["strict"] is True


def test_ask_waits_for_one_answer_in_a_plain_thread(serve):
    """A judge that is a plain function may ask in its thread, again and again."""
    server = serve(answer=lambda request: request["messages"][-1]["content"][::-1])
    llm = OpenAILLM("stand-in", base_url=server.base_url)
    assert [llm.ask("abc"), llm.ask("def")] == ["cba", "fed"]


def test_a_judge_pays_what_its_cache_had_and_keeps_at_their_own_prices(serve, ask):
    """A server behind OpenAI's API that says so is believed; otherwise the caller knows the price."""
    usage = {
        "prompt_tokens": 1_000, "completion_tokens": 10, "total_tokens": 1_010,
        "prompt_tokens_details": {"cached_tokens": 400, "cache_write_tokens": 100},
    }  # fmt: skip
    message = {"role": "assistant", "content": json.dumps(ANSWER)}
    body = {"model": "m", "choices": [{"message": message}], "usage": usage}
    server = serve()
    server.reply = lambda request: ServedAnswer(200, json.dumps(body).encode())
    prices = {"m": (2.0, 10.0, 0.5, 4.0)}
    done = ask(server, prices=prices)
    assert done.usage.cost_usd == pytest.approx((500 * 2 + 400 * 0.5 + 100 * 4 + 10 * 10) / 1e6)
    assert ask(serve(), prices=prices).usage.cost_usd is None
