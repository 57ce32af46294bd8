"""A judge model on the loopback interface that answers Ragas' prompts by known rules."""

from importlib.util import find_spec

import pytest
from ragas_model import answer

from llmeval_sdk.testing.judge_server import JudgeServer


collect_ignore = [] if find_spec("ragas") else ["real"]


@pytest.fixture
def model():
    """Serve the rules."""
    with JudgeServer(answer) as server:
        yield server
