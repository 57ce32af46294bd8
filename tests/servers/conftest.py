"""The far ends that a service under test delivers to."""

from pathlib import Path

import pytest
from otlp_collector import running_collector
from services import Sinks


def pytest_collection_modifyitems(items):
    """Give servers the time they need on a busy machine."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.timeout(180))


@pytest.fixture
def sinks(tmp_path):
    with running_collector() as collector:
        yield Sinks(tmp_path, collector)
