"""``llmeval export``: what a store holds, for other tools."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from llmeval_sdk import config
from llmeval_sdk.cli import Commands
from llmeval_sdk.cli.options import Help, add_filter, add_store, open_store
from llmeval_sdk.cli.output import tracked
from llmeval_sdk.errors import ConfigurationError, missing_extra
from llmeval_sdk.model import EvaluationEvent, values
from llmeval_sdk.model.span_fields import STORED_FIELDS, Form
from llmeval_sdk.process.distribution import release
from llmeval_sdk.process.escaping import escaped
from llmeval_sdk.store import dump, encode
from llmeval_sdk.store.dump import StoredSpan
from llmeval_sdk.store.reader import decided_names, known_names


if TYPE_CHECKING:
    from llmeval_sdk.offline.data.exported import Whole


_T = TypeVar("_T")

# What ``llmeval export`` writes: JSON lines, Parquet, OTLP.

PART = 1_000
"""Spans in one row group of Parquet, and in one request of OTLP."""

MAX_REQUEST = 4_000_000
"""Characters of one request of OTLP with several records: receivers refuse larger ones."""

_PLAIN = tuple(field.name for field in STORED_FIELDS if field.form is Form.TEXT)
_JSON = (Form.VALUE, Form.MAPPING, Form.LINKS, Form.PROMPT, Form.EXPECTED, Form.EXTRACTIONS,
         Form.CHUNKS)  # fmt: skip
_NESTED = tuple(field.name for field in STORED_FIELDS if field.form in _JSON)


def _jsonl_lines(spans: Iterable[StoredSpan], whole: Whole) -> Iterator[str]:
    """Yield a line per span: the fields of `SpanData`, its evaluations, refusals and feedback."""
    from llmeval_sdk.offline.data.exported import row_of

    for span in spans:
        yield f"{encode.dumps(row_of(span, whole))}\n"


def _otlp_lines(spans: Iterable[StoredSpan]) -> Iterator[str]:
    """Yield requests of OTLP, a line each: spans, then the evaluations of those spans."""
    from llmeval_sdk.exporters.otlp.attributes import part_events
    from llmeval_sdk.exporters.otlp.wire import logs_line, resource, traces_line

    settings = config.from_environment(problems=[])
    about, version = resource(settings), release()
    for part in _parts(spans):
        data = [dumped.span for dumped in part]
        yield from _requests(data, lambda some: traces_line(some, about, version, named=True))
        events = [event for dumped in part for event in _traced(dumped)]
        events += part_events(events, fields=settings.export_fields)
        yield from _requests(events, lambda some: logs_line(some, about, version, named=True))


def _traced(dumped: StoredSpan) -> Iterator[EvaluationEvent]:
    """Yield the evaluations of a span with the id of its trace, which they need on the wire."""
    for event in (*dumped.evaluations, *dumped.feedback):
        if event.target.trace_id is None:
            target = replace(event.target, trace_id=dumped.span.trace_id)
            yield replace(event, target=target)
        else:
            yield event


def _requests(records: list[_T], write: Callable[[list[_T]], str]) -> Iterator[str]:
    """Yield as many lines as it takes to keep each below `MAX_REQUEST` characters."""
    if not records:
        return
    line = write(records)
    if len(line) <= MAX_REQUEST or len(records) == 1:
        yield f"{line}\n"
        return
    half = len(records) // 2
    yield from _requests(records[:half], write)
    yield from _requests(records[half:], write)


def write_parquet(
    spans: Iterable[StoredSpan],
    to: Path,
    whole: Whole,
    evaluators: Sequence[str],
    *,
    decided: Sequence[str] = (),
) -> None:
    """Write a row per span; each evaluator's number is a column, what is nested is JSON text.

    ``score_<evaluator>`` holds scores, and 1 or 0 for pass or fail and yes or no; nothing where the
    evaluator gave another word, failed or did not run. ``probability_<evaluator>`` says of those
    that a decision model ``decided`` how probably they are good.
    """
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise missing_extra("Parquet", "pandas", "pyarrow") from None
    from llmeval_sdk.offline.data.exported import ADDED, EVENTS, OWN, USAGE

    columns: dict[str, Any] = {
        **dict.fromkeys(_PLAIN, pa.string()),
        "start_time": pa.timestamp("ns", tz="UTC"),
        "duration_seconds": pa.float64(),
        "trace_flags": pa.int64(),
        "outside_parent": pa.bool_(),
        "inclusion_probability": pa.float64(),
        "error_type": pa.string(),
        "error_message": pa.string(),
        **dict.fromkeys(USAGE, pa.int64()),
        "cost_usd": pa.float64(),
        **dict.fromkeys((*_NESTED, *EVENTS, *ADDED, OWN), pa.string()),
        **{f"score_{name}": pa.float64() for name in evaluators},
        **{f"probability_{name}": pa.float64() for name in decided},
    }
    schema = pa.schema(list(columns.items()))
    with parquet.ParquetWriter(to, schema) as writer:
        for part in _parts(spans):
            table = pa.Table.from_pylist([_flat(dumped, whole) for dumped in part], schema)
            writer.write_table(table)


def _flat(dumped: StoredSpan, whole: Whole) -> dict[str, Any]:
    """Return the row of a span as cells of a table: what is nested is JSON text."""
    from llmeval_sdk.offline.data.exported import ADDED, EVENTS, OWN, TRUTH, USAGE, row_of

    span, row = dumped.span, row_of(dumped, whole)
    expected = {name: row.pop(name) for name in TRUTH if name in row}
    if expected:
        row["expected"] = expected
    columns: dict[str, Any] = {name: row.get(name) for name in _PLAIN}
    columns |= {
        name: _cell(name, row[name]) for name in (*_NESTED, *ADDED, OWN, *EVENTS) if name in row
    }
    columns |= {
        "start_time": span.start_ns,
        "duration_seconds": (span.end_ns - span.start_ns) / 1e9,
        "trace_flags": span.trace_flags,
        "outside_parent": span.outside_parent,
        "inclusion_probability": span.inclusion_probability,
    }
    if span.error is not None:
        columns |= {"error_type": span.error.type, "error_message": span.error.message}
    if span.usage is not None:
        columns |= {name: getattr(span.usage, name) for name in (*USAGE, "cost_usd")}
    for event in dumped.evaluations:
        evaluation = event.evaluation
        columns[f"score_{evaluation.name}"] = values.number(evaluation.value)
        if evaluation.probability is not None:
            columns[f"probability_{evaluation.name}"] = evaluation.probability
    return columns


def _cell(name: str, value: Any) -> str | None:
    from llmeval_sdk.offline.data.exported import VALUES, cell

    if name in VALUES:
        return cell(value)
    return value if isinstance(value, str) else encode.dumps(value)


def _parts(spans: Iterable[StoredSpan]) -> Iterator[list[StoredSpan]]:
    rest = iter(spans)
    while part := list(islice(rest, PART)):
        yield part


FORMATS = ("jsonl", "parquet", "otlp")

_EPILOG = """\
example:
  llmeval export --since 24h --out day.jsonl
  llmeval export --format parquet --span-name answer --out answers.parquet
  llmeval export --format otlp | gzip > traces.otlp.jsonl.gz

