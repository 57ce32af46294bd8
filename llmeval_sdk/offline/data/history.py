"""Reads history from files: what ``llmeval export`` wrote, and the OTLP of any app.

A file is read one line at a time, and what cannot be read is yielded with its place and the reason.
Rows of ours become what the store held when they were exported. Spans of other libraries are read
by the rules of `llmeval_sdk.tracing.foreign`, one trace at a time: the topmost of those that speak
of models has the question and the answer of its run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from llmeval_sdk.errors import ConfigurationError, missing_extra
from llmeval_sdk.exporters.otlp.reading import (
    OtlpSpan,
    is_ours,
    own_event,
    own_span,
    scoped,
    span_of,
)
from llmeval_sdk.model import (
    Chunk,
    Evaluation,
    EvaluationEvent,
    NotRun,
    SpanData,
    Target,
)
from llmeval_sdk.model.plain import MAX_TEXT, UnreadableError, built, checked, known_fields
from llmeval_sdk.model.records import OWNERS
from llmeval_sdk.offline.data.exported import (
    ADDED,
    EVENTS,
    OWN,
    TRUTH,
    USAGE,
    VALUES,
    read_cell,
)
from llmeval_sdk.offline.data.source import MAX_DEPTH, check_size, read_json
from llmeval_sdk.offline.data.spans import hung
from llmeval_sdk.process.reading import BadLine, numbered_lines
from llmeval_sdk.process.workers import mapped
from llmeval_sdk.store.history import Arrival, arrival
from llmeval_sdk.tracing.foreign.reading import (
    ForeignSpan,
    answered,
    finished,
    naming_its_model,
)
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
CHUNK = 4 << 20
"""Bytes of the lines that a process reads at a time; and of how many lines."""
CHUNK_LINES = 2_000
_ROWS = 1_000

JSONL, OTLP, PARQUET = "jsonl", "otlp", "parquet"
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


class HistoryReader:
    """Turns the lines of files into arrivals, and counts what is no history of ours.

    Args:
        form: ``jsonl`` or ``otlp`` if all lines have to be of this form.
    """

    def __init__(self, form: str | None = None) -> None:
        self._form = form
        self.unknown: Counter[str] = Counter()
        """In how many places fields stand that this release does not know, by name."""
        self.others: Counter[str] = Counter()
        """Records of OTLP that are nothing for a store, by what they are."""

    def lines(self, file: BinaryIO, name: str = "") -> Iterator[Arrival | Unreadable]:
        """Read lines. ``name`` of the file begins each place."""
        waiting, unreadable = _Waiting(), 0
        read = partial(_read_chunk, form=self._form, name=name)
        with closing(mapped(read, _chunks(file))) as parts:
            for part in parts:
                self.others += part.others
                for field, count in part.unknown.items():
                    if field in self.unknown or len(self.unknown) < MAX_NAMES:
                        self.unknown[field] += count
                for item in part.items:
                    unreadable = unreadable + 1 if isinstance(item, Unreadable) else 0
                    if isinstance(item, _Foreign):
                        waiting.add(item)
                    elif unreadable < MAX_UNREADABLE:
                        yield item
                    else:
                        why = f"cannot be read, nor can the {unreadable - 1:,} before"
                        yield Unreadable(item.place, f"{why}: what follows is not read", True)
                        break
                yield from waiting.released(MAX_WAITING, MAX_WAITING_BYTES)
                if unreadable >= MAX_UNREADABLE:
                    break
        yield from waiting.released(0, 0)

    def parquet(self, path: Path, name: str = "") -> Iterator[Arrival | Unreadable]:
        """Read the rows of a Parquet file."""
        part = _Part([], self.unknown, self.others)
        for number, cells in enumerate(_cells(path), 1):
            place = f"{name}row {number}"
            try:
                yield part.row(_row_of_cells(cells), place, is_whole=False)
            except _ODD as error:
                yield Unreadable(place, _said(error))


_Line = tuple[int, "bytes | BadLine"]
"""A line with its number."""


def _chunks(file: BinaryIO) -> Iterator[list[_Line]]:
    """Yield the lines of a file, about four megabytes at a time."""
    chunk: list[_Line] = []
    size = 0
    for number, line in numbered_lines(file, most=MAX_LINE):
        chunk.append((number, line))
        size += len(line)
        if size > CHUNK or len(chunk) >= CHUNK_LINES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _read_chunk(lines: list[_Line], *, form: str | None, name: str) -> _Part:
    part = _Part([], Counter(), Counter())
    for number, line in lines:
        place = f"{name}line {number}"
        if isinstance(line, BadLine):
            part.items.append(Unreadable(place, line.why, line.is_end))
            continue
        before = len(part.items)
        try:
            part.line(_parsed(line), place, form)
        except _ODD as error:
            part.items.append(Unreadable(place, _said(error)))
        part.weigh(before, len(line))
    return part


class _Foreign(NamedTuple):
    """A span of another library, which waits for the rest of its trace."""

    trace_id: str
    place: str
    span: SpanData | _Left
    size: int = 0
    """Its share of the bytes of its line."""


@dataclass(slots=True)
class _Part:
    """What some lines say."""

    items: list[Arrival | Unreadable | _Foreign]
    unknown: Counter[str]
    others: Counter[str]

    def line(self, value: Any, place: str, wanted: str | None) -> None:
        """Read one line, which was JSON."""
        if not isinstance(value, dict):
            raise UnreadableError("is no object of JSON")
        form = _form_of(value)
        if form is None or wanted not in (None, form):
            forms = {JSONL: "a span of `llmeval export`", OTLP: "a request of OTLP"}
            expected = forms.get(wanted or "", " or ".join(forms.values()))
            raise UnreadableError(f"is not {expected}")
        if form == JSONL:
            self.items.append(self.row(value, place, is_whole=True))
            return
        self._each(scoped(value, "Spans", "spans"), self._span, f"{place}, span")
        records = scoped(value, "Logs", "logRecords")
        self._each(records, self._record, f"{place}, log record")
        if value.get("resourceMetrics") or value.get("resource_metrics"):
            self.others["request of metrics"] += 1

    def weigh(self, first: int, size: int) -> None:
        """Divide the bytes of a line among what came in it, from the ``first`` item on."""
        share = size // max(1, len(self.items) - first)
        for place in range(first, len(self.items)):
            item = self.items[place]
            if isinstance(item, _Foreign):
                self.items[place] = item._replace(size=share)

    def _each(
        self,
        records: Iterable[tuple[str, Any]],
        read: Callable[[Any, str, str], Arrival | _Foreign | None],
        what: str,
    ) -> None:
        """Read the records of a request; one that is odd does not spoil the others."""
        for number, (scope, record) in enumerate(records, 1):
            place = f"{what} {number}"
            try:
                item = read(record, scope, place)
            except _ODD as error:
                self.items.append(Unreadable(place, _said(error)))
                continue
            if item is not None:
                self.items.append(item)

    def row(self, row: Mapping[str, Any], place: str, *, is_whole: bool) -> Arrival:
        """Read a row of ``llmeval export``."""
        own = row.get(OWN) or {}
        fields = {name: value for name, value in {**row, **own}.items() if value is not None}
        truth = {name: fields[name] for name in TRUTH if name in fields}
        fields["expected"] = _truth(truth) if truth else {}
        fields.setdefault("parent_id", None)
        span = _checked_span(built(SpanData, fields))
        target = Target(span.trace_id, span.span_id, span.name, span.kind)
        events: list[EvaluationEvent | NotRun] = []
        for name in EVENTS:
            read = _not_run if name == "not_run" else _evaluation
            for plain in fields.get(name, ()):
                event = read(plain, target)
                about = event.target
                if about is not target and (
                    about.span_id != span.span_id or about.trace_id not in (None, span.trace_id)
                ):
                    raise UnreadableError(f"has an entry of {name} that is about another span")
                events.append(event)
                if not plain.keys() <= _EVENT_FIELDS:
                    self._note_unknown(plain.keys() - _EVENT_FIELDS)
        if not row.keys() <= _ROW_FIELDS:
            self._note_unknown(row.keys() - _ROW_FIELDS)
        return arrival(place, span, events, is_whole=is_whole)

    def _note_unknown(self, names: Iterable[str]) -> None:
        for name in names:
            if name in self.unknown or len(self.unknown) < MAX_NAMES:
                self.unknown[name[:100]] += 1

    def _span(self, record: Any, scope: str, place: str) -> Arrival | _Foreign:
        span = span_of(record, scope)
        if is_ours(span.attributes):
            return arrival(place, _checked_span(own_span(span)), is_whole=False)
        _check_ids(span.trace_id, span.id, span.parent)
        data = _read_foreign(span)
        if isinstance(data, tuple):
            self.others["span that speaks of no model"] += 1
        return _Foreign(span.trace_id, place, data)

    def _record(self, record: Any, _scope: str, place: str) -> Arrival | None:
        event = own_event(record)
        if event is None:
            self.others["log record that is no evaluation"] += 1
            return None
        target = event.target
        if target.trace_id is not None or target.span_id is not None:
            _check_ids(target.trace_id, target.span_id)
        _check_time("timeUnixNano", event.timestamp_ns)
        return arrival(place, None, (checked(event),), is_whole=False)


def _parsed(line: bytes) -> Any:
    brackets = line.count(b"[") + line.count(b"{")
    if brackets + line.count(b",") > MAX_VALUES:
        raise UnreadableError(f"holds more than {MAX_VALUES:,} values")
    value = read_json(line)
    if brackets > MAX_DEPTH:
        check_size(value)
    return value


def _form_of(value: Mapping[str, Any]) -> str | None:
    if "trace_id" in value and "span_id" in value:
        return JSONL
    return OTLP if any(name.startswith("resource") for name in value) else None


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


def _check_time(name: str, time_ns: int) -> None:
    if not 0 <= time_ns < _END_OF_TIME:
        raise UnreadableError(f"{name} is no time: {str(time_ns)[:40]}")


_SPAN_FIELDS = known_fields(SpanData) - {"expected"}
_ROW_FIELDS = _SPAN_FIELDS | {"request_id", "start_time", OWN, *TRUTH, *ADDED, *EVENTS}
_EVENT_FIELDS = (
    known_fields(Evaluation) | known_fields(EvaluationEvent) | known_fields(NotRun)
) - {"evaluation"}


def _evaluation(plain: Any, target: Target) -> EvaluationEvent:
    value = plain.get("value")
    if type(value) is int:
        plain = {**plain, "value": float(value)}
    evaluation = checked(built(Evaluation, plain))
    event_id, at = _identity(plain)
    return EvaluationEvent(event_id, _target(plain, target), evaluation, at)


def _not_run(plain: Any, target: Target) -> NotRun:
    event = built(NotRun, {"detail": "", **plain, "target": None})
    _identity(plain)
    return checked(replace(event, target=_target(plain, target)))


def _target(plain: Any, usual: Target) -> Target:
    """Return what an event is about: the span of its row, unless it says more."""
    return checked(built(Target, plain["target"])) if "target" in plain else usual


def _identity(plain: Any) -> tuple[str, int]:
    """Return the id and the time of an event; raises `UnreadableError` where it has none."""
    event_id, at = plain.get("id"), plain.get("timestamp_ns")
    if type(event_id) is not str or not 0 < len(event_id) <= MAX_TEXT:
        raise UnreadableError(f"has an evaluation with the id {event_id!r:.40}")
    if type(at) is not int:
        raise UnreadableError("has an evaluation without a time")
    _check_time("timestamp_ns", at)
    return event_id, at


def _truth(truth: dict[str, Any]) -> dict[str, Any]:
    """Read what a span expects, as `SpanData` has it."""
    for name, kinds in (
        ("expected_facts", list), ("expected_retrieved_context", list),
        ("expected_response", str), ("abstained", str),
    ):  # fmt: skip
        if name in truth and not isinstance(truth[name], kinds):
            raise UnreadableError(f"{name} is no {'list' if kinds is list else 'text'}")
    if "expected_facts" in truth:
        truth["expected_facts"] = tuple(map(str, truth["expected_facts"]))
    if "expected_retrieved_context" in truth:
        chunks = (built(Chunk, chunk) for chunk in truth["expected_retrieved_context"])
        truth["expected_retrieved_context"] = tuple(map(checked, chunks))
    return truth


# -- Parquet --------------------------------------------------------------------------------------


def _cells(path: Path) -> Iterator[dict[str, Any]]:
    try:
        import pyarrow as pa
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise missing_extra("reading Parquet", "pandas", "pyarrow") from None
    try:
        with ParquetFile(path) as file:
            for batch in file.iter_batches(_ROWS):
                table = pa.Table.from_batches([batch])
                if "start_time" in table.column_names:  # datetime has no nanoseconds
                    place = table.column_names.index("start_time")
                    times = table["start_time"].cast(pa.timestamp("ns", tz="UTC")).cast(pa.int64())
                    table = table.set_column(place, "start_time", times)
                yield from table.to_pylist()
    except pa.ArrowException as error:
        raise ConfigurationError(
            f"{path} is not a Parquet file that can be read: {error}"
        ) from None


def rows_in(path: Path) -> int:
    """Return how many rows a Parquet file has; 0 where it cannot be read."""
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import read_metadata
    except ImportError:
        raise missing_extra("reading Parquet", "pandas", "pyarrow") from None
    try:
        return int(read_metadata(path).num_rows)
    except ArrowException:
        return 0


_JSON_CELLS = (
    "links", "tags", "metrics", "attributes", "prompt", "expected", "extractions",
    "retrieved_context", "field_config", "retrieval", *EVENTS, OWN,
)  # fmt: skip
_ADDED_CELLS = ("score_", "probability_")
"""How the columns begin that say once more what is among the evaluations."""


def _row_of_cells(cells: dict[str, Any]) -> dict[str, Any]:
    """Turn a row of Parquet into one of JSON lines."""
    row = {
        name: value
        for name, value in cells.items()
        if value is not None and not name.startswith(_ADDED_CELLS)
    }
    for name in ("request", "response", *VALUES):
        if name in row:
            row[name] = read_cell(row[name]) if name in VALUES else _structured(row[name])
    for name in _JSON_CELLS:
        if name in row:
            row[name] = _parsed(row[name].encode("utf-8", "replace"))
    start = row.pop("start_time")
    row["start_ns"] = start
    row["end_ns"] = start + round(row.pop("duration_seconds", 0) * 1e9)
    error, message = row.pop("error_type", None), row.pop("error_message", "")
    if error is not None:
        row["error"] = {"type": error, "message": message}
    usage = {name: row.pop(name) for name in (*USAGE, "cost_usd") if name in row}
    if usage:
        row["usage"] = usage
    truth = row.pop("expected", {})
    return {**row, **truth}


def _structured(text: Any) -> Any:
    """Read a request or response: a text stays one, unless it holds a list or a mapping."""
    if isinstance(text, str) and text[:1] in ("{", "["):
        try:
            return _parsed(text.encode("utf-8", "replace"))
        except ValueError:
            return text
    return text


# -- spans of other libraries ---------------------------------------------------------------------

_Left = tuple[str, "str | None"]
"""The id of a span that speaks of no model, and its parent's."""


