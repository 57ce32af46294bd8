"""A collector for each test."""

import pytest
from otlp_collector import running_collector


@pytest.fixture
def collector():
    """Run a collector on loopback."""
    with running_collector() as running:
        yield running
