"""An app that knows only ddtrace, and says what the local store has of it."""

import json

from ddtrace.llmobs import LLMObs
from ddtrace.llmobs.decorators import workflow


LLMObs.enable(ml_app="plain", agentless_enabled=False)


@workflow
def answer(question):
    LLMObs.annotate(input_data=question, output_data="Slate.")


answer("What is the roof made of?")
LLMObs.flush()

import llmeval_sdk  # noqa: E402 - only to look what became of it
from llmeval_sdk.store.reader import StoreReader  # noqa: E402


llmeval_sdk.flush(20)
with StoreReader("traces.db") as reader:
    print(json.dumps(list(reader.read(lambda db: db.execute("SELECT name FROM spans")))))
