"""Writes spans and evaluations as OTLP, in protobuf and in JSON, and reads the responses.

Protobuf is written by hand because OTLP needs only a few kinds of field. This way no package can
clash with the app's protobuf, and it takes less time than filling generated message objects.

Lines of JSON are what a collector's file receiver reads. Ids are hexadecimal there, 64-bit numbers
are strings and enumerations are numbers, as the JSON mapping of OTLP wants it:
https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from os import getpid
from struct import Struct
from time import time_ns

from llmeval_sdk.config import Settings
from llmeval_sdk.exporters.otlp import names
from llmeval_sdk.exporters.otlp.attributes import (
    Attribute,
    attributes_of,
    event_of,
    kind_of,
    name_of,
)
from llmeval_sdk.model import EvaluationEvent, SpanData, Target
from llmeval_sdk.process.app_resource import app_resource
from llmeval_sdk.process.distribution import release


_FIXED64 = Struct("<Q").pack
_FIXED32 = Struct("<I").pack
_DOUBLE = Struct("<d").pack
_ONE_BYTE = [bytes((number,)) for number in range(128)]
_MAX_KEYS = 4_000
_keys: dict[str, bytes] = {}
"""Encoded keys of attributes, of which there are few different ones."""


def _varint(number: int) -> bytes:
    """Write a whole number; a negative one takes ten bytes."""
    if 0 <= number < 128:
        return _ONE_BYTE[number]
    if 0 <= number < 16_384:
        return bytes((number & 127 | 128, number >> 7))
    number &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def tag(field: int, kind: int) -> bytes:
    """Write a field's number and kind: 0 a varint, 1 eight bytes, 2 counted bytes, 5 four bytes."""
    return _varint(field << 3 | kind)


def block(tag: bytes, content: bytes) -> bytes:
    """Write a field that holds bytes, a text or a message."""
    return tag + _varint(len(content)) + content


def _utf8(text: str) -> bytes:
    """Encode a text as UTF-8; lone surrogates, which it cannot hold, become question marks."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def _fixed64(tag: bytes, number: int) -> bytes:
    """Write a time in nanoseconds."""
    return tag + _FIXED64(max(0, number) & 0xFFFFFFFFFFFFFFFF)


def _fixed32(tag: bytes, number: int) -> bytes:
    """Write flags."""
    return tag + _FIXED32(number & 0xFFFFFFFF)


def any_value(value: Attribute) -> bytes:
    """Write the content of an OTLP AnyValue."""
    kind = type(value)
    if kind is str:
        data = _utf8(value)  # type: ignore[arg-type]
        return b"\x0a" + _varint(len(data)) + data
    if kind is bool:
        return b"\x10\x01" if value else b"\x10\x00"
    if kind is int:
        if -(1 << 63) <= value < 1 << 63:  # type: ignore[operator]
            return b"\x18" + _varint(value)  # type: ignore[arg-type]
        return any_value(str(value))
    if kind is float:
        return b"\x21" + _DOUBLE(value)
    items = b"".join(block(b"\x0a", any_value(str(item))) for item in value)  # type: ignore[union-attr]
    return block(b"\x2a", items)


def _key_values(tag: bytes, attributes: Mapping[str, Attribute]) -> list[bytes]:
    """Write attributes, each as a field of its own."""
    parts: list[bytes] = []
    for key, value in attributes.items():
        start = _keys.get(key) or _key(key)
        if type(value) is str:  # most values are texts: none is copied before the whole is joined
            try:
                data = value.encode()
            except UnicodeEncodeError:
                data = _utf8(value)
            text = b"\x0a" + _varint(len(data))
        else:
            text, data = b"", any_value(value)
        size = len(text) + len(data)
        start += _varint(size) + text
        parts += (tag, _varint(len(start) + len(data)), start, data)
    return parts


def _key(key: str) -> bytes:
    written = block(b"\x0a", _utf8(key)) + b"\x12"
    if len(_keys) < _MAX_KEYS:
        _keys[key] = written
    return written


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Read a message: field numbers with numbers or bytes. Raises ValueError on anything else."""
    place, end = 0, len(data)
    while place < end:
        number, place = _read_varint(data, place)
        kind = number & 7
        if kind == 0:
            value, place = _read_varint(data, place)
            yield number >> 3, value
            continue
        size = {1: 8, 5: 4}.get(kind)
        if kind == 2:
            size, place = _read_varint(data, place)
        if size is None or place + size > end:
            raise ValueError("not protobuf")
        yield number >> 3, data[place : place + size]
        place += size


