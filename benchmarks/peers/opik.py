"""Opik's client and ``@opik.track``, as its documentation sets up a server of one's own.

It scores nothing in the process: online evaluation runs on its server.
"""

from benchmarks.peers.workload import ANSWER


def environment(url):
    return {
        "OPIK_URL_OVERRIDE": f"{url}/api/",
        "OPIK_SENTRY_ENABLE": "false",
    }


class Peer:
    def __init__(self, url):
        import opik

        @opik.track
        def traced(question):
            return ANSWER

        self.traced = traced
        self.flush = opik.flush_tracker
