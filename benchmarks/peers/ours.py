"""llmeval_sdk, sending OTLP: the decorators of the README, settings by environment, no option.

``scored`` is a retrieval in a workflow with all built-in heuristics.
"""

from benchmarks.peers.workload import ANSWER, CHUNKS


def environment(url):
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": url}


class Peer:
    def __init__(self, url):
        import llmeval_sdk as llmeval

        @llmeval.workflow
        def traced(question):
            return ANSWER

        @llmeval.retrieval
        def retrieve(question):
            return CHUNKS

        @llmeval.workflow
        def scored(question):
            retrieve(question)
            llmeval.annotate(extractions=[{"value": "slate", "chunk_number": 1}])
            return ANSWER

        self.traced, self.scored = traced, scored
        self.flush = lambda: llmeval.flush(30)
