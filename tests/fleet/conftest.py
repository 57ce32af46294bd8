"""A real Redis for each test that asks for one."""

from pathlib import Path

import pytest
from redis_server import SERVER, WHY_SKIPPED, running_redis


def pytest_collection_modifyitems(items):
    """Give processes the time they need on a busy machine."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.timeout(180))


@pytest.fixture
def redis(tmp_path):
    """A server that keeps nothing on disk."""
    if SERVER is None:
        pytest.skip(WHY_SKIPPED)
    with running_redis(tmp_path / "redis") as server:
        yield server
