"""The small traced app of the figures, exporters that go nowhere, and an OpenTelemetry span."""

import threading

import llmeval_sdk as llmeval


CHUNKS = [
    {
        "content": f"{n} " + "The roof of the barn is covered with slate. " * 11,
        "chunk_id": str(n),
        "score": 0.9 - n / 100,
        "page": n,
        "retrieval_method": ("bm25", "knn")[n % 2],
    }
    for n in range(20)
]
EXTRACTIONS = [
    {"value": "slate", "chunk_number": 1, "confidence": "HIGH"},
    {"value": "slate", "chunk_number": 2, "confidence": "LOW"},
]


class Discard:
    """Takes everything and keeps nothing."""

    name = "discard"

    def __init__(self):
        self.received = 0

    def export(self, batch):
        self.received += len(batch)

    def flush(self, timeout):
        pass

    def close(self, timeout):
        pass


class Dead(Discard):
    """Never comes back."""

    name = "dead"

    def __init__(self):
        super().__init__()
        self.release = threading.Event()

    def export(self, batch):
        self.release.wait()


def plain(question):
    return question


@llmeval.workflow
def traced(question):
    return question


@llmeval.retrieval
def retrieve(question):
    return CHUNKS[:5]


@llmeval.workflow
def extraction(question):
    retrieve(question)
    llmeval.annotate(extractions=EXTRACTIONS)
    return "slate"


def extraction_read(question):
    """The same call, whose scores the app reads."""
    with llmeval.workflow("extraction", request=question) as span:
        retrieve(question)
        span.annotate(extractions=EXTRACTIONS, response="slate")
    return span.evaluations


def otel_call():
    """Return a function that opens one bare OpenTelemetry span with two attributes."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    class Nothing(SpanExporter):
        def export(self, spans):
            return SpanExportResult.SUCCESS

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(Nothing(), max_queue_size=100_000))
    tracer = provider.get_tracer("bench")

    def call(question):
        with tracer.start_as_current_span("call") as span:
            span.set_attribute("input", question)
            span.set_attribute("output", question)
            return question

    return call
