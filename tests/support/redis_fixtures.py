"""A real Redis for each test that wants one; where none is installed, these tests say why."""

import pytest
from redis_server import SERVER, WHY_SKIPPED, running_redis


@pytest.fixture
def redis(tmp_path):
    """A server that keeps nothing on disk."""
    if SERVER is None:
        pytest.skip(WHY_SKIPPED)
    with running_redis(tmp_path / "redis") as server:
        yield server
