"""OTLP JSON says what OTLP's binary form says, as the real protobuf messages read both."""

import base64
import json

from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from llmeval_sdk.exporters.otlp.wire import (
    Envelope,
    event_bytes,
    logs_line,
    span_bytes,
    traces_line,
)
from llmeval_sdk.model import Chunk, Evaluation, EvaluationEvent, Failure, SpanData, Target, Usage


RESOURCE = {"service.name": "shop", "process.pid": 7, "share": 0.5, "spot": True, "of": ["a", "b"]}
JUDGED = Target("cd" * 16, "ef" * 8, "answer", "workflow")
SPAN = SpanData(
    "ab" * 16, "01" * 8, "23" * 8, "search", "retrieval", 1_767_225_600_000_000_001,
    1_767_225_600_000_000_900,
    request="größe? \ud800", retrieved_context=(Chunk("one", "a.md", score=0.5),),
    error=Failure("ValueError", "no index"), metrics={"huge": 1 << 70}, tags={"team": "x"},
    usage=Usage(3, 4, 7), links=(JUDGED,), trace_flags=1,
)  # fmt: skip
EVENTS = (
    EvaluationEvent("1", JUDGED, Evaluation("good", 0.25, explanation="why"), 5),
    EvaluationEvent("2", Target(), Evaluation("bad", error=Failure("timeout", "late")), 6),
)


def read(line, message):
    """Read a line as protobuf's own mapping, whose only difference is how it writes ids."""

    def walk(value):
        if isinstance(value, list):
            return [walk(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {
            key: base64.b64encode(bytes.fromhex(item)).decode()
            if key in ("traceId", "spanId", "parentSpanId")
            else walk(item)
            for key, item in value.items()
        }

    return json_format.ParseDict(walk(json.loads(line)), message())


def test_a_line_of_spans_says_what_the_binary_request_says():
    """Ids, times, attributes of every type, links, the error and the flags."""
    binary = Envelope(RESOURCE, "1.2").wrap([span_bytes(SPAN)])
    expected = ExportTraceServiceRequest.FromString(binary)
    assert read(traces_line([SPAN], RESOURCE, "1.2"), ExportTraceServiceRequest) == expected


def test_a_line_of_evaluations_says_what_the_binary_request_says():
    """Scores and failures, with the context of their target, and without where it has none."""
    binary = Envelope(RESOURCE, "1.2").wrap([event_bytes(event) for event in EVENTS])
    expected = ExportLogsServiceRequest.FromString(binary)
    for record in expected.resource_logs[0].scope_logs[0].log_records:
        record.observed_time_unix_nano = record.time_unix_nano  # a file is written later
    assert read(logs_line(EVENTS, RESOURCE, "1.2"), ExportLogsServiceRequest) == expected
