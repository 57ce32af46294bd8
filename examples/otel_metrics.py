"""The SDK's own counters as OpenTelemetry metrics: nothing is lost without a number.

An app that has a meter provider needs no line for it. Here a reader collects once and prints.
"""

import sys

from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import llmeval_sdk as llmeval


reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider([reader]))


@llmeval.workflow
def answer(question: str) -> str:
    llmeval.annotate(retrieved_context=[{"content": "The roof is of slate.", "score": 0.9}])
    return "Slate."


for _ in range(3):
    answer("Which material is the roof?")
llmeval.flush()

shown = 0
for metric in reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics:
    for point in metric.data.data_points:
        about = ", ".join(f"{key}={value}" for key, value in point.attributes.items())
        print(f"{metric.name:30} {point.value:>6} {metric.unit:14} {about}")
        shown += 1
sys.exit(0 if shown else 1)
