"""Judges of your own: a prompt with a record's fields, and a function that asks the model."""

import llmeval_sdk as llmeval
from llmeval_sdk.exporters import memory
from llmeval_sdk.testing.judge_server import JudgeServer


tone = llmeval.LLMJudge(
    "tone",
    "Which tone does the answer have?\n\n{response}\n\nThe customer asked:\n\n{request}",
    output=["rude", "neutral", "friendly"],
)


@llmeval.judge
async def short_enough(record: llmeval.Record, llm: llmeval.LLM) -> bool:
    """A function may decide by itself, and need not ask `llm` at all."""
    return len(record.response or "") < 200


@llmeval.workflow
def answer(question: str) -> str:
    """Stand for an app."""
    return f"Good morning! You asked: {question}"


with JudgeServer() as server:  # a stand-in by rules; name your own model and leave this out
    llmeval.configure(
        exporters=["memory"],
        evaluators=[tone, short_enough],
        llm="stand-in",
        judge_base_url=server.base_url,
    )
    answer("When do you open?")
    llmeval.flush(timeout=20)

for event in memory.evaluations():
    if event.evaluation.evaluator_kind == "judge":
        print(event.evaluation.name, "=", event.evaluation.value)
