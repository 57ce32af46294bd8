"""Calls of models as OpenTelemetry metrics, by the conventions for generative AI.

Tokens, durations and errors go wherever the app's meter provider sends them.
"""
# needs: opentelemetry

import sys
from contextlib import suppress

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider

import llmeval_sdk as llmeval


reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider([reader]))
trace.set_tracer_provider(TracerProvider())
llmeval.configure(otel="global", otel_metrics=True)


@llmeval.llm(model_name="own-7b", model_provider="vllm")
def complete(question: str) -> dict:
    """Stand for a client of a model, whose response says what it used."""
    if "walls" in question:
        raise TimeoutError("the model did not answer")
    return {"content": "Slate.", "usage": {"input_tokens": 60, "output_tokens": 12}}


for question in ("What is the roof made of?", "And the walls?", "How old is the roof?"):
    with suppress(TimeoutError):
        complete(question)
llmeval.flush(timeout=10)

names = set()
for scope in reader.get_metrics_data().resource_metrics[0].scope_metrics:
    for metric in scope.metrics:
        if not metric.name.startswith("gen_ai.client"):
            continue
        names.add(metric.name)
        for point in metric.data.data_points:
            about = (point.attributes.get(key) for key in ("gen_ai.token.type", "error.type"))
            kind = next(filter(None, about), "")
            print(f"{metric.name:35} {kind:12} {point.count} values, sum {point.sum:.3g}")
expected = {"gen_ai.client.token.usage", "gen_ai.client.operation.duration"}
sys.exit(0 if names >= expected else 1)
