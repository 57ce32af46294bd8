"""Reads history from files: what ``llmeval export`` wrote, and the OTLP of any app.

A file is read one line at a time, and what cannot be read is yielded with its place and the reason.
Rows of ours become what the store held when they were exported. Spans of other libraries are read
by the rules of `llmeval_sdk.tracing.foreign`, one trace at a time: the topmost of those that speak
of models has the question and the answer of its run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, BinaryIO, NamedTuple

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model import Evaluation, EvaluationEvent, NotRun, Record, SpanData, Target
from llmeval_sdk.model.plain import MAX_TEXT, UnreadableError, built, checked, known_fields
from llmeval_sdk.model.records import OWNERS
from llmeval_sdk.offline.data.exported import ADDED, EVENTS, OWN, TRUTH
from llmeval_sdk.offline.data.own_otlp import is_ours, own_event, own_span
from llmeval_sdk.offline.data.source import MAX_DEPTH, check_size, read_json
from llmeval_sdk.process.reading import BadLine, numbered_lines
from llmeval_sdk.store.history import Arrival, arrival
from llmeval_sdk.tracing.foreign.files import Left, foreign, hung, scoped, span_of
from llmeval_sdk.tracing.foreign.reading import answered, families, naming_its_model
from llmeval_sdk.tracing.internals import adopted, span_data


MAX_LINE = 32 << 20
"""Bytes of one line. What is captured of a span has at most some megabytes."""
MAX_VALUES = 4_000_000
"""Commas and brackets of one line: each value of JSON takes a hundred bytes of memory."""
MAX_WAITING = 20_000
"""Spans of other libraries that wait for the rest of their traces."""
MAX_WAITING_BYTES = 128 << 20
"""Bytes of the lines that those spans came in."""
MAX_UNREADABLE = 100_000
"""Lines or records after each other that cannot be read, after which no more of a file is."""
MAX_NAMES = 1_000
"""Names of unknown fields that are counted apart."""

_TRACE_ID, _SPAN_ID = re.compile("[0-9a-f]{32}"), re.compile("[0-9a-f]{16}")
_END_OF_TIME = 1 << 63
_ODD = (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError, RecursionError)
"""What reading raises over a value that is not of the kind that belongs there."""


class Unreadable(NamedTuple):
    """A line, or one record of it, that could not be read."""

    place: str
    why: str
    is_end: bool = False
    """Whether nothing that follows in the file is read."""


class _Waiting(NamedTuple):
    """A span of another library, which waits for the rest of its trace."""

    place: str
    span: SpanData | Left
    size: int
    """Its share of the bytes of its line."""


class HistoryReader:
    """Turns the lines of files into arrivals, and counts what is no history of ours."""

    def __init__(self) -> None:
        self.unknown: Counter[str] = Counter()
        """In how many places fields stand that this release does not know, by name."""
        self.others: Counter[str] = Counter()
        """Records of OTLP that are nothing for a store, by what they are."""
        self._traces: dict[str, list[_Waiting]] = {}
        self._waiting = self._waiting_bytes = 0

    def lines(self, file: BinaryIO, name: str = "") -> Iterator[Arrival | Unreadable]:
        """Read lines. ``name`` of the file begins each place."""
        unreadable = 0
        for number, line in numbered_lines(file, most=MAX_LINE):
            place = f"{name}line {number}"
            for item in _tried(self._read(line, place), place):
                unreadable = unreadable + 1 if isinstance(item, Unreadable) else 0
                if unreadable < MAX_UNREADABLE:
                    yield item
                    continue
                why = f"cannot be read, nor can the {unreadable - 1:,} before"
                yield Unreadable(item.place, f"{why}: what follows is not read", is_end=True)
                break
            if unreadable >= MAX_UNREADABLE:
                break
            yield from self._released(MAX_WAITING, MAX_WAITING_BYTES)
        yield from self._released(0, 0)

    def _read(self, line: bytes | BadLine, place: str) -> Iterator[Arrival | Unreadable]:
        """Read a line; raises one of `_ODD` where it is neither a row nor a request."""
        if isinstance(line, BadLine):
            yield Unreadable(place, line.why, line.is_end)
            return
        value = _parsed(line)
        if not isinstance(value, dict):
            raise UnreadableError("is no object of JSON")
        if "trace_id" in value and "span_id" in value:
            yield self._row(value, place)
        elif any(name.startswith("resource") for name in value):
            yield from self._request(value, place, len(line))
        else:
            raise UnreadableError("is not a span of `llmeval export` or a request of OTLP")

    def _request(
        self, request: Mapping[str, Any], place: str, length: int
    ) -> Iterator[Arrival | Unreadable]:
        """Read a request of OTLP; one record that is odd does not spoil the others."""
        spans = list(scoped(request, "Spans", "spans"))
        for number, (scope, record) in enumerate(spans, 1):
            where = f"{place}, span {number}"
            yield from _tried(self._span(record, scope, where, length // len(spans)), where)
        for number, (_, record) in enumerate(scoped(request, "Logs", "logRecords"), 1):
            where = f"{place}, log record {number}"
            yield from _tried(self._record(record, where), where)
        if request.get("resourceMetrics") or request.get("resource_metrics"):
            self.others["request of metrics"] += 1

    def _row(self, row: Mapping[str, Any], place: str) -> Arrival:
        """Read a row of ``llmeval export``."""
        own = row.get(OWN) or {}
        fields = {name: value for name, value in {**row, **own}.items() if value is not None}
        fields["expected"] = _truth({name: fields[name] for name in TRUTH if name in fields})
        fields.setdefault("parent_id", None)
        span = _checked_span(built(SpanData, fields))
        target = Target(span.trace_id, span.span_id, span.name, span.kind)
        unknown = row.keys() - _ROW_FIELDS
        events = []
        for name in EVENTS:
            for plain in fields.get(name, ()):
                event = _event(plain, target, is_judge=name != "not_run")
                about = event.target
                if about.span_id != span.span_id or about.trace_id not in (None, span.trace_id):
                    raise UnreadableError(f"has an entry of {name} that is about another span")
                events.append(event)
                unknown |= plain.keys() - _EVENT_FIELDS
        for name in unknown:
            if name in self.unknown or len(self.unknown) < MAX_NAMES:
                self.unknown[name[:100]] += 1
        return arrival(place, span, events)

    def _span(
        self, record: Any, scope: str, place: str, size: int
    ) -> Iterator[Arrival | Unreadable]:
        """Read a span of OTLP; another library's waits for the rest of its trace."""
        span = span_of(record, scope)
        if is_ours(span.attributes):
            yield arrival(place, _checked_span(own_span(span)))
            return
        _check_ids(span.trace_id, span.id, span.parent)
        data = foreign(span)
        if isinstance(data, tuple):
            self.others["span that speaks of no model"] += 1
        self._traces.setdefault(span.trace_id, []).append(_Waiting(place, data, size))
        self._waiting += 1
        self._waiting_bytes += size

    def _record(self, record: Any, place: str) -> Iterator[Arrival | Unreadable]:
        event = own_event(record)
        if event is None:
            self.others["log record that is no evaluation"] += 1
            return
        target = event.target
        if target.trace_id is not None or target.span_id is not None:
            _check_ids(target.trace_id, target.span_id)
        _check_time("timeUnixNano", event.timestamp_ns)
        yield arrival(place, None, (checked(event),))

    def _released(self, most: int, most_bytes: int) -> Iterator[Arrival | Unreadable]:
        """Yield the spans of the traces that began first, until no more than so many wait."""
        while self._waiting > most or self._waiting_bytes > most_bytes:
            items = self._traces.pop(next(iter(self._traces)))
            self._waiting -= len(items)
            self._waiting_bytes -= sum(item.size for item in items)
            yield from _trace(items)


