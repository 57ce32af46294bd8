"""A judge model of the tests' own, and one over real HTTP."""

from __future__ import annotations

import asyncio
import json

import pytest

from llmeval_sdk.errors import JudgeError
from llmeval_sdk.judges.models import OpenAILLM
from llmeval_sdk.model import Completion, Usage
from llmeval_sdk.model.protocols import LLM
from llmeval_sdk.testing.judge_server import JudgeServer


class Scripted(LLM):
    """Answers from a list, in order; keeps what it was asked. An exception in it is raised."""

    model = "scripted"

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []
        self.limits = []

    async def complete(self, messages, /, *, schema=None, max_tokens=4096):
        self.asked.append(list(messages))
        self.limits.append(max_tokens)
        await asyncio.sleep(0)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        text = answer if isinstance(answer, str) else json.dumps(answer)
        return Completion(text, self.model, Usage(10, 5, 15))


@pytest.fixture
def scripted():
    """Make a Scripted of some answers."""
    return Scripted


@pytest.fixture
def judged():
    """Evaluate a record with a judge and an LLM."""

    def call(judge, record, llm):
        return asyncio.run(judge.evaluate(record, llm))

    return call


@pytest.fixture
def stand_in():
    """An LLM of the stand-in server, over HTTP."""
    with JudgeServer() as server:
        llm = OpenAILLM("stand-in", base_url=server.base_url, timeout=10)
        llm.server = server
        yield llm


@pytest.fixture
def down():
    """A judge model that cannot be reached."""
    return Scripted(
        JudgeError("unavailable", "no connection", retryable=True, usage=Usage(1, 0, 1))
    )
