"""A service behind HTTP that says what it knows of its caller; it prints its address.

python service.py ours   # carries the trace on with our extract()
python service.py both   # the same, in an app that has OpenTelemetry
python service.py otel   # with OpenTelemetry's propagators and a server span, ours inside
"""

import contextlib
import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

import llmeval_sdk as llmeval
from llmeval_sdk.tracing import extract, inject


@contextlib.contextmanager
def ours(headers):
    with extract(headers):
        yield {}


both = ours


@contextlib.contextmanager
def otel(headers):
    from opentelemetry import baggage, context, propagate, trace

    token = context.attach(propagate.extract(headers))
    tracer = trace.get_tracer_provider().get_tracer("server")
    with tracer.start_as_current_span("GET /") as span:
        yield {
            "server_parent": f"{span.parent.span_id:016x}",
            "server": f"{span.context.span_id:016x}",
            "baggage": dict(baggage.get_all()),
        }
    context.detach(token)


class Service(BaseHTTPRequestHandler):
    def do_GET(self):
        onward = {}
        with globals()[sys.argv[1]](self.headers) as told, llmeval.workflow("answer") as span:
            inject(onward)
        told |= {
            "trace": span.trace_id,
            "parent": f"{span.parent_number:016x}",
            "span": span.span_id,
            "session": span.session_id,
            "onward": onward,
        }
        body = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    if sys.argv[1] != "ours":
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider

        trace.set_tracer_provider(TracerProvider(shutdown_on_exit=False))
    llmeval.configure(exporters=["otlp"], otlp_endpoint="http://127.0.0.1:9")
    server = HTTPServer(("127.0.0.1", 0), Service)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