def _tried(items: Iterator[Arrival | Unreadable], place: str) -> Iterator[Arrival | Unreadable]:
    """Pass on what is read, and say what went wrong."""
    try:
        yield from items
    except _ODD as error:
        yield Unreadable(place, _said(error))


def _trace(items: list[_Waiting]) -> Iterator[Arrival | Unreadable]:
    """Read one trace: what has no span above it that was kept is a request."""
    places = {item.span.span_id: item.place for item in items if isinstance(item.span, SpanData)}
    spans = {span.span_id: span for span in hung(item.span for item in items)}
    above = {
        key: span.parent_id if span.parent_id in spans else None for key, span in spans.items()
    }
    for top_id, keys in families(above).items():
        family = [spans[key] for key in keys]
        for span in family:
            try:
                if span.span_id == top_id:
                    span = replace(span, outside_parent=span.parent_id is not None)  # noqa: PLW2901
                    if span.kind in OWNERS:
                        span = answered(naming_its_model(span, family), family)  # noqa: PLW2901
                data = _checked_span(span_data(adopted(span)))  # as capturing leaves it
                yield arrival(places[span.span_id], data)
            except _ODD as error:
                yield Unreadable(places[span.span_id], _said(error))


def _parsed(line: bytes) -> Any:
    brackets = line.count(b"[") + line.count(b"{")
    if brackets + line.count(b",") > MAX_VALUES:
        raise UnreadableError(f"holds more than {MAX_VALUES:,} values")
    value = read_json(line)
    if brackets > MAX_DEPTH:
        check_size(value)
    return value


