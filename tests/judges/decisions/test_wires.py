"""Each wire asks as its vendor has it, and what comes back is a distribution by name."""

import asyncio
import json
import os
import subprocess
import sys

import pytest
from decisions_asked import (
    CHANCES,
    CHOICE,
    DATA,
    KEY,
    QUESTIONS,
    SCORE,
    WIRES,
    YES_NO,
    numbers,
    yes_no,
)

from llmeval_sdk.judges.models.prices import price_of
from llmeval_sdk.model import Usage
from llmeval_sdk.testing.judge_server import ServedAnswer


@pytest.mark.parametrize("wire", WIRES)
def test_all_types_of_questions_are_answered_on_every_wire(serve, ask, wire):
    """The same questions give the same probabilities, whatever the server speaks."""
    server = serve()
    decision = ask(server, wire)
    assert numbers(decision) == CHANCES
    assert list(decision.answers) == [question.name for question in QUESTIONS]
    assert decision.model == "stand-in"
    requests = len(QUESTIONS) if wire == "logprobs" else 1
    assert decision.requests == len(server.decisions) == requests
    assert decision.usage.input_tokens > 0
    assert decision.usage.total_tokens == decision.usage.input_tokens + decision.usage.output_tokens
    assert all(seen.headers["authorization"] == f"Bearer {KEY}" for seen in server.requests)


def test_openai_gets_its_body(serve, ask):
    """Every text is a JSON part of the user's message; yes/no is a predicate with its cases."""
    server = serve()
    ask(server, "openai")
    (seen,) = server.decisions
    assert seen.path == "/v1/decisions"
    body = dict(seen.body)
    assert len(body.pop("prompt_cache_key")) == 32
    assert body == {
        "model": "any",
        "input": [
            {
                "role": "user",
                "content": [
                    {"type": "input_json", "data": {title: text}} for title, text in DATA.items()
                ],
            }
        ],
        "questions": [
            {
                "type": "predicate",
                "name": "groundedness",
                "instructions": f"{YES_NO.instructions}\n\nTrue means yes: all of it is supported"
                "\nFalse means no: some of it is not",
            },
            {
                "type": "choice",
                "name": "tone",
                "instructions": CHOICE.instructions,
                "choices": [
                    {"value": "friendly"},
                    {"value": "neutral", "description": "matter of fact"},
                    {"value": "rude", "description": "it insults"},
                ],
            },
            {
                "type": "score",
                "name": "helpful",
                "instructions": SCORE.instructions,
                "levels": [
                    {"label": "useless"},
                    {"label": "of some use", "description": "answers in part"},
                    {"label": "helpful"},
                ],
            },
        ],
    }


def test_system_one_gets_its_body(serve, ask):
    """The texts are the state, the questions an object; a criterion is a text, never null."""
    server = serve()
    ask(server, "systemone", [*QUESTIONS, *yes_no("safety")])
    (seen,) = server.decisions
    assert seen.path == "/v1/systemone"
    assert seen.body == {
        "model": "any",
        "state": DATA,
        "questions": {
            "groundedness": {
                "type": "noul",
                "instructions": YES_NO.instructions,
                "criteria": {"true": "all of it is supported", "false": "some of it is not"},
            },
            "tone": {
                "type": "choice",
                "instructions": CHOICE.instructions,
                "criteria": {
                    "friendly": "friendly",
                    "neutral": "matter of fact",
                    "rude": "it insults",
                },
            },
            "helpful": {
                "type": "score",
                "instructions": SCORE.instructions,
                "criteria": ["useless", "of some use: answers in part", "helpful"],
            },
            "safety": {"type": "noul", "instructions": "Is it safety?"},
        },
    }


def test_a_chat_model_gets_one_question_and_the_texts_as_json(serve, ask):
    """The answers on offer are words of one token; the texts stand in the user's message alone."""
    server = serve()
    ask(server, "logprobs", [CHOICE])
    (seen,) = server.decisions
    assert seen.path == "/v1/chat/completions"
    system, user = seen.body["messages"]
    assert (system["role"], user["role"]) == ("system", "user")
    assert json.loads(user["content"]) == DATA
    assert "A: friendly\nB: neutral (matter of fact)\nC: rude (it insults)" in system["content"]
    assert system["content"].endswith("Reply with exactly one of A, B, C, and with nothing else.")
    asked = {name: seen.body[name] for name in ("logprobs", "top_logprobs", "temperature")}
    assert asked == {"logprobs": True, "top_logprobs": 20, "temperature": 0}


def test_the_cache_key_names_the_data(serve, ask):
    """Requests about the same data share it, whatever is asked; other data has another."""
    server = serve()
    ask(server, "openai", [YES_NO])
    ask(server, "openai", [CHOICE, SCORE])
    ask(server, "openai", [YES_NO], {**DATA, "response": "At nine."})
    first, second, third = (seen.body["prompt_cache_key"] for seen in server.decisions)
    assert first == second != third


