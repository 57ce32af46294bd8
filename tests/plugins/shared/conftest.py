"""What hosts share is tested with a real Redis, on machines that may be busy."""

from pathlib import Path

import pytest
from redis_fixtures import redis


__all__ = ["redis"]


def pytest_collection_modifyitems(items):
    """Give hosts the time they need on a busy machine."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.timeout(240))
