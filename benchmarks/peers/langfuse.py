"""Langfuse's client and ``@observe``, as its documentation sets it up; it captures both by itself.

It scores nothing in the process: evaluators run on its server.
"""

from benchmarks.peers.workload import ANSWER


def environment(url):
    return {
        "LANGFUSE_PUBLIC_KEY": "pk-lf-bench",
        "LANGFUSE_SECRET_KEY": "sk-lf-bench",
        "LANGFUSE_BASE_URL": url,
        "LANGFUSE_HOST": url,
    }


class Peer:
    def __init__(self, url):
        from langfuse import get_client, observe

        client = get_client()

        @observe()
        def traced(question):
            return ANSWER

        self.traced = traced
        self.flush = client.flush
