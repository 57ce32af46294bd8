"""Never run: what a type checker has to accept and to refuse about judges.

Under ``mypy --strict`` an ignore that is not needed is an error, so each line marked below must
stay a mistake.
"""

from __future__ import annotations

from llmeval_sdk.judges import ContextRecall, LLMJudge, judge
from llmeval_sdk.model import Chunk, Evaluation, Record
from llmeval_sdk.model.protocols import LLM, Judge


@judge
def plain(record: Record, llm: LLM) -> bool:
    return llm.ask(f"Fine? {record.response}") == "yes"


@judge(name="other", version="2", needs=("request|value",))
async def awaited(record: Record, llm: LLM) -> float | None:
    return None


@judge(per="chunk")
def on_topic(record: Record, chunk: Chunk, llm: LLM) -> bool:
    return bool(chunk.content)


@judge(per="chunk", name="on_topic_too")
async def on_topic_async(record: Record, chunk: Chunk, llm: LLM) -> Evaluation:
    return Evaluation("on_topic_too", "yes")


@judge(assessment_type="RETRIEVAL")
def per_retrieval(record: Record, chunk: Chunk, llm: LLM) -> bool:
    return bool(chunk.content)


@judge(assessment_type="RETRIEVAL")  # type: ignore[type-var]
def retrieval_lacks_the_chunk(record: Record, llm: LLM) -> bool:
    return True


@judge(per="chunk")  # type: ignore[type-var]
def lacks_the_chunk(record: Record, llm: LLM) -> bool:
    return True


@judge  # type: ignore[type-var]
def has_a_chunk_too_many(record: Record, chunk: Chunk, llm: LLM) -> bool:
    return True


@judge  # type: ignore[type-var]
def returns_a_list(record: Record, llm: LLM) -> list[int]:
    return []


judges: list[Judge] = [
    plain,
    awaited,
    on_topic,
    on_topic_async,
    LLMJudge("polite", "Is it polite? {response}"),
    LLMJudge("tone", "{response}", output=["formal", "casual"]),
    ContextRecall(model="gpt-4o"),
]
value: float = ContextRecall().score("q", "a", "b", ["c"]).value