def test_the_path_is_configured_and_the_wire_never_guessed_from_it(serve, ask):
    """Perplexity takes System One's body where OpenAI has its own."""
    server = serve()
    decision = ask(server, "systemone", path="/decisions")
    (seen,) = server.decisions
    assert seen.path == "/v1/decisions"
    assert "state" in seen.body
    assert numbers(decision) == CHANCES


def test_cloudflare_s_envelope_is_opened(serve, ask):
    """Its path holds the model, its reply the one of System One below ``result``."""
    server = serve()
    decision = ask(server, "systemone", path="/ai/run/@cf/cloudflare/clef")
    (seen,) = server.decisions
    assert seen.path == "/v1/ai/run/@cf/cloudflare/clef"
    assert numbers(decision) == CHANCES
    assert decision.model == "stand-in"
    assert decision.usage.input_tokens > 0


def test_a_local_server_needs_no_key(serve, ask):
    """Where none is given, none that could be anybody's is sent."""
    server = serve()
    assert numbers(ask(server, "systemone", api_key=None)) == CHANCES
    assert server.decisions[0].headers["authorization"] == "Bearer none"


def test_the_server_s_confidence_is_not_read(serve, ask):
    """Hosts differ in what they call so; the probabilities say all that is used."""
    server = serve()
    reply = server.reply

    def without(seen):
        from dataclasses import replace

        wire = reply(seen)
        body = json.loads(wire.body)
        for answer in body["answers"]:
            answer["confidence"] = "very"
        return replace(wire, body=json.dumps(body).encode())

    server.reply = without
    assert numbers(ask(server, "openai")) == CHANCES


@pytest.mark.parametrize("wire", WIRES)
def test_usage_is_that_of_all_requests(serve, ask, wire):
    """Requests that were divided are summed up; nothing is made up where a server is silent."""
    server = serve()
    one = ask(server, wire, yes_no("a"))
    two = ask(server, wire, yes_no("a", "b"), limits=None)
    assert isinstance(one.usage, Usage)
    assert two.usage.input_tokens > one.usage.input_tokens


def with_a_cache(server, written=0):
    """Have a server say that a cache took part in each request."""
    scripted = server.reply

    def reply(request):
        body = json.loads(scripted(request).body)
        body["usage"] = {
            "input_tokens": 1_000, "output_tokens": written, "total_tokens": 1_000 + written,
            "input_tokens_details": {"cached_tokens": 400, "cache_write_tokens": 100},
        }  # fmt: skip
        return ServedAnswer(200, json.dumps(body).encode())

    server.reply = reply
    return server


def test_a_decision_of_openai_has_the_price_of_decisions(serve, model):
    """The same model costs less in a chat where a cache had the input, and more for its output."""
    server = with_a_cache(serve(), written=50)
    asked = model(server, "openai")
    asked.model = "gpt-6-luna"
    decision = asyncio.run(asked.decide(DATA, yes_no("a")))
    price = price_of("openai-decisions/gpt-6-luna")
    assert (price.output, price.cache_read) == (0, None)
    assert decision.usage.cost_usd == pytest.approx(1_000 * price.input / 1e6)


def test_what_the_cache_of_decisions_keeps_has_its_own_price(serve, ask):
    """Further requests about the same data find it in the cache, and pay less for it."""
    server = with_a_cache(serve())
    decision = ask(server, "openai", yes_no("a"), prices={"any": (2.0, 0.0, 0.5, 4.0)})
    usd = (500 * 2 + 400 * 0.5 + 100 * 4) / 1e6
    assert decision.usage.cost_usd == pytest.approx(usd)


CODE = """
import asyncio, sys
from llmeval_sdk.judges.models.decisions import HttpDecisions
from llmeval_sdk.model import Question
model = HttpDecisions(sys.argv[1] + "/any", base_url=sys.argv[2])
print([name for name in ("openai", "httpx2", "tenacity") if name in sys.modules])
decision = asyncio.run(model.decide({"response": "x"}, [Question("a", "yes_no", "Is it?")]))
print(decision.answers["a"].probabilities["yes"])
"""


@pytest.mark.parametrize("wire", WIRES)
def test_nothing_is_imported_before_the_first_request(serve, wire):
    """Naming a model costs no import of its client."""
    server = serve()
    environment = {"PATH": os.environ["PATH"]}
    if "PYTHONPATH" in os.environ:
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    done = subprocess.run(
        [sys.executable, "-c", CODE, wire, server.base_url],
        capture_output=True, text=True, check=True, env=environment,
    )  # fmt: skip
    assert done.stdout.split("\n")[:2] == ["[]", "0.75"]
