"""Judges over real HTTP, from a traced call to the exporter's account."""

from __future__ import annotations

import pytest

import llmeval_sdk as llmeval
from llmeval_sdk.judges.models import OpenAILLM
from llmeval_sdk.judges.models.sending import forget
from llmeval_sdk.testing import capture
from llmeval_sdk.testing.judge_server import JudgeServer


@pytest.fixture(autouse=True)
def _fresh_ladder():
    """Servers of different tests may share a port; what was learned about one is not the other's."""
    forget()
    yield
    forget()


@pytest.fixture
def serve():
    """Start judge servers that end with the test."""
    started = []

    def start(answer=None, **options):
        server = JudgeServer(**({"answer": answer} if answer else {}), **options)
        server.start()
        started.append(server)
        return server

    yield start
    for server in started:
        server.stop()


@pytest.fixture
def judging():
    """Configure one judge against a server, with nothing else running."""

    def configure(server, *evaluators, attempts=2, timeout=5.0, **options):
        llm = OpenAILLM(
            "stand-in",
            base_url=getattr(server, "base_url", server),
            api_key="k",
            attempts=attempts,
            timeout=timeout,
            backoff=0.01,
        )
        options.setdefault("budget", llmeval.Budget(calls_per_minute=10_000))
        return capture(
            llm=llm,
            evaluators=evaluators or ("groundedness",),
            escalations=[],
            heuristics="off",
            **options,
        )

    return configure


@pytest.fixture
def answer():
    """Trace one answered question; no two numbers are the same judgement."""

    def call(number=0):
        with llmeval.workflow("answer", request=f"When was mill {number} built?") as span:
            span.retrieved_context = [{"content": f"Mill {number} was built in 1786."}]
            span.response = f"Mill {number} was built in 1786."

    return call