jsonl    one span per line, with the lists `evaluations`, `not_run` and `feedback`
parquet  one span per row; each evaluator's number is in a column `score_NAME`, and
         nested values are JSON text (pip install 'llmeval-inprocess[pandas]')
otlp     OTLP JSON, one request per line: spans, then their evaluations as log
         records, as the `otlpjsonfile` receiver of a collector reads them

In JSON lines and Parquet, a workflow or agent span has the chunks and extractions of the
spans below it and their `total_usage`, so that `llmeval evaluate day.jsonl` sees what the
evaluators saw live; what it holds itself there is in `own`. Each of the other spans names
in `within` the span it belongs to. `llmeval import` reads JSON lines and OTLP.

Spans are written in the order in which they reached the store, with all their scores and
feedback. Texts are those of the store: if the app redacts, they are redacted.
"""


def add(subparsers: Commands) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "export",
        help="write spans with their scores as JSON lines, Parquet or OTLP",
        description="Write the spans of a store, with all their scores and feedback.",
        epilog=_EPILOG,
        formatter_class=Help,
    )
    add_store(parser)
    parser.add_argument(
        "--format", choices=FORMATS, help="default: parquet if --out ends so, else jsonl"
    )
    parser.add_argument(
        "--out", metavar="FILE", type=Path, help="the file to write (default: standard output)"
    )
    add_filter(parser, "spans")
    parser.add_argument("--span-name", metavar="NAME", help="only spans with this name")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the file."""
    from llmeval_sdk.offline.data.exported import Whole

    form = args.format or _form_of(args.out)
    if form == "parquet" and args.out is None:
        raise ConfigurationError("Parquet cannot be written to standard output: pass --out FILE")
    wanted = dump.DumpScope(args.since, args.until, args.span_name)
    with open_store(args.store, args.where) as reader:
        spans = tracked(
            dump.dump(reader, wanted), total=dump.count(reader, wanted), what="exporting"
        )
        whole = Whole(reader, wanted)
        if form == "parquet":
            evaluators = reader.read(known_names).evaluators
            write_parquet(spans, args.out, whole, evaluators, decided=reader.read(decided_names))
            return 0
        lines = _otlp_lines(spans) if form == "otlp" else _jsonl_lines(spans, whole)
        if args.out is None:
            if isinstance(sys.stdout, TextIOWrapper):  # JSON is UTF-8, whatever the country's is
                sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
            sys.stdout.writelines(map(escaped, lines))
        else:
            with args.out.open("w", encoding="utf-8", errors="backslashreplace") as to:
                to.writelines(lines)
    return 0


def _form_of(out: Path | None) -> str:
    return "parquet" if out is not None and out.suffix == ".parquet" else "jsonl"
