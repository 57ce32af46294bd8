"""Escalation: a low cheap score asks an LLM judge in the background, over real HTTP."""

import llmeval_sdk as llmeval
from llmeval_sdk.exporters import memory
from llmeval_sdk.testing.judge_server import JudgeServer


@llmeval.workflow
def roof(field: str, chunks: list[str], contributing: int) -> str:
    """One of the chunks holds the value; the others only cost money."""
    llmeval.annotate(
        request=field,
        extractions=[{"value": "slate", "chunk_number": n + 1} for n in range(contributing)],
    )
    return "slate"


with JudgeServer() as server:  # a stand-in by rules; name your own model and leave this out
    llmeval.configure(exporters=["memory"], llm="stand-in", judge_base_url=server.base_url)
    roof("roof type", ["a slate roof", "a red door", "a stone wall"], contributing=1)
    roof("roof type", ["a slate roof", "roof: slate", "slate on top"], contributing=3)
    stats = llmeval.flush(timeout=20)

for event in memory.evaluations():
    if event.evaluation.evaluator_kind == "judge":
        print(
            event.evaluation.name,
            event.evaluation.value,
            "because",
            event.evaluation.metadata["why"],
        )
print("not run:", stats.not_run)
