"""``llmeval dataset``: requests of the store become rows of a golden set, with expected answers."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmeval_sdk.cli import Commands
from llmeval_sdk.cli.options import Help, add_json, add_store, add_where, open_store
from llmeval_sdk.cli.output import say, say_json, say_wrapped, table
from llmeval_sdk.errors import ConfigurationError, DataError
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.span_lists import Query, listed_spans, unscored_sentence, worst_spans
from llmeval_sdk.text.terminal import printable


if TYPE_CHECKING:  # `llmeval --help` loads no event loop
    from llmeval_sdk.offline import GoldenSet

MAX_ADDED = 1_000
"""The most requests that ``--where`` adds at once: the newest ones."""
_EPILOG = """\
examples:
  llmeval traces --worst groundedness
  llmeval dataset add answers 4bf92f35 00f067aa
  llmeval dataset add answers --last --expected "The roof is of slate."
  llmeval dataset set answers 4bf92f35 --document survey.pdf
  llmeval evaluate --dataset answers --evaluators exact_match,document_recall

Each change writes the next version of the set, NAME/v0001.jsonl and so on: files of JSON
lines with the columns that `llmeval evaluate` reads, which never change again. The newest
counts; NAME@2 is version 2. With --folder, a team keeps its sets in its repository. Rows
are copies: they stay when the store forgets the trace. What the app redacts, they lack.
"""


def add(subparsers: Commands) -> None:
    """Add ``llmeval dataset`` and its options to the command line."""
    parser = subparsers.add_parser(
        "dataset",
        help="keep requests with their expected answers as a golden set",
        description="Keep requests of the store, with the answers that are expected of them, as a "
        "named and versioned golden set, which `llmeval evaluate --dataset NAME` evaluates.",
        epilog=_EPILOG,
        formatter_class=Help,
        allow_abbrev=False,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    adding = _action(actions, "add", _add, "add requests of the store to a set")
    adding.add_argument(
        "ids", nargs="*", metavar="ID", help="the id of a span or trace, or its beginning"
    )
    adding.add_argument("--last", action="store_true", help="the latest request")
    adding.add_argument(
        "--worst", metavar="EVALUATOR", help="the request that this evaluator scored worst"
    )
    adding.add_argument("--expected", metavar="TEXT", help="the answer to expect of each of them")
    add_store(adding)
    add_where(adding)

    _action(actions, "list", _list, "list the sets of the folder", named=False)
    _action(actions, "show", _show, "show the rows of a set")

    setting = _action(actions, "set", _set, "write down what is expected of a row")
    setting.add_argument("id", metavar="ID", help="the id of the row, or its number")
    setting.add_argument("--expected", metavar="TEXT", help="the whole answer")
    setting.add_argument(
        "--fact", action="append", metavar="TEXT", help="a fact to be stated; may be repeated"
    )
    setting.add_argument(
        "--document",
        action="append",
        metavar="URI",
        help="the doc_uri of a document to be retrieved; may be repeated",
    )

    _action(actions, "edit", _edit, "open the rows in $VISUAL or $EDITOR")
    removing = _action(actions, "remove", _remove, "leave rows out of the next version")
    removing.add_argument("ids", nargs="+", metavar="ID", help="the id of a row, or its number")
    parser.set_defaults(run=run)


def _action(
    actions: Any,
    name: str,
    call: Callable[[argparse.Namespace], int],
    summary: str,
    *,
    named: bool = True,
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        formatter_class=Help,
        allow_abbrev=False,
    )
    if named:
        parser.add_argument("name", metavar="NAME", help="the name of the set, or NAME@VERSION")
    parser.add_argument(
        "--folder", metavar="DIR", help="where the sets are (default: datasets beside the store)"
    )
    add_json(parser)
    parser.set_defaults(call=call)
    return parser


def run(args: argparse.Namespace) -> int:
    """Do what the action says."""
    code: int = args.call(args)
    return code


def _add(args: argparse.Namespace) -> int:
    golden = _golden(args)
    with open_store(args.store, args.where) as reader:
        ids = [*args.ids, *_picked_ids(reader, args)]
        if not ids:
            raise ConfigurationError(
                "name the ID of a request, or pass --last, --worst EVALUATOR or --where CONDITION"
            )
        added = golden.add(*ids, store=args.store, expected_response=args.expected)
    known = "" if added else "; what was named is in it already"
    return _changed(args, golden, f"{len(added):,} added{known}", added=added)


def _picked_ids(reader: StoreReader, args: argparse.Namespace) -> list[str]:
    if args.where and args.ids:
        raise ConfigurationError("an ID and --where: name the requests, or give the conditions")
    spans = listed_spans(reader, Query(), 1) if args.last else []
    if args.where and not (args.last or args.worst):
        spans = listed_spans(reader, Query(), MAX_ADDED)
        if not spans:
            raise ConfigurationError(f"no request matches {', '.join(args.where)}")
    if args.worst:
        worst = worst_spans(reader, args.worst, 1)
        if not worst:
            raise ConfigurationError(unscored_sentence(reader, args.worst))
        spans += worst
    return [span.span_id for span in spans]


def _set(args: argparse.Namespace) -> int:
    golden = _golden(args)
    documents = None if args.document is None else [{"doc_uri": uri} for uri in args.document]
    golden.edit(
        args.id,
        expected_response=args.expected,
        expected_facts=args.fact,
        expected_retrieved_context=documents,
    )
    return _changed(args, golden, "expectation written")


def _remove(args: argparse.Namespace) -> int:
    golden = _golden(args)
    golden.remove(*args.ids)
    return _changed(args, golden, f"{len(args.ids):,} removed")


def _edit(args: argparse.Namespace) -> int:
    golden = _golden(args)
    known = os.environ  # noqa: TID251 - the editor of a terminal is no setting of this package
    editor = known.get("VISUAL") or known.get("EDITOR")
    if not editor:
        raise ConfigurationError(
            "no editor is known: set EDITOR, or edit a copy of the newest file"
        )
    with tempfile.TemporaryDirectory(prefix="llmeval-") as folder:
        copy = Path(folder) / f"{golden.name}.jsonl"
        copy.write_bytes(golden.path.read_bytes())
        if subprocess.run([*shlex.split(editor), str(copy)], check=False).returncode:  # noqa: S603
            raise ConfigurationError(f"{editor} ended with an error: nothing was written")
        changed = golden.replace(_rows_of(copy))
    return _changed(args, golden, "edited" if changed else "nothing was changed")


def _rows_of(path: Path) -> list[dict[str, Any]]:
    from llmeval_sdk.offline.data.source import open_data

    rows = []
    for _, place, row in open_data(path).rows:
        if isinstance(row, DataError):
            raise DataError(f"{place}: {row}")
        rows.append(row)
    return rows


def _changed(args: argparse.Namespace, golden: GoldenSet, what: str, **more: Any) -> int:
    about = _about(golden)
    if args.json:
        say_json({**about, **more})
    else:
        some = "row" if about["rows"] == 1 else "rows"
        say(f"{golden.name} v{about['version']:04}: {about['rows']:,} {some}; {what}")
        say(about["file"])
    return 0


def _list(args: argparse.Namespace) -> int:
    from llmeval_sdk.offline import golden_sets

    sets = golden_sets(args.folder)
    abouts = [_about(golden) for golden in sets]
    if args.json:
        say_json(abouts)
    elif abouts:
        rows = [
            (each["name"], f"{each['version']}", f"{each['expected']:,} of {each['rows']:,}")
            for each in abouts
        ]
        table(("set", "version", "rows with an expectation"), rows, numbers="version")
    else:
        say_wrapped(
            "There is no golden set yet. `llmeval dataset add NAME ID` makes one of a trace."
        )
    return 0


def _show(args: argparse.Namespace) -> int:
    golden = _golden(args)
    rows = list(golden)
    if args.json:
        say_json({"name": golden.name, "version": _number(golden), "rows": rows})
        return 0
    say(f"{golden.name} v{_number(golden):04}: {golden.path}")
    shown = [
        (
            f"{number}",
            printable(str(row.get("request_id", "-")), 40),
            printable(_text(row.get("request")), 60),
            printable(_text(row.get("response")), 60),
            printable(_expectation(row), 60),
        )
        for number, row in enumerate(rows, 1)
    ]
    if shown:
        table(("row", "id", "request", "response", "expected"), shown, numbers="row")
    return 0


def _golden(args: argparse.Namespace) -> GoldenSet:
    from llmeval_sdk.offline import GoldenSet

    return GoldenSet(args.name, folder=args.folder)


def _number(golden: GoldenSet) -> int:
    return golden.version or golden.versions[-1]


def _about(golden: GoldenSet) -> dict[str, Any]:
    rows = list(golden)
    return {
        "name": golden.name,
        "version": _number(golden),
        "rows": len(rows),
        "expected": sum(bool(_expectation(row)) for row in rows),
        "file": str(golden.path),
    }


def _expectation(row: Mapping[str, Any]) -> str:
    from llmeval_sdk.offline.data.exported import EXPECTED

    parts: list[Any] = []
    for name in (*EXPECTED, "expected_trajectory"):
        value = row.get(name)
        parts += value if isinstance(value, list) else [value] if value else []
    uris = (part.get("doc_uri", part) if isinstance(part, dict) else part for part in parts)
    return "; ".join(map(_text, uris))


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
