"""An app whose model client `instrument` or `wrap_openai` traces, beside LLM Observability."""

import json
import sys
from pathlib import Path

from ddtrace.llmobs import LLMObs


sys.path.insert(0, str(Path(__file__).parents[4] / "support"))

from provider_server import running_provider

import llmeval_sdk as llmeval


way, theirs, store = sys.argv[1:4]
records = []


@llmeval.heuristic
def noted(record):
    """Keep what is evaluated."""
    records.append((record.span_kind, record.usage and record.usage.total_tokens))
    return 1.0


def enable():
    LLMObs.enable(
        ml_app="instrumented", agentless_enabled=False, integrations_enabled=theirs == "patches"
    )


def call(client):
    client.chat.completions.create(
        model="gpt-4o", messages=[{"role": "user", "content": "Which roof?"}]
    )


with running_provider() as provider:
    if way == "after":
        enable()
    llmeval.configure(exporters=["local"], store=store, evaluators=[noted])
    if way != "wrapped":
        llmeval.instrument("openai")
    import openai

    client = openai.OpenAI(base_url=provider.base_url, api_key="none", max_retries=0)
    if way == "wrapped":
        llmeval.wrap_openai(client)
    if way != "after":
        enable()
    call(client)
    call(client)
    llmeval.flush(20)
    print(json.dumps(records))
