"""Budgets: what judges may use at most, and how what they did not do is counted."""

import llmeval_sdk as llmeval
from llmeval_sdk.testing.judge_server import JudgeServer


@llmeval.workflow(evaluators=["relevance_to_query"])
def answer(question: str) -> str:
    """Stand for an app."""
    return f"An answer to: {question}"


with JudgeServer() as server:  # a stand-in by rules; name your own model and leave this out
    llmeval.configure(
        exporters=["memory"],
        llm="stand-in",
        judge_base_url=server.base_url,
        budget=llmeval.Budget(calls_per_minute=3, usd_per_day=0.50, concurrency=2),
        prices={"stand-in": (2.50, 10.00)},  # USD per million tokens in and out
    )
    for number in range(5):
        answer(f"question {number}")
    stats = llmeval.flush(timeout=20)
    print("calls that reached the model:", server.calls)

print("judged:", stats.judged)
print("not run:", stats.not_run)
print(f"spent on judging: USD {stats.judge_usage.cost_usd:.5f}")
