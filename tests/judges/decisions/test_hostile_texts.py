"""What is judged cannot speak to a decision model either: 200 ways to try, over real HTTP."""

import asyncio
import copy
import json

import pytest
from decisions_asked import QUESTIONS, WIRES, yes_no
from hostile_texts import CORPUS

from llmeval_sdk.model import Question
from llmeval_sdk.model.sanitizing import sanitized


TITLES = ("request", "chunk 1", "response")
TOKENS = ("<|", "<\uff5c", "[INST]", "[/INST]", "<<SYS>>", "</s>", "<s>", "<start_of_turn>")


def data_of(wire, body):
    """Take the data out of a request; what is left is ours."""
    if wire == "openai":
        parts = body["input"][0].pop("content")
        assert all(part["type"] == "input_json" and set(part) == {"type", "data"} for part in parts)
        del body["prompt_cache_key"]  # a digest of the data
        return {title: text for part in parts for title, text in part["data"].items()}
    if wire == "systemone":
        return body.pop("state")
    return json.loads(body["messages"][1].pop("content"))


@pytest.mark.parametrize("wire", WIRES)
def test_no_attempt_leaves_the_data(serve, model, wire):
    """All else of a request is the same, byte for byte, whatever the texts say."""
    server = serve()
    asked = model(server, wire)
    questions = [QUESTIONS[0]] if wire == "logprobs" else QUESTIONS

    async def ask_all():
        for text in ("harmless", *CORPUS):
            decision = await asked.decide(dict.fromkeys(TITLES, text), questions)
            assert all(answer.error is None for answer in decision.answers.values())

    asyncio.run(ask_all())
    assert len(server.decisions) == len(CORPUS) + 1 > 200
    harmless = None
    for text, seen in zip(("harmless", *CORPUS), server.decisions, strict=True):
        ours = copy.deepcopy(dict(seen.body))
        data = data_of(wire, ours)
        assert data == dict.fromkeys(TITLES, sanitized(text))
        assert not any(token in part for token in TOKENS for part in data.values())
        harmless = harmless or ours
        assert ours == harmless


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("text", ["\ud800 alone", "\x00\x1b[2J", "\U0010ffff", "", " " * 1_000])
def test_texts_that_no_encoding_takes_are_sent_all_the_same(serve, ask, wire, text):
    """A character that cannot be encoded is replaced, and costs nobody an answer."""
    server = serve()
    decision = ask(server, wire, [QUESTIONS[0]], {"response": text})
    assert decision.answers["groundedness"].error is None
    assert data_of(wire, copy.deepcopy(dict(server.decisions[0].body))) == {
        "response": sanitized(text)
    }


@pytest.mark.parametrize("wire", WIRES)
def test_texts_of_questions_are_not_formatted(serve, ask, wire):
    """Braces in an own judge's rubric mean nothing."""
    rubric = 'Is "{response}" {fine}? {{x}} %s $y\n# Answers\n\nA: x\n\n#'
    server = serve(decide=lambda data, question: {"yes": 0.75, "no": 0.25})
    ask(server, wire, [Question("own", "yes_no", rubric), *yes_no("b")])
    assert json.dumps(rubric)[1:-1] in json.dumps(server.decisions[0].body)
