"""LangSmith's client and ``@traceable``, as its documentation sets it up.

Its bodies are not compressed, because the sink cannot read Zstandard. It scores nothing in the
process: evaluators run on its server.
"""

from benchmarks.peers.workload import ANSWER


def environment(url):
    return {
        "LANGSMITH_TRACING": "true",
        "LANGSMITH_API_KEY": "lsv2-bench",
        "LANGSMITH_ENDPOINT": url,
        "LANGSMITH_DISABLE_RUN_COMPRESSION": "true",
    }


class Peer:
    def __init__(self, url):
        from langsmith import Client, traceable

        client = Client()

        @traceable(client=client)
        def traced(question):
            return ANSWER

        self.traced = traced
        self.flush = client.flush
