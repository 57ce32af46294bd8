"""What LangSmith and Braintrust are sent over OTLP, by the recipes of ``docs/how-to/backends.md``.

Their servers cannot be run here: the attributes are those that their own documents name.
"""

import json
import re
from pathlib import Path

from otlp_collector import attributes_of

import llmeval_sdk as llmeval
from llmeval_sdk.model import Prompt
from llmeval_sdk.pipeline import runtime


PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "backends.md"


def recipe(heading):
    """Return what the page has its reader export below a heading, for the collector's address."""
    section = PAGE.read_text("utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    exports = dict(re.findall(r'^export (OTEL_\w+)="?([^"\n]+)"?$', section, re.MULTILINE))
    assert len(exports) == 2
    return {
        name: re.sub(r"^https://[^/]+", "{url}", value).replace("…", "key")
        for name, value in exports.items()
    }


LANGSMITH, BRAINTRUST = recipe("LangSmith"), recipe("Braintrust")


def send(collector, monkeypatch, variables):
    """Set what a recipe sets, run an app, and return what arrived."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value.replace("{url}", collector.url))
    with llmeval.workflow("answer", request="Which roof?", session_id="s-1") as workflow:
        llmeval.annotate(metadata={"tier": 1, "session_id": "s-1"})
        with llmeval.retrieval("search", request="roof") as step:
            step.retrieved_context = [{"content": "The roof is of slate.", "score": 0.9}]
        with llmeval.llm("gpt-4o", model_provider="openai", request="Which roof?") as call:
            call.response = "Slate."
            llmeval.annotate(
                prompt=Prompt(id="extract", version="3", variables={"question": "q"}),
                metrics={"input_tokens": 11, "output_tokens": 2},
            )
        with llmeval.tool("look_up", request={"key": "roof"}) as tool:
            tool.response = {"value": "slate"}
        workflow.response = "Slate."
        llmeval.submit_evaluation(label="nice", value=1.0)
    stats = runtime.flush(20).exporters["otlp"]
    assert stats.balanced
    assert not stats.dropped
    return {span.name: attributes_of(span) for span in collector.spans}


def test_langsmith_gets_what_it_reads(collector, monkeypatch):
    """At its address, with its headers: kinds, texts, models, tokens and metadata by names it knows."""
    spans = send(collector, monkeypatch, LANGSMITH)
    (path, headers, _) = collector.requests[0]
    assert path == "/otel/v1/traces"
    assert (headers["x-api-key"], headers["langsmith-project"]) == ("lsv2_key", "my-app")
    kinds = {name: span["openinference.span.kind"] for name, span in spans.items()}
    assert kinds == {
        "invoke_workflow answer": "CHAIN", "retrieval search": "RETRIEVER", "chat gpt-4o": "LLM",
        "execute_tool look_up": "TOOL",
    }  # fmt: skip
    root, call = spans["invoke_workflow answer"], spans["chat gpt-4o"]
    assert (root["input.value"], root["output.value"]) == ("Which roof?", "Slate.")
    assert json.loads(root["metadata"]) == {"tier": 1, "session_id": "s-1"}
    assert (call["gen_ai.request.model"], call["gen_ai.operation.name"]) == ("gpt-4o", "chat")
    assert (call["gen_ai.usage.input_tokens"], call["gen_ai.usage.output_tokens"]) == (11, 2)
    assert spans["execute_tool look_up"]["gen_ai.tool.name"] == "look_up"


def test_langsmith_is_sent_no_events(collector, monkeypatch):
    """It has no endpoint for logs: the address of spans alone leaves scores out, and they are no loss."""
    send(collector, monkeypatch, LANGSMITH)
    assert {path for path, _, _ in collector.requests} == {"/otel/v1/traces"}
    assert collector.log_count == 0


def test_scores_of_the_heuristics_are_on_the_spans_themselves(collector, monkeypatch):
    """Which is all that a backend without events and without a score API of ours can show."""
    spans = send(collector, monkeypatch, LANGSMITH)
    scores = [name for name in spans["retrieval search"] if name.startswith("llmeval.score.")]
    assert scores or any(
        name.startswith("llmeval.score.") for name in spans["invoke_workflow answer"]
    )


def test_braintrust_gets_what_it_reads(collector, monkeypatch):
    """At its address, with its headers: messages, models and tokens by OpenTelemetry's names."""
    spans = send(collector, monkeypatch, BRAINTRUST)
    (path, headers, _) = collector.requests[0]
    assert path == "/otel/v1/traces"
    assert headers["authorization"] == "Bearer sk-key"
    assert headers["x-bt-parent"] == "project_name:my-app"
    call = spans["chat gpt-4o"]
    assert call["gen_ai.operation.name"] == "chat"
    assert json.loads(call["gen_ai.input.messages"])[0]["role"] == "user"
    assert json.loads(call["gen_ai.output.messages"])[0]["role"] == "assistant"
    assert (call["gen_ai.usage.input_tokens"], call["gen_ai.usage.output_tokens"]) == (11, 2)
    assert spans["invoke_workflow answer"]["gen_ai.conversation.id"] == "s-1"


def test_braintrust_is_sent_scores_as_events(collector, monkeypatch):
    """It takes logs, and keeps each as a row of its own beside the span."""
    send(collector, monkeypatch, BRAINTRUST)
    assert {path for path, _, _ in collector.requests} == {"/otel/v1/traces", "/otel/v1/logs"}
    log, about = collector.events()["nice"]
    assert about["gen_ai.evaluation.score.value"] == 1.0
    assert log.span_id == collector.span("invoke_workflow answer").span_id
