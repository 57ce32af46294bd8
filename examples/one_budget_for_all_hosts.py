"""One budget for all hosts: run this on several at a time, and together they make six calls.

    apt-get install redis-server
    python one_budget_for_all_hosts.py redis://localhost

While that Redis does not answer, each host makes six by itself.
"""

# needs: redis, openai

import sys
import time

import llmeval_sdk as llmeval
from llmeval_sdk.testing.judge_server import JudgeServer


@llmeval.workflow(evaluators=["relevance_to_query"])
def answer(question: str) -> str:
    """Stand for an app."""
    return f"An answer to: {question}"


def run(redis: str) -> None:
    """Ask until the budget of all hosts has been used up for a while."""
    with JudgeServer() as server:  # a stand-in by rules; name your own model and leave this out
        llmeval.configure(
            exporters=["memory"],
            llm="stand-in",
            judge_base_url=server.base_url,
            shared=redis,  # or LLMEVAL_SHARED
            budget=llmeval.Budget(calls_per_minute=6),  # over all hosts
        )
        end = time.monotonic() + 60
        judged, refused_since = 0, 0
        while refused_since < 20 and time.monotonic() < end:
            answer(f"question {time.time_ns()}")
            now = llmeval.flush(timeout=5).judged.get("relevance_to_query", 0)
            refused_since = refused_since + 1 if now == judged > 0 else 0
            judged = now
            time.sleep(0.2)
        stats = llmeval.shutdown()
    print("judged on this host:", stats.judged.get("relevance_to_query", 0))
    print("refused on this host:", stats.not_run["relevance_to_query"]["over_budget"])
    print("what was said to Redis:", dict(stats.shared))


if len(sys.argv) > 1:
    run(sys.argv[1])
else:
    print("give it the address of a Redis, such as redis://localhost")
