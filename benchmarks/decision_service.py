"""A `DecisionServer` in a process of its own, which says how many decisions it was asked for.

    python -m benchmarks.decision_service

The address is the first line it prints; ``GET /v1/asked`` gives the number of requests. It ends
when its standard input closes.
"""

from __future__ import annotations

import json
import sys

import httpx2

from benchmarks.loopback import child
from llmeval_sdk.testing.decision_server import DecisionServer


class CountingServer(DecisionServer):
    """Answers ``/v1/asked`` beside what `DecisionServer` answers."""

    def reply(self, seen):
        wire = super().reply(seen)
        if not seen.path.endswith("/asked"):
            return wire
        return type(wire)(200, json.dumps(len(self.decisions)).encode())


def running():
    """Run the server and give its address."""
    return child("benchmarks.decision_service")


def asked(url):
    """Return how many requests for decisions the server has had."""
    return httpx2.get(f"{url}/asked").json()


if __name__ == "__main__":
    with CountingServer() as server:
        print(server.base_url, flush=True)
        sys.stdin.read()
