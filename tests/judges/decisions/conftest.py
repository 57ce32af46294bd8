"""A decision model over real HTTP, on the loopback interface."""

import asyncio

import pytest
from decisions_asked import DATA, KEY, QUESTIONS, by_name
from model_servers import _fresh, started  # noqa: F401 - a fixture for all tests here

from llmeval_sdk.judges.models.decisions import HttpDecisions
from llmeval_sdk.testing.decision_server import DecisionServer


@pytest.fixture
def serve():
    """Start decision servers that end with the test."""
    with started() as start:
        yield lambda *script, decide=by_name, **options: start(
            DecisionServer(decide, script=script, **options)
        )


@pytest.fixture
def model():
    """Make a client of a server, whose waits between attempts are short."""

    def make(server, wire, **options):
        options = {"api_key": KEY, "timeout": 30.0, "backoff": 0.001, **options}
        return HttpDecisions(f"{wire}/any", **{"base_url": server.base_url, **options})

    return make


@pytest.fixture
def ask(model):
    """Ask a server once."""

    def call(server, wire, questions=QUESTIONS, data=DATA, **options):
        return asyncio.run(model(server, wire, **options).decide(data, questions))

    return call
