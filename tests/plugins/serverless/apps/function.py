"""A small Lambda: reads events from stdin, calls its handler, and prints what came of each.

Each line is an event. ``flush`` chooses the handler that delivers before it returns; ``left_ms`` is
what the invocation has left; ``give_up`` is what a delivery takes for ten minutes; ``later`` is by
how many seconds the clock of the budget has gone ahead in a freeze. ``COOL_DOWN`` says for how many
seconds a breaker stays open.
"""

import json
import os
import sys
import time

import llmeval_sdk as llmeval
from llmeval_sdk.evaluation import backoff, limiter
from llmeval_sdk.pipeline import batch_exporter
from llmeval_sdk.plugins.serverless import lambda_handler


ahead = 0.0
backoff.Breaker.__init__.__kwdefaults__["cool_down"] = float(os.environ.get("COOL_DOWN", "30"))
limiter.BudgetLimiter.__init__.__kwdefaults__["clock"] = lambda: time.time() + ahead


class Context:
    def __init__(self, left_ms):
        self._until = time.monotonic() + left_ms / 1_000

    def get_remaining_time_in_millis(self):
        return int((self._until - time.monotonic()) * 1_000)


@llmeval.workflow
def answer(question, passage):
    llmeval.annotate(retrieved_context=[passage])
    return "The roof is made of slate."


def bare(event, context):
    return answer(event["question"], "The survey of 1998 says that the roof is made of slate.")


flushing = lambda_handler(timeout=float(sys.argv[1]), margin=0.02)(bare)
for line in sys.stdin:
    event = json.loads(line)
    batch_exporter.GIVE_UP_SECONDS = event.get("give_up", batch_exporter.GIVE_UP_SECONDS)
    ahead += event.get("later", 0.0)
    begun = time.monotonic()
    result = (flushing if event["flush"] else bare)(event, Context(event["left_ms"]))
    took = time.monotonic() - begun
    stats = llmeval.stats()
    report = {
        "result": result,
        "took": took,
        "judged": stats.judged,
        "not_run": stats.not_run.get("groundedness", {}),
        "problems": stats.problems,
        "losses": stats.losses,
        "undelivered": stats.undelivered,
    }
    print(json.dumps(report), flush=True)
