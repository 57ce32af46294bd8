"""Spans and scores through the app's own OpenTelemetry providers: its sampler decides.

In an app, `configure(otel="global")` (or LLMEVAL_OTEL=global) is all. Here the providers print.
"""

import sys

from opentelemetry import _logs, trace
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import llmeval_sdk as llmeval


spans, logs = InMemorySpanExporter(), InMemoryLogRecordExporter()
tracers, loggers = TracerProvider(), LoggerProvider()
tracers.add_span_processor(SimpleSpanProcessor(spans))
loggers.add_log_record_processor(SimpleLogRecordProcessor(logs))
trace.set_tracer_provider(tracers)
_logs.set_logger_provider(loggers)

llmeval.configure(otel="global")
tracer = trace.get_tracer("web-framework")


@llmeval.workflow
def answer(question: str) -> str:
    with llmeval.retrieval("search", request=question) as step:
        step.retrieved_context = [{"content": "The roof is of slate.", "id": "1", "score": 0.9}]
    with tracer.start_as_current_span("POST model"):  # an instrumented client: nests below ours
        return "Slate."


with tracer.start_as_current_span("GET /answer"):
    answer("Which material is the roof?")
llmeval.flush()

for span in spans.get_finished_spans():
    parent = f"{span.parent.span_id:016x}" if span.parent else "-"
    print(f"span   {span.context.span_id:016x} below {parent:16}  {span.name}")
for log in logs.get_finished_logs():
    print(f"event  on {log.log_record.span_id:016x}  {log.log_record.body}")
sys.exit(0 if logs.get_finished_logs() else 1)
