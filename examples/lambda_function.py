"""Deliver what an invocation of AWS Lambda has recorded before the process is frozen.

Set LLMEVAL_MODE=serverless beside the decorator. `Context` stands for what Lambda hands in.
"""

from time import monotonic

import llmeval_sdk as llmeval
from llmeval_sdk.plugins.serverless import lambda_handler


llmeval.configure(exporters=["memory"], mode="serverless")  # or by variables of the function


@llmeval.workflow
def answer(question: str) -> str:
    """Answer a question; a real one asks a model."""
    llmeval.annotate(retrieved_context=["The survey of 1998 says that the roof is made of slate."])
    return "The roof is made of slate."


@lambda_handler(timeout=1.0)
def handler(event: dict[str, str], context: "Context") -> dict[str, str]:
    """Answer one event; what it recorded is delivered when it returns."""
    return {"answer": answer(event["question"])}


class Context:
    """Says how much time an invocation has left."""

    def __init__(self, seconds: float) -> None:
        self.until = monotonic() + seconds

    def get_remaining_time_in_millis(self) -> int:
        """Return the milliseconds until Lambda ends the invocation."""
        return int(1_000 * (self.until - monotonic()))


print(handler({"question": "What is the roof made of?"}, Context(3.0))["answer"])
print(f"delivered before the freeze: {llmeval.stats().exporters['memory'].delivered} records")
