"""What every host runs: a request with passages, which a judge of the app's own looks at."""

import asyncio
import os

import llmeval_sdk as llmeval


PASSAGE = "The roof is made of slate, and the rent of EUR 1,250.00 is due on the first of a month. "


@llmeval.judge
async def polite(record, llm):
    await asyncio.sleep(0.01)
    return True


@llmeval.retrieval
def find(question):
    return [{"content": PASSAGE * 12, "chunk_id": str(n), "score": 0.5} for n in range(5)]


@llmeval.workflow
def answer(question):
    """Answer one request."""
    find(question)
    return f"The roof of {question} is made of slate. " * 10


def set_up():
    llmeval.configure(evaluators=[polite], sampling_rules=[llmeval.SamplingRule(1)])


if not os.environ.get("SETS_ITSELF_UP"):
    set_up()
