"""A judge per chunk: one yes or no for every retrieved chunk, and their precision as the score."""

import llmeval_sdk as llmeval
from llmeval_sdk.exporters import memory
from llmeval_sdk.testing import FakeLLM


@llmeval.judge(per="chunk")
def on_topic(record: llmeval.Record, chunk: llmeval.Chunk, llm: llmeval.LLM) -> bool:
    """Ask about one chunk; the function runs in the background, on a thread of its own."""
    return llm.ask(f"Is this about {record.request}? Say yes or no.\n\n{chunk.content}") == "yes"


def model(messages: list[llmeval.Message]) -> str:
    """Stand for a judge model: look for the word in the chunk."""
    chunk = messages[-1].content.partition("\n\n")[2]
    return "yes" if "roof" in chunk else "no"


llmeval.configure(exporters=["memory"], evaluators=[on_topic], llm=FakeLLM(model))
with llmeval.workflow("answer", request="the roof") as span:
    span.retrieved_context = ["a slate roof", "a red door", "the roof leaks"]
llmeval.flush(timeout=20)

verdict = next(e.evaluation for e in memory.evaluations() if e.evaluation.name == "on_topic")
print(f"precision {verdict.value:.2f}, ratings", verdict.metadata["ratings"])
