"""An app written for ddtrace alone that says whose its requests are, and prints what is stored."""

import json
import os
import sqlite3

from ddtrace.llmobs import LLMObs
from ddtrace.llmobs.decorators import llm, workflow

import llmeval_sdk as llmeval
from llmeval_sdk.plugins.datadog.source import evaluate_spans


@llm(model_name="m", model_provider="p")
def ask(question):
    LLMObs.annotate(input_data=question, output_data="Slate.", tags={"user_id": "ann"})


@workflow(session_id="chat-7")
def answer(question):
    ask(question)
    LLMObs.annotate(input_data=question, output_data="Slate.", tags={"team": "roofs"})


@workflow
def named_otherwise(question):
    tags = {"user.id": "bob", "session_id": "chat-8"}
    LLMObs.annotate(input_data=question, output_data="Slate.", tags=tags)


LLMObs.enable()
llmeval.configure(exporters=["local"], escalations=[])
evaluate_spans()
answer("Which roof?")
named_otherwise("Which roof?")
assert llmeval.shutdown(20).complete
for row in sqlite3.connect(os.environ["LLMEVAL_STORE"]).execute(
    "SELECT name, session_id, tags FROM spans"
):
    print(json.dumps([*row[:2], json.loads(row[2])]))
