"""The judge of the service: a twentieth of its answers wait half a second for a verdict."""

import asyncio

import llmeval_sdk as llmeval


SETTINGS = {
    "LLMEVAL_EVALUATORS": "is_helpful",
    "LLMEVAL_SAMPLING_RULES": '[{"sample_rate": 0.05}]',
}


@llmeval.judge
async def is_helpful(record: llmeval.Record, llm: llmeval.LLM) -> bool:
    await asyncio.sleep(0.5)
    return len(record.response) > 600
