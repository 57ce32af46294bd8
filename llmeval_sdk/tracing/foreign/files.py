"""The spans of a trace as files hold them, OTLP in JSON or MLflow's own, read as live ones are."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from llmeval_sdk.model import SpanData, Target
from llmeval_sdk.tracing.foreign.reading import ForeignSpan, finished


class OtlpEvent(NamedTuple):
    """An event of an OTLP span, such as an exception."""

    name: str
    attributes: Mapping[str, Any]
    timestamp: int = 0


class OtlpStatus(NamedTuple):
    """The status of a span that failed."""

    description: str | None


class OtlpScope(NamedTuple):
    """The scope of a span: the instrumentation that made it."""

    name: str


class OtlpSpan(NamedTuple):
    """A span with plain attributes."""

    id: str
    parent: str | None
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Any]
    events: tuple[OtlpEvent, ...] = ()
    trace_id: str = ""
    name: str = ""
    status: OtlpStatus | None = None
    links: tuple[Target, ...] = ()
    flags: int = 1
    instrumentation_scope: OtlpScope | None = None


_FAILED = (2, "2", "STATUS_CODE_ERROR")
"""How writers of JSON spell the status of an error."""


def scoped(request: Mapping[str, Any], what: str, records: str) -> Iterator[tuple[str, Any]]:
    """Yield the records of an export request, each with the name of its scope.

    ``what`` is ``Spans`` or ``Logs``, ``records`` the list that a scope has of them; both in the
    spelling of JSON, of which that of Python is derived.
    """
    for resource in listed(request, f"resource{what}", f"resource_{what.lower()}"):
        for scope in listed(resource, f"scope{what}", f"scope_{what.lower()}"):
            about = scope.get("scope")
            name = str(about.get("name") or "") if isinstance(about, Mapping) else ""
            snake = "log_records" if records == "logRecords" else records
            for record in listed(scope, records, snake):
                yield name, record


def span_of(span: Mapping[str, Any], scope: str = "") -> OtlpSpan:
    """Read one span."""
    parent = span.get("parentSpanId", span.get("parent_span_id"))
    status = span.get("status") or {}
    failed = status.get("code") in _FAILED
    return OtlpSpan(
        id_of(span.get("spanId", span.get("span_id"))),
        id_of(parent) if parent and set(str(parent)) != {"0"} else None,
        int(span.get("startTimeUnixNano", span.get("start_time_unix_nano")) or 0),
        int(span.get("endTimeUnixNano", span.get("end_time_unix_nano")) or 0),
        attributes_in(span),
        tuple(
            OtlpEvent(
                str(event.get("name")),
                attributes_in(event),
                int(event.get("timeUnixNano", event.get("time_unix_nano")) or 0),
            )
            for event in listed(span, "events", "events")
        ),
        id_of(span.get("traceId", span.get("trace_id", ""))),
        str(span.get("name") or ""),
        OtlpStatus(str(status.get("message") or "error")) if failed else None,
        tuple(
            Target(
                id_of(link.get("traceId", link.get("trace_id"))),
                id_of(link.get("spanId", link.get("span_id"))),
            )
            for link in listed(span, "links", "links")
        ),
        int(span.get("flags", 1)) & 0xFF,
        OtlpScope(scope) if scope else None,
    )


_BASE64_LENGTHS = {24: 16, 12: 8}
"""Of ids in base64, as encoders of protobuf that do not know OTLP write them, in characters."""


def id_of(text: object) -> str:
    """Return an id in hexadecimal; some writers of JSON encode ids in base64."""
    written = str(text)
    size = _BASE64_LENGTHS.get(len(written))
    if size is not None and written.endswith("="):
        try:
            data = b64decode(written, validate=True)
        except ValueError:
            return written
        return data.hex() if len(data) == size else written
    return written.lower() if len(written) <= 32 else written


def attributes_in(holder: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a span, an event or a log record as plain values."""
    attributes = holder.get("attributes") or {}
    if isinstance(attributes, Mapping):
        return dict(attributes)
    return {str(item.get("key")): _value(item.get("value")) for item in attributes}


def _value(value: object) -> Any:
    """Read an AnyValue; 64-bit numbers are texts in JSON."""
    if not isinstance(value, Mapping) or not value:
        return value if not isinstance(value, Mapping) else None
    kind, held = next(iter(value.items()))
    kind = kind.removesuffix("Value").removesuffix("_value")
    if kind == "int":
        return int(held)
    if kind == "array":
        return [_value(item) for item in held.get("values", ())]
    if kind == "kvlist":
        return {str(item.get("key")): _value(item.get("value")) for item in held.get("values", ())}
    return held


def listed(holder: Mapping[str, Any], *spellings: str) -> list[Any]:
    """Return the list under the first of some names that has one."""
    for name in spellings:
        if holder.get(name):
            return list(holder[name])
    return []


Left = tuple[str, "str | None"]
"""The id of a span that speaks of no model, and its parent's."""


def mlflow_span(span: Mapping[str, Any]) -> OtlpSpan:
    """Read a span of MLflow's JSON."""
    context = span.get("context") or {}
    return OtlpSpan(
        str(span.get("span_id") or context.get("span_id")),
        span.get("parent_span_id") or span.get("parent_id") or None,
        int(span.get("start_time_unix_nano") or span.get("start_time") or 0),
        int(span.get("end_time_unix_nano") or span.get("end_time") or 0),
        dict(span.get("attributes") or {}),
        (),
    )


def foreign(span: OtlpSpan) -> ForeignSpan | Left:
    """Read a span of another library; of one that speaks of no model, its id and its parent's."""
    data = finished(
        span,
        trace_id=span.trace_id,
        span_id=span.id,
        parent_id=span.parent,
        name=span.name,
        times=(span.start_ns, span.end_ns),
    )
    return (span.id, span.parent) if data is None else data


def hung(spans: Iterable[SpanData | Left]) -> list[Any]:
    """Leave out the spans that speak of no model; what is below them hangs from the next above.

    Of each that is left out come its id and its parent's.
    """
    everything = list(spans)
    above = dict(span for span in everything if isinstance(span, tuple))
    return [_hung(span, above) for span in everything if isinstance(span, SpanData)]


def _hung(span: SpanData, above: Mapping[str, str | None]) -> SpanData:
    parent = span.parent_id
    for _ in range(len(above)):
        if parent is None or parent not in above:
            break
        parent = above[parent]
    return span if parent == span.parent_id else replace(span, parent_id=parent)
