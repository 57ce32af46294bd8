"""Sessions that are idle soon, in a folder of their own."""

import asyncio
import json

import pytest
from store_fixtures import *  # noqa: F403 - pytest finds fixtures by their names here

from llmeval_sdk.judges.models import OpenAILLM
from llmeval_sdk.model import Completion, Usage
from llmeval_sdk.model.protocols import LLM
from llmeval_sdk.testing.judge_server import JudgeServer


class Scripted(LLM):
    """Gives one answer, always; keeps what it was asked."""

    model = "scripted"

    def __init__(self, answer):
        self.answer = answer
        self.asked = []

    async def complete(self, messages, /, *, schema=None, max_tokens=4096):
        self.asked.append(list(messages))
        return Completion(json.dumps(self.answer), self.model, Usage(10, 5, 15))


@pytest.fixture
def scripted():
    """Make a model that always gives one answer."""
    return Scripted


@pytest.fixture
def judged():
    """Evaluate a record with a judge and an LLM."""
    return lambda judge, record, llm: asyncio.run(judge.evaluate(record, llm))


@pytest.fixture
def stand_in():
    """An LLM of the stand-in server, over HTTP."""
    with JudgeServer() as server:
        yield OpenAILLM("stand-in", base_url=server.base_url, timeout=10)
