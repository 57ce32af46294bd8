"""Braintrust's logger and ``@traced``, as its documentation sets it up.

It scores nothing in the process: online scoring runs on its server.
"""

from benchmarks.peers.workload import ANSWER


def environment(url):
    return {
        "BRAINTRUST_API_KEY": "bench",
        "BRAINTRUST_APP_URL": url,
        "BRAINTRUST_API_URL": url,
    }


class Peer:
    def __init__(self, url):
        import braintrust

        logger = braintrust.init_logger(project="bench")

        @braintrust.traced
        def traced(question):
            return ANSWER

        self.traced = traced
        self.flush = logger.flush
