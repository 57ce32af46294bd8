"""An app without decorators: one line traces and scores every call of its client.

The model is a server on this machine that always answers the same.
"""
# needs: openai, openinference

from openai import OpenAI

import llmeval_sdk as llmeval
from llmeval_sdk.exporters import memory
from llmeval_sdk.testing.judge_server import JudgeServer


QUESTION = [{"role": "user", "content": "What is the roof of the mill made of?"}]


def app(base_url: str) -> None:
    """Ask twice, as an app does that knows nothing of us."""
    with OpenAI(base_url=base_url, api_key="none") as client:
        client.chat.completions.create(model="gpt-4o", messages=QUESTION)
        with client.chat.completions.create(
            model="gpt-4o", messages=QUESTION, stream=True, stream_options={"include_usage": True}
        ) as stream:
            for _ in stream:
                pass


@llmeval.heuristic
def is_short(record: llmeval.Record) -> bool:
    return len(record.response) < 80


llmeval.configure(exporters=["memory"])
llmeval.instrument("openai")

with JudgeServer(lambda _: "It is made of slate.") as server:
    app(server.base_url)

llmeval.flush()
for span in memory.spans():
    print(span.name, span.response, span.usage.total_tokens, "tokens", dict(span.metrics))
for event in memory.evaluations():
    print(event.evaluation.name, event.evaluation.value)