def _read_foreign(span: OtlpSpan) -> SpanData | _Left:
    data = finished(
        span,
        trace_id=span.trace_id,
        span_id=span.id,
        parent_id=span.parent,
        name=span.name,
        times=(span.start_ns, span.end_ns),
    )
    return (span.id, span.parent) if data is None else data


class _Waiting:
    """Holds spans until their trace is complete: what is above a span mostly comes after it."""

    def __init__(self) -> None:
        self._traces: dict[str, list[_Foreign]] = {}
        self._count = self._size = 0

    def add(self, item: _Foreign) -> None:
        """Hold a span."""
        self._traces.setdefault(item.trace_id, []).append(item)
        self._count += 1
        self._size += item.size

    def released(self, most: int, most_bytes: int) -> Iterator[Arrival | Unreadable]:
        """Yield the spans of the traces that began first, until no more than so many wait."""
        while self._count > most or self._size > most_bytes:
            items = self._traces.pop(next(iter(self._traces)))
            self._count -= len(items)
            self._size -= sum(item.size for item in items)
            yield from _trace(items)


def _trace(items: list[_Foreign]) -> Iterator[Arrival | Unreadable]:
    """Read one trace: what has no span above it that was kept is a request."""
    places = {item.span.span_id: item.place for item in items if isinstance(item.span, SpanData)}
    spans = hung(item.span for item in items)
    parents = {span.span_id: span.parent_id for span in spans}
    families: dict[str, list[Any]] = {}
    tops: dict[str, str] = {}
    for span in spans:
        families.setdefault(_topmost(span.span_id, parents, tops), []).append(span)
    for top_id, family in families.items():
        for span in family:
            place = places[span.span_id]
            try:
                yield arrival(place, _adopted(span, top_id, family), is_whole=False)
            except _ODD as error:
                yield Unreadable(place, _said(error))


def _adopted(span: ForeignSpan, top_id: str, family: list[ForeignSpan]) -> SpanData:
    """Return a span as capturing leaves it, the topmost with what its run was asked and said."""
    if span.span_id == top_id:
        span = replace(span, outside_parent=span.parent_id is not None)
        if span.kind in OWNERS:
            span = answered(naming_its_model(span, family), family)
    return _checked_span(span_data(adopted(span)))


def _topmost(span_id: str, parents: Mapping[str, str | None], tops: dict[str, str]) -> str:
    """Return the topmost span above one. ``tops`` has those that are known, and gets the new."""
    path: list[str] = []
    here, seen = span_id, {span_id}
    while here not in tops:
        path.append(here)
        above = parents[here]
        if above is None or above not in parents or above in seen:  # they may hang in a circle
            break
        seen.add(above)
        here = above
    top = tops.get(here, here)
    tops.update(dict.fromkeys(path, top))
    return top
