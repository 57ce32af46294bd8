"""logfire's ``@instrument`` and, for scoring, pydantic-evals' online evaluation on top of it.

logfire sends to its own platform by default; here that is the sink. ``scored`` runs one evaluator
that looks for a word, the least it can do.
"""

from dataclasses import dataclass

from benchmarks.peers.workload import ANSWER, CHUNKS


def environment(url):
    return {"LOGFIRE_TOKEN": "pylf_v1_local_benchbenchbench", "LOGFIRE_BASE_URL": url}


class Peer:
    def __init__(self, url):
        import logfire
        from pydantic_evals.evaluators import Evaluator
        from pydantic_evals.online import evaluate, wait_for_evaluations

        logfire.configure(service_name="bench", console=False)

        @dataclass
        class SaysSlate(Evaluator):
            def evaluate(self, ctx):
                return "slate" in ctx.output.lower()

        @logfire.instrument(record_return=True)
        def traced(question):
            return ANSWER

        @evaluate(SaysSlate())
        def answer(question, chunks):
            return ANSWER

        self.traced = traced
        self.scored = lambda question: answer(question, CHUNKS)
        self._wait, self._flush = wait_for_evaluations, logfire.force_flush

    def flush(self):
        import asyncio

        asyncio.run(self._wait())
        self._flush()
