"""Writes spans and evaluations as lines of OTLP JSON, which a collector's file receiver reads.

Ids are hexadecimal, 64-bit numbers are strings and enumerations are numbers, as the JSON mapping of
OTLP wants it: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from llmeval_sdk.exporters.otlp import names
from llmeval_sdk.exporters.otlp.attributes import (
    Attribute,
    attributes_of,
    event_of,
    kind_of,
    name_of,
)
from llmeval_sdk.model import EvaluationEvent, SpanData


_INT64 = 1 << 63
_ERROR = 2


def traces_line(spans: Sequence[SpanData], resource: Mapping[str, Attribute], version: str) -> str:
    """Write spans as one request of the trace service."""
    scoped = {"spans": [_span(span) for span in spans], **_scope(version)}
    return _dumps({"resourceSpans": [{**_resource(resource), "scopeSpans": [scoped]}]})


def logs_line(
    events: Sequence[EvaluationEvent], resource: Mapping[str, Attribute], version: str
) -> str:
    """Write evaluations as one request of the logs service."""
    scoped = {"logRecords": [_event(event) for event in events], **_scope(version)}
    return _dumps({"resourceLogs": [{**_resource(resource), "scopeLogs": [scoped]}]})


def _scope(version: str) -> dict[str, Any]:
    return {"scope": {"name": names.SCOPE, "version": version}, "schemaUrl": names.SCHEMA_URL}


def _resource(resource: Mapping[str, Attribute]) -> dict[str, Any]:
    return {"resource": {"attributes": _attributes(resource)}}


def _dumps(request: Mapping[str, Any]) -> str:
    text = json.dumps(request, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace").decode()


def _span(span: SpanData) -> dict[str, Any]:
    body: dict[str, Any] = {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "name": name_of(span),
        "kind": kind_of(span),
        "startTimeUnixNano": str(max(0, span.start_ns)),
        "endTimeUnixNano": str(max(0, span.end_ns)),
        "attributes": _attributes(attributes_of(span)),
        "flags": span.trace_flags,
    }
    if span.parent_id:
        body["parentSpanId"] = span.parent_id
    if span.error is not None:
        about: dict[str, Attribute] = {names.EXCEPTION_TYPE: span.error.type}
        if span.error.message:
            about[names.EXCEPTION_MESSAGE] = span.error.message
        exception = {"name": names.EXCEPTION, "attributes": _attributes(about)}
        body["events"] = [{"timeUnixNano": body["endTimeUnixNano"], **exception}]
        body["status"] = {"code": _ERROR, "message": span.error.message or span.error.type}
    links = [link for link in span.links if link.trace_id and link.span_id]
    if links:
        body["links"] = [
            {"traceId": link.trace_id, "spanId": link.span_id, "flags": 1} for link in links
        ]
    return body


def _event(event: EvaluationEvent) -> dict[str, Any]:
    described = event_of(event)
    body: dict[str, Any] = {
        "timeUnixNano": str(event.timestamp_ns),
        "observedTimeUnixNano": str(event.timestamp_ns),
        "severityNumber": described.severity,
        "severityText": described.severity_text,
        "eventName": names.EVENT,
        "body": _value(described.body),
        "attributes": _attributes(described.attributes),
    }
    if event.target.trace_id and event.target.span_id:
        body.update(traceId=event.target.trace_id, spanId=event.target.span_id, flags=1)
    return body


def _attributes(attributes: Mapping[str, Attribute]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: Attribute) -> dict[str, Any]:
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        fits = -_INT64 <= value < _INT64
        return {"intValue": str(value)} if fits else {"stringValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    return {"arrayValue": {"values": [{"stringValue": str(item)} for item in value]}}
