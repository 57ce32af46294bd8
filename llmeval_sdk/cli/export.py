"""``llmeval export``: what a store holds, for other tools."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from llmeval_sdk._escaping import escaped
from llmeval_sdk.cli._formats import jsonl_lines, otlp_lines, write_parquet
from llmeval_sdk.cli._options import Help, add_store, open_store, since
from llmeval_sdk.cli._output import tracked
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.store import dump, views


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
evaluators saw live. Each of the other spans names in `within` the span it belongs to.

Spans are written in the order in which they reached the store, with all their scores and
feedback. Texts are those of the store: if the app redacts, they are redacted.
"""


def add(subparsers: Any) -> None:
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
    parser.add_argument(
        "--since",
        type=since,
        metavar="TIME",
        help="only spans from this time on: 90m, 24h, 7d or an ISO date",
    )
    parser.add_argument(
        "--until", type=since, metavar="TIME", help="only spans that began before this time"
    )
    parser.add_argument("--span-name", metavar="NAME", help="only spans with this name")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the file."""
    from llmeval_sdk.offline.data.exported import Whole

    form = args.format or _form_of(args.out)
    if form == "parquet" and args.out is None:
        raise ConfigurationError("Parquet cannot be written to standard output: pass --out FILE")
    wanted = dump.Selection(args.since, args.until, args.span_name)
    with open_store(args.store) as reader:
        spans = tracked(
            dump.dump(reader, wanted), total=dump.count(reader, wanted), what="exporting"
        )
        whole = Whole(reader, wanted)
        if form == "parquet":
            evaluators = reader.read(views.known_names).evaluators
            write_parquet(
                spans, args.out, whole, evaluators, decided=reader.read(views.decided_names)
            )
            return 0
        lines = otlp_lines(spans) if form == "otlp" else jsonl_lines(spans, whole)
        if args.out is None:
            sys.stdout.writelines(map(escaped, lines))
        else:
            with args.out.open("w", encoding="utf-8", errors="backslashreplace") as to:
                to.writelines(lines)
    return 0


def _form_of(out: Path | None) -> str:
    return "parquet" if out is not None and out.suffix == ".parquet" else "jsonl"
