"""Servers that stand in for models over real HTTP, for the tests of those who ask them."""

from contextlib import contextmanager

import pytest

from llmeval_sdk.judges.models import clients, sending


@pytest.fixture(autouse=True)
def _fresh():
    """Forget what earlier tests learned about servers, and what was warned about."""
    sending.forget()
    clients._warned.clear()


@contextmanager
def started():
    """Return a function that starts a server; all of them end with the block."""
    servers = []

    def start(server):
        server.start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.stop()
