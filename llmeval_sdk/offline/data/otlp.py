"""OTLP as JSON -> plain spans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple


class Event(NamedTuple):
    """Something that happened in a span."""

    name: str
    attributes: Mapping[str, Any]


class Plain(NamedTuple):
    """A span with plain attributes."""

    id: str
    parent: str | None
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Any]
    events: tuple[Event, ...]


def spans(export: Mapping[str, Any]) -> Iterator[Plain]:
    """Yield the spans of an export request, in the spelling of JSON or of Python."""
    for resource in _list(export, "resourceSpans", "resource_spans"):
        for scope in _list(resource, "scopeSpans", "scope_spans"):
            for span in _list(scope, "spans", "spans"):
                yield span_of(span)


def span_of(span: Mapping[str, Any]) -> Plain:
    """Read one span."""
    parent = span.get("parentSpanId", span.get("parent_span_id"))
    return Plain(
        str(span.get("spanId", span.get("span_id"))),
        str(parent) if parent and set(str(parent)) != {"0"} else None,
        int(span.get("startTimeUnixNano", span.get("start_time_unix_nano")) or 0),
        int(span.get("endTimeUnixNano", span.get("end_time_unix_nano")) or 0),
        _attributes(span),
        tuple(
            Event(str(event.get("name")), _attributes(event))
            for event in _list(span, "events", "events")
        ),
    )


def _attributes(holder: Mapping[str, Any]) -> dict[str, Any]:
    given = holder.get("attributes") or {}
    if isinstance(given, Mapping):
        return dict(given)
    return {str(item.get("key")): _value(item.get("value")) for item in given}


def _value(value: Any) -> Any:
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


def _list(holder: Mapping[str, Any], *names: str) -> list[Any]:
    for name in names:
        if holder.get(name):
            return list(holder[name])
    return []
