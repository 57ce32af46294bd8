"""A judge model over real HTTP, on the loopback interface."""

from __future__ import annotations

import asyncio

import pytest

from llmeval_sdk.llms import OpenAILLM, _clients, _ladder
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


@pytest.fixture(autouse=True)
def _fresh():
    """Forget what earlier tests learned about servers, and what was warned about."""
    _ladder.forget()
    _clients._warned.clear()


@pytest.fixture
def serve():
    """Start judge servers that end with the test."""
    servers = []

    def start(*script, answer=lambda request: ANSWER, **options):
        server = JudgeServer(answer, script=script, **options)
        server.start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def ask():
    """Ask a server once, through a client whose waits between attempts are short."""

    def call(server, *, schema=SCHEMA, llm=None, max_tokens=64, **options):
        options = {"api_key": KEY, "timeout": 5.0, "backoff": 0.001, **options}
        llm = llm or OpenAILLM("stand-in", base_url=server.base_url, **options)
        return asyncio.run(
            llm.complete([Message("user", "question?")], schema=schema, max_tokens=max_tokens)
        )

    return call
