"""An app that flushes LLM Observability, and says what was judged until then."""

import asyncio
import json
import sys
import threading

from ddtrace.llmobs import LLMObs

import llmeval_sdk as llmeval
from llmeval_sdk.judges import BaseJudge
from llmeval_sdk.model import Evaluation
from llmeval_sdk.plugins.datadog import flushing


way, exporters = sys.argv[1], sys.argv[2].split(",")
begun, gate = threading.Event(), threading.Event()


class Slow(BaseJudge):
    """A judge that asks no model, and answers when its gate is open."""

    name = "slow"
    needs = ("response",)
    needs_model = False

    async def evaluate(self, record, llm, /):
        begun.set()
        await asyncio.to_thread(gate.wait, 60)
        return Evaluation(self.name, 1.0)


@llmeval.heuristic
def doubtful(record):
    return 1.0


def answer(**options):
    with llmeval.workflow("answer", request="Which roof?", **options) as span:
        span.response = "Slate."


async def flush_on_a_loop():
    LLMObs.flush()


LLMObs.enable(ml_app="flushes", agentless_enabled=False)
slow = Slow()
doubt = llmeval.Escalation(slow, when=llmeval.above("doubtful", 0.5))
llmeval.configure(
    exporters=exporters,
    evaluators=[doubtful, *([slow] if way in ("configured", "loop") else [])],
    escalations=[doubt] if way == "escalated" else [],
)
answer(evaluators=[slow] if way == "span" else [])
if way in ("configured", "span"):
    threading.Thread(target=lambda: begun.wait(60) and gate.set()).start()
    LLMObs.flush()
else:
    flushing.MAX_SECONDS = 1_000.0  # whoever waits here is noticed
    asyncio.run(flush_on_a_loop()) if way == "loop" else LLMObs.flush()
print(json.dumps([dict(llmeval.stats().judged), begun.wait(30)]))
gate.set()
