"""Asks LlamaIndex, which OpenInference traces, and prints what became of each answer.

It asks in the ways of an app: a query, a streamed one, one of asyncio, and a turn of a chat. The model is at
``OPENAI_BASE_URL``.
"""

import asyncio
import json
import os

from llama_index.core import Document, SummaryIndex
from llama_index.llms.openai import OpenAI
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor
from opentelemetry.sdk.trace import TracerProvider

import llmeval_sdk as llmeval
from llmeval_sdk.plugins.openinference.otel import EvaluationSpanProcessor
from llmeval_sdk.testing import capture


SEEN = []


@llmeval.heuristic
def what_was_seen(record):
    SEEN.append(record)
    return 1.0


model = OpenAI(model="gpt-4o-mini", api_base=os.environ["OPENAI_BASE_URL"], api_key="none")
index = SummaryIndex.from_documents([Document(text="The roof of the barn is made of slate.")])
provider = TracerProvider(shutdown_on_exit=False)
provider.add_span_processor(EvaluationSpanProcessor(evaluators=[what_was_seen]))
LlamaIndexInstrumentor().instrument(tracer_provider=provider)
engine = index.as_query_engine(llm=model, streaming=True)


def query():
    index.as_query_engine(llm=model).query("Which roof?")


def query_streamed():
    for _ in engine.query("Which roof?").response_gen:
        pass


async def query_async():
    async for _ in (await engine.aquery("Which roof?")).async_response_gen():
        pass


def chat():
    for _ in (
        index.as_chat_engine(chat_mode="context", llm=model).stream_chat("Which roof?").response_gen
    ):
        pass


became = {}
for way, ask in (
    ("query", query),
    ("streamed", query_streamed),
    ("async", lambda: asyncio.run(query_async())),
    ("chat", chat),
):
    SEEN.clear()
    with capture() as seen:
        ask()
        seen.drain()
    became[way] = [
        [
            record.request,
            record.response,
            [chunk.content for chunk in record.retrieved_context or ()],
        ]
        for record in SEEN
        if record.request == "Which roof?"  # a chat also writes its history, with spans of its own
    ]
print(json.dumps(became), flush=True)
os._exit(0)  # the instrumentation has threads that wait for streams
