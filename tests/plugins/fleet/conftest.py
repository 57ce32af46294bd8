"""A real Redis for each test that wants one; where none is installed, these tests say why."""

from pathlib import Path

import pytest
from fleet_parts import lasting_redis, redis_is_missing
from redis_fixtures import redis

from llmeval_sdk.testing.judge_server import JudgeServer


__all__ = ["redis"]

MISSING = redis_is_missing()


def pytest_collection_modifyitems(items):
    """Give workers the time they need on a busy machine; skip what needs a Redis that is not here."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.timeout(240))
            if MISSING and "broker" in item.fixturenames:
                item.add_marker(pytest.mark.skip(reason=MISSING))


@pytest.fixture
def broker(tmp_path):
    """A Redis that keeps what it was told, even when it is killed."""
    server = lasting_redis(tmp_path)
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture
def judge_server():
    """The stand-in for a judge model, which counts its calls."""
    with JudgeServer() as server:
        yield server
