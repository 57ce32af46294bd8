"""Two lines in an app that is already instrumented: its own spans get scores.

The span below is what any instrumentation of a model client writes; `EvaluationSpanProcessor` reads
the dialects of OpenTelemetry, OpenInference, Traceloop, Logfire and MLflow.
"""

import json

from opentelemetry.sdk.trace import TracerProvider

import llmeval_sdk as llmeval
from llmeval_sdk.exporters import memory
from llmeval_sdk.plugins.openinference.otel import EvaluationSpanProcessor


provider = TracerProvider()
provider.add_span_processor(EvaluationSpanProcessor())

llmeval.configure(exporters=["memory"])
tracer = provider.get_tracer("some-instrumentation")


def message(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


with tracer.start_as_current_span("invoke_agent surveyor") as agent:
    agent.set_attribute("gen_ai.operation.name", "invoke_agent")
    agent.set_attribute("gen_ai.input.messages", message("user", "Which material is the roof?"))
    with tracer.start_as_current_span("retrieval survey") as retrieval:
        retrieval.set_attribute("gen_ai.operation.name", "retrieval")
        found = [{"id": "1", "content": "The roof is of slate.", "score": 0.9}]
        retrieval.set_attribute("gen_ai.retrieval.documents", json.dumps(found))
    agent.set_attribute("gen_ai.output.messages", message("assistant", "Slate, laid in 1998."))

llmeval.flush()
for event in memory.evaluations():
    print(f"{event.target.span_name}: {event.evaluation.name} = {event.evaluation.value}")
