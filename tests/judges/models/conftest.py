"""A judge model over real HTTP, on the loopback interface."""

from __future__ import annotations

import asyncio

import pytest
from model_servers import _fresh, started  # noqa: F401 - a fixture for all tests here

from llmeval_sdk.judges.models import OpenAILLM
from llmeval_sdk.model import Message
from llmeval_sdk.testing.judge_server import JudgeServer


SCHEMA = {
    "type": "object",
    "properties": {"rationale": {"type": "string"}, "rating": {"type": "string"}},
    "required": ["rationale", "rating"],
    "additionalProperties": False,
}
ANSWER = {"rationale": "because", "rating": "yes"}
KEY = "sk-marker-9f2c"


@pytest.fixture
def serve():
    """Start judge servers that end with the test."""
    with started() as start:
        yield lambda *script, answer=lambda request: ANSWER, **options: start(
            JudgeServer(answer, script=script, **options)
        )


@pytest.fixture
def ask():
    """Ask a server once, through a client whose waits between attempts are short.

    Its imports are there already: they would be a part of the time-out.
    """
    asyncio.run(OpenAILLM("first", base_url="http://127.0.0.1:9/v1", api_key="k").warm())

    def call(server, *, schema=SCHEMA, llm=None, max_tokens=64, **options):
        options = {"api_key": KEY, "timeout": 30.0, "backoff": 0.001, **options}
        llm = llm or OpenAILLM("stand-in", base_url=server.base_url, **options)
        return asyncio.run(
            llm.complete([Message("user", "question?")], schema=schema, max_tokens=max_tokens)
        )

    return call