def _read_varint(data: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    while place < len(data) and shift < 64:
        byte = data[place]
        place += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, place
        shift += 7
    raise ValueError("not protobuf")


# -- requests -------------------------------------------------------------------------------------

_T1, _T2, _T3 = tag(1, 2), tag(2, 2), tag(3, 2)
_SPAN_PARENT, _SPAN_NAME, _SPAN_KIND = tag(4, 2), tag(5, 2), tag(6, 0)
_SPAN_START, _SPAN_END, _SPAN_ATTRIBUTE = tag(7, 1), tag(8, 1), tag(9, 2)
_SPAN_EVENT, _SPAN_LINK, _SPAN_STATUS, _SPAN_FLAGS = tag(11, 2), tag(13, 2), tag(15, 2), tag(16, 5)
_EVENT_TIME, _LINK_FLAGS, _STATUS_CODE = tag(1, 1), tag(6, 5), tag(3, 0)
_LOG_TIME, _LOG_SEVERITY, _LOG_TEXT, _LOG_BODY = tag(1, 1), tag(2, 0), tag(3, 2), tag(5, 2)
_LOG_ATTRIBUTE, _LOG_FLAGS, _LOG_TRACE, _LOG_SPAN = tag(6, 2), tag(8, 5), tag(9, 2), tag(10, 2)
_LOG_OBSERVED, _LOG_EVENT = tag(11, 1), tag(12, 2)
_ERROR = 2
_SEVERITIES = {
    number: _LOG_SEVERITY + _varint(number) + block(_LOG_TEXT, text)
    for number, text in ((names.INFO, b"INFO"), (names.WARN, b"WARN"))
}
_LOG_IDS = _fixed32(_LOG_FLAGS, 1) + _LOG_TRACE + b"\x10"
_LOG_SPAN_ID = _LOG_SPAN + b"\x08"
_LOG_NAME = block(_LOG_EVENT, names.EVENT.encode())


class Envelope:
    """The resource and scope of every request, encoded once."""

    def __init__(self, resource: Mapping[str, Attribute], version: str) -> None:
        self._resource = block(_T1, b"".join(_key_values(_T1, resource)))
        scope = block(_T1, names.SCOPE.encode()) + block(_T2, version.encode())
        self._scope = block(_T1, scope)
        self._schema = block(_T3, names.SCHEMA_URL.encode())

    def wrap(self, records: Sequence[bytes]) -> bytes:
        """Make a request of spans or of log records, which have the same structure."""
        parts = [self._scope]
        for record in records:
            parts += (_T2, _varint(len(record)), record)
        parts.append(self._schema)
        scoped = _T2 + _varint(sum(map(len, parts)))
        size = len(self._resource) + len(scoped) + sum(map(len, parts))
        return b"".join((_T1, _varint(size), self._resource, scoped, *parts))


def span_bytes(span: SpanData) -> bytes:
    """Write a span."""
    parts = [
        b"\x0a\x10", bytes.fromhex(span.trace_id), b"\x12\x08", bytes.fromhex(span.span_id),
    ]  # fmt: skip
    if span.parent_id:
        parts += (_SPAN_PARENT, b"\x08", bytes.fromhex(span.parent_id))
    name = _utf8(name_of(span))
    parts += (_SPAN_NAME, _varint(len(name)), name, _SPAN_KIND, _varint(kind_of(span)))
    parts.append(_fixed64(_SPAN_START, span.start_ns))
    parts.append(_fixed64(_SPAN_END, span.end_ns))
    parts += _key_values(_SPAN_ATTRIBUTE, attributes_of(span))
    if span.error is not None:
        parts.append(_exception(span))
        status = block(_T2, _utf8(span.error.message or span.error.type))
        parts.append(block(_SPAN_STATUS, status + _STATUS_CODE + _varint(_ERROR)))
    for link in span.links:
        ids = _ids(link)
        if ids is not None:
            body = block(_T1, ids[0]) + block(_T2, ids[1]) + _fixed32(_LINK_FLAGS, 1)
            parts.append(block(_SPAN_LINK, body))
    parts.append(_fixed32(_SPAN_FLAGS, span.trace_flags))
    return b"".join(parts)


def _exception(span: SpanData) -> bytes:
    assert span.error is not None
    about: dict[str, Attribute] = {names.EXCEPTION_TYPE: span.error.type}
    if span.error.message:
        about[names.EXCEPTION_MESSAGE] = span.error.message
    time = _fixed64(_EVENT_TIME, span.end_ns)
    body = time + block(_T2, names.EXCEPTION.encode()) + b"".join(_key_values(_T3, about))
    return block(_SPAN_EVENT, body)


def event_bytes(event: EvaluationEvent) -> bytes:
    """Write an evaluation as a log record with the ids of its target."""
    described = event_of(event)
    body = any_value(described.body)
    parts = [
        _fixed64(_LOG_TIME, event.timestamp_ns), _SEVERITIES[described.severity],
        _LOG_BODY, _varint(len(body)), body,
    ]  # fmt: skip
    parts += _key_values(_LOG_ATTRIBUTE, described.attributes)
    ids = _ids(event.target)
    if ids is not None:
        parts += (_LOG_IDS, ids[0], _LOG_SPAN_ID, ids[1])
    parts += (_fixed64(_LOG_OBSERVED, time_ns()), _LOG_NAME)
    return b"".join(parts)


def _ids(target: Target) -> tuple[bytes, bytes] | None:
    """Return W3C ids as bytes, or ``None`` for ids of another system, which OTLP cannot carry."""
    try:
        trace, span = bytes.fromhex(target.trace_id or ""), bytes.fromhex(target.span_id or "")
    except ValueError:
        return None
    return (trace, span) if len(trace) == 16 and len(span) == 8 else None


def rejected(response: bytes) -> tuple[int, str]:
    """Read from a successful response how many records were not taken, and why.

    Raises ValueError if the response is neither protobuf nor JSON.
    """
    if response[:1] == b"{":
        return _rejected_in_json(response)
    count, why = 0, ""
    for field, partial in fields(response):
        if field != 1 or not isinstance(partial, bytes):
            continue
        for inner, value in fields(partial):
            if inner == 1 and isinstance(value, int):
                count = value
            elif inner == 2 and isinstance(value, bytes):
                why = value.decode("utf-8", "replace")
    return max(0, count), why


def _rejected_in_json(response: bytes) -> tuple[int, str]:
    partial = json.loads(response).get("partialSuccess")
    if not isinstance(partial, dict):
        return 0, ""
    counts = (partial.get("rejectedSpans"), partial.get("rejectedLogRecords"))
    return max(int(count or 0) for count in counts), str(partial.get("errorMessage", ""))


def resource(settings: Settings, **more: str) -> dict[str, Attribute]:
    """Return what describes the app: its settings, its own OpenTelemetry, and where it runs."""
    own = {**app_resource(), **(settings.resource_attributes or {})}
    name = settings.service_name or own.get("service.name") or "llmeval"
    return {
        "process.pid": getpid(),
        "host.name": socket.gethostname(),
        names.OI_PROJECT: settings.phoenix_project or name,
        **own,
        "telemetry.sdk.name": names.SCOPE,
        "telemetry.sdk.language": "python",
        "telemetry.sdk.version": release(),
        "service.name": name,
        **more,
    }


_INT64 = 1 << 63


def traces_line(
    spans: Sequence[SpanData],
    resource: Mapping[str, Attribute],
    version: str,
    *,
    named: bool = False,
) -> str:
    """Write spans as one request of the trace service.

    If they are to be ``named``, the app's names of spans stand beside those of the conventions, as
    ``llmeval import`` reads them.
    """
    scoped = {"spans": [_json_span(span, named=named) for span in spans], **_json_scope(version)}
    return _json_text({"resourceSpans": [{**_json_resource(resource), "scopeSpans": [scoped]}]})


def logs_line(
    events: Sequence[EvaluationEvent],
    resource: Mapping[str, Attribute],
    version: str,
    *,
    named: bool = False,
) -> str:
    """Write evaluations as one request of the logs service, if asked for with their ids."""
    records = [_json_event(event, named=named) for event in events]
    scoped = {"logRecords": records, **_json_scope(version)}
    return _json_text({"resourceLogs": [{**_json_resource(resource), "scopeLogs": [scoped]}]})


def _json_scope(version: str) -> dict[str, object]:
    return {"scope": {"name": names.SCOPE, "version": version}, "schemaUrl": names.SCHEMA_URL}


def _json_resource(resource: Mapping[str, Attribute]) -> dict[str, object]:
    return {"resource": {"attributes": _json_attributes(resource)}}


def _json_text(request: Mapping[str, object]) -> str:
    text = json.dumps(request, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace").decode()


def _json_span(span: SpanData, *, named: bool) -> dict[str, object]:
    attributes = attributes_of(span)
    if named:
        attributes[names.SPAN_NAME] = span.name
    body: dict[str, object] = {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "name": name_of(span),
        "kind": kind_of(span),
        "startTimeUnixNano": str(max(0, span.start_ns)),
        "endTimeUnixNano": str(max(0, span.end_ns)),
        "attributes": _json_attributes(attributes),
        "flags": span.trace_flags,
    }
    if span.parent_id:
        body["parentSpanId"] = span.parent_id
    if span.error is not None:
        about: dict[str, Attribute] = {names.EXCEPTION_TYPE: span.error.type}
        if span.error.message:
            about[names.EXCEPTION_MESSAGE] = span.error.message
        exception = {"name": names.EXCEPTION, "attributes": _json_attributes(about)}
        body["events"] = [{"timeUnixNano": body["endTimeUnixNano"], **exception}]
        body["status"] = {"code": _ERROR, "message": span.error.message or span.error.type}
    links = [link for link in span.links if link.trace_id and link.span_id]
    if links:
        body["links"] = [
            {"traceId": link.trace_id, "spanId": link.span_id, "flags": 1} for link in links
        ]
    return body


def _json_event(event: EvaluationEvent, *, named: bool) -> dict[str, object]:
    described = event_of(event)
    if named:
        described.attributes[names.EVALUATION_ID] = event.id
    body: dict[str, object] = {
        "timeUnixNano": str(event.timestamp_ns),
        "observedTimeUnixNano": str(event.timestamp_ns),
        "severityNumber": described.severity,
        "severityText": described.severity_text,
        "eventName": names.EVENT,
        "body": _json_value(described.body),
        "attributes": _json_attributes(described.attributes),
    }
    if event.target.trace_id and event.target.span_id:
        body.update(traceId=event.target.trace_id, spanId=event.target.span_id, flags=1)
    return body


def _json_attributes(attributes: Mapping[str, Attribute]) -> list[dict[str, object]]:
    return [{"key": key, "value": _json_value(value)} for key, value in attributes.items()]


def _json_value(value: Attribute) -> dict[str, object]:
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
