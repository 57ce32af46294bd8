"""A small OTLP collector on loopback: decodes what it gets, and misbehaves when told to."""

from __future__ import annotations

import gzip
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from time import monotonic, sleep

from http_thread import served_by
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


def value_of(any_value):
    """Turn an AnyValue into the Python value it holds."""
    kind = any_value.WhichOneof("value")
    if kind == "array_value":
        return [value_of(item) for item in any_value.array_value.values]
    return getattr(any_value, kind) if kind else None


def attributes_of(record):
    """Return the attributes of a span, log record or resource as a dict."""
    return {pair.key: value_of(pair.value) for pair in record.attributes}


class Collector:
    """What arrived, and how to answer.

    ``answers`` holds (status, headers, body) for the next requests, ``always`` for all of them.
    """

    def __init__(self):
        self.lock = threading.Lock()
        self.requests = []
        self.resources = []
        self.log_resources = []
        self.scopes = []
        self.spans = []
        self.logs = []
        self.metrics = []
        self.answers = []
        self.always = None
        self.hang = threading.Event()
        self.hung = 0
        self.idle_seconds = None
        self.connections = set()
        self.trickle = False
        self.decode = True
        self.span_count = 0
        self.log_count = 0
        self.max_body = None
        self.reject = 0
        self.pages = {}
        self.posted = []
        self.url = ""

    def receive(self, path, headers, body):
        """Take one request; returns the answer."""
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        with self.lock:
            self.requests.append((path, headers, len(body)))
            if self.answers:
                return self.answers.pop(0)
            if self.always is not None:
                return self.always
            if self.max_body is not None and len(body) > self.max_body:
                return 413, {}, b""
            if path.endswith("/v1/traces"):
                request = ExportTraceServiceRequest.FromString(body)
                for resource in request.resource_spans:
                    self.resources.append(attributes_of(resource.resource))
                    for scope in resource.scope_spans:
                        self.scopes.append((scope.scope.name, scope.schema_url))
                        self.span_count += len(scope.spans)
                        if self.decode:
                            self.spans.extend(scope.spans)
                if self.reject:
                    partial = ExportTracePartialSuccess(
                        rejected_spans=self.reject, error_message="too old"
                    )
                    answer = ExportTraceServiceResponse(partial_success=partial)
                    return 200, {}, answer.SerializeToString()
                return 200, {}, b""
            if path.endswith("/v1/logs"):
                request = ExportLogsServiceRequest.FromString(body)
                for resource in request.resource_logs:
                    self.log_resources.append(attributes_of(resource.resource))
                    for scope in resource.scope_logs:
                        self.scopes.append((scope.scope.name, scope.schema_url))
                        self.log_count += len(scope.log_records)
                        if self.decode:
                            self.logs.extend(scope.log_records)
                return 200, {}, b""
            if path.endswith("/v1/metrics"):
                request = ExportMetricsServiceRequest.FromString(body)
                for resource in request.resource_metrics:
                    for scope in resource.scope_metrics:
                        self.scopes.append((scope.scope.name, scope.schema_url))
                        self.metrics.extend(scope.metrics)
                return 200, {}, b""
            for start, answer in self.pages.items():
                if path.startswith(start):
                    self.posted.append((path, json.loads(body) if body else None))
                    return 200, {}, json.dumps(answer).encode()
        return 404, {}, b"no such path"

    def span(self, name):
        """Return the latest span of a name."""
        return next(span for span in reversed(self.spans) if span.name == name)

    def events(self):
        """Return the evaluation events by evaluation name, the latest of each."""
        found = {}
        for log in self.logs:
            about = attributes_of(log)
            found[about["gen_ai.evaluation.name"]] = (log, about)
        return found

    def wait(self, done, seconds=60.0):
        """Wait until ``done()`` is true."""
        end = monotonic() + seconds
        while not done():
            assert monotonic() < end, "not in time"
            sleep(0.005)


def _handler(collector):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self):
            self.timeout = collector.idle_seconds
            super().setup()
            collector.connections.add(self)

        def finish(self):
            collector.connections.discard(self)
            super().finish()

        def do_POST(self):
            length = int(self.headers["content-length"] or 0)
            body = self.rfile.read(length)
            if len(body) < length:  # the client gave up
                self.close_connection = True
                return
            headers = {key.lower(): value for key, value in self.headers.items()}
            if collector.trickle:
                self.wfile.write(b"HTTP/1.1 200 OK\r\n")
                while not collector.hang.wait(0.05):
                    self.wfile.write(b"X-More: 1\r\n")
                return
            if collector.hang is not None and collector.hang.is_set():
                collector.hung += 1
                collector.released.wait(30)
                self.close_connection = True
                return
            status, more, answer = collector.receive(self.path, headers, body)
            self.send_response(status)
            for key, value in more.items():
                self.send_header(key, value)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST

        def log_message(self, *_):
            pass

        def handle_one_request(self):
            try:
                super().handle_one_request()
            except ConnectionError:
                self.close_connection = True

    return Handler


@contextmanager
def running_collector():
    """Run a collector for the block."""
    collector = Collector()
    collector.released = threading.Event()
    with served_by(_handler(collector)) as collector.url:
        try:
            yield collector
        finally:
            collector.released.set()
