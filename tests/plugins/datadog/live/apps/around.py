"""An app of ddtrace that says by our annotation context whose its requests are, and prints them."""

import json
import os
import sqlite3
import sys

from ddtrace.llmobs import LLMObs
from ddtrace.llmobs.decorators import llm, workflow

import llmeval_sdk as llmeval
from llmeval_sdk.plugins.datadog.source import evaluate_spans


@llm(model_name="m", model_provider="p")
def ask(question):
    LLMObs.annotate(input_data=question, output_data="Slate.")


@workflow
def answer(question):
    with llmeval.annotation_context(tags={"step": "asking"}):
        ask(question)
    LLMObs.annotate(input_data=question, output_data="Slate.")


@workflow(session_id="chat-9")
def of_its_own(question):
    LLMObs.annotate(input_data=question, output_data="Slate.", tags={"user_id": "bob"})


@workflow
def late(question):
    with llmeval.annotation_context(user_id="cy", session_id="chat-6"):
        ask(question)
    LLMObs.annotate(input_data=question, output_data="Slate.")


LLMObs.enable()
llmeval.configure(exporters=sys.argv[1].split(","), escalations=[])
evaluate_spans()
with llmeval.annotation_context(user_id="ann", session_id="chat-7", tags={"team": "roofs"}):
    answer("Which roof?")
    of_its_own("Which roof?")
    with llmeval.workflow("ours"):
        pass
late("Which roof?")
LLMObs.flush()
assert llmeval.shutdown(20).complete
for row in sqlite3.connect(os.environ["LLMEVAL_STORE"]).execute(
    "SELECT name, session_id, tags FROM spans ORDER BY start_ns"
):
    print(json.dumps([*row[:2], json.loads(row[2])]))
