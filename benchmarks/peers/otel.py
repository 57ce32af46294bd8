"""opentelemetry-sdk as its documentation sets it up: a batch processor and OTLP over HTTP.

Question and answer as attributes by hand, since there is no decorator for them. It scores nothing.
"""

from benchmarks.peers.workload import ANSWER


def environment(url):
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_SERVICE_NAME": "bench"}


class Peer:
    def __init__(self, url):
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        trace.set_tracer_provider(provider)
        tracer = trace.get_tracer("bench")

        def traced(question):
            with tracer.start_as_current_span("answer") as span:
                span.set_attribute("input.value", question)
                span.set_attribute("output.value", ANSWER)
                return ANSWER

        self.traced = traced
        self.flush = provider.force_flush
