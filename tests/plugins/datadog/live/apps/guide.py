"""The driver of Datadog's guide to Ragas evaluations, with today's import of Prompt.

It knows ddtrace and openai, and nothing of us, unless it is to use the one import line.
"""

import asyncio
import os
import sys


if "auto" in sys.argv:
    import llmeval_sdk.auto  # noqa: F401

from ddtrace.llmobs import LLMObs
from ddtrace.llmobs.types import Prompt
from openai import AsyncOpenAI, OpenAI


if "enable" in sys.argv:
    LLMObs.enable(ml_app="test-rag-app", agentless_enabled=False)

if "unpatched" in sys.argv:
    LLMObs.enable(ml_app="test-rag-app", agentless_enabled=False, integrations_enabled=False)

RAG_CONTEXT = "useful: the game was played in 1967. The stadium was in Los Angeles."
QUESTION = "when was the first super bowl?"
PROMPT = Prompt(
    variables={"passage": RAG_CONTEXT, "asked": QUESTION},
    rag_context_variable_keys=["passage"],
    rag_query_variable_keys=["asked"],
)
MESSAGES = [
    {"role": "system", "content": f"Answer by this: {RAG_CONTEXT}"},
    {"role": "user", "content": QUESTION},
]
base = {"base_url": os.environ["APP_MODEL"], "api_key": "x", "max_retries": 0}

with LLMObs.annotation_context(prompt=PROMPT, name="generate_answer"):
    OpenAI(**base).chat.completions.create(model="gpt-4o", messages=MESSAGES)


async def streamed():
    """The same with a stream, the question from the last message, and several contexts.

    The keys are spelled as ddtrace's code spells them; one of the variables is a list.
    """
    prompt = Prompt(
        variables={"first": ["useful: the game was played in 1967.", "a team"], "second": "useful"},
        rag_context_variables=["first", "second"],
    )
    with LLMObs.annotation_context(prompt=prompt, name="stream_answer"):
        stream = await AsyncOpenAI(**base).chat.completions.create(
            model="gpt-4o", messages=MESSAGES, stream=True
        )
        async for _ in stream:
            pass


asyncio.run(streamed())
with LLMObs.annotation_context(name="without_a_prompt"):
    OpenAI(**base).chat.completions.create(model="gpt-4o", messages=MESSAGES)
LLMObs.flush()