def _said(error: Exception) -> str:
    """Say in a sentence without its subject what is wrong with a line."""
    if isinstance(error, (UnreadableError, ConfigurationError)) or type(error) is ValueError:
        return str(error)[:300]
    return f"holds what does not belong there ({type(error).__name__}: {error})"[:300]


def _checked_span(span: SpanData) -> SpanData:
    """Return a span if it can be stored; raises `UnreadableError`."""
    checked(span)
    _check_ids(span.trace_id, span.span_id, span.parent_id)
    _check_time("start_ns", span.start_ns)
    _check_time("end_ns", span.end_ns)
    return span


def _check_ids(trace_id: str | None, span_id: str | None, parent_id: str | None = None) -> None:
    if not _TRACE_ID.fullmatch(trace_id or ""):
        raise UnreadableError(f"has the trace id {trace_id!r:.60}, not 32 hexadecimal characters")
    for name, text in (("span id", span_id or ""), ("parent id", parent_id)):
        if text is not None and not _SPAN_ID.fullmatch(text):
            raise UnreadableError(f"has the {name} {text!r:.60}, not 16 hexadecimal characters")


def _check_time(name: str, time_ns: object) -> None:
    if type(time_ns) is not int or not 0 <= time_ns < _END_OF_TIME:
        raise UnreadableError(f"{name} is no time: {str(time_ns)[:40]}")


_ROW_FIELDS = known_fields(SpanData) | {"request_id", "start_time", OWN, *TRUTH, *ADDED, *EVENTS}
_EVENT_FIELDS = (
    known_fields(Evaluation) | known_fields(EvaluationEvent) | known_fields(NotRun)
) - {"evaluation"}


def _event(plain: Any, usual: Target, *, is_judge: bool) -> EvaluationEvent | NotRun:
    """Read what a row says of its span, or of the target that it names."""
    event_id, at = plain.get("id"), plain.get("timestamp_ns")
    if type(event_id) is not str or not 0 < len(event_id) <= MAX_TEXT:
        raise UnreadableError(f"has an evaluation with the id {event_id!r:.40}")
    _check_time("timestamp_ns", at)
    target = checked(built(Target, plain["target"])) if "target" in plain else usual
    if not is_judge:
        return checked(
            replace(built(NotRun, {"detail": "", **plain, "target": None}), target=target)
        )
    if type(plain.get("value")) is int:
        plain = {**plain, "value": float(plain["value"])}
    return EvaluationEvent(event_id, target, checked(built(Evaluation, plain)), at)


def _truth(truth: dict[str, Any]) -> dict[str, Any]:
    """Read what a span expects, as `SpanData` has it."""
    trajectory = {name: truth.pop(name) for name in ("expected_trajectory",) if name in truth}
    record = checked(built(Record, {"request_id": "-", **truth}))
    return {name: getattr(record, name) for name in truth} | trajectory
