"""Judge models of Anthropic and Google over real HTTP, through the clients of both."""

import asyncio

import pytest
from model_servers import _fresh, started  # noqa: F401 - a fixture for all tests here

from llmeval_sdk.model import Message
from llmeval_sdk.plugins.providers import AnthropicLLM, GoogleLLM
from llmeval_sdk.testing.provider_server import AnthropicServer, GoogleServer


SCHEMA = {
    "type": "object",
    "properties": {"rationale": {"type": "string"}, "rating": {"type": "string"}},
    "required": ["rationale", "rating"],
    "additionalProperties": False,
}
ANSWER = {"rationale": "because", "rating": "yes"}
KEY = "key-marker-9f2c71"
SYSTEM = "You judge.\n\n# Rubric\n\nYes or no.\n\nSections begin with 0123456789abcdef."

WIRES = {"anthropic": (AnthropicServer, AnthropicLLM), "google": (GoogleServer, GoogleLLM)}


@pytest.fixture(scope="package", autouse=True)
def _clients():
    """Load both clients, which takes seconds, where these tests run and not where any is found."""
    pytest.importorskip("anthropic")
    pytest.importorskip("google.genai")


@pytest.fixture
def serve():
    """Start servers of a provider that end with the test."""
    with started() as start:

        def serving(provider, *script, answer=lambda request: ANSWER, **options):
            return start(WIRES[provider][0](answer, script=script, **options))

        yield serving


@pytest.fixture
def ask():
    """Ask a server once, through a client whose waits between attempts are short."""

    def call(server, *, schema=SCHEMA, llm=None, max_tokens=64, model="stand-in", **options):
        options = {"api_key": KEY, "timeout": 10.0, "backoff": 0.001, **options}
        kind = next(kind for made, kind in WIRES.values() if isinstance(server, made))
        llm = llm or kind(model, base_url=server.base_url, **options)
        turns = [Message("system", SYSTEM), Message("user", "question?")]
        return asyncio.run(llm.complete(turns, schema=schema, max_tokens=max_tokens))

    return call
