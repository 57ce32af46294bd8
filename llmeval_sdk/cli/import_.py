"""``llmeval import``: history from files, into a store."""

from __future__ import annotations

import argparse
import gzip
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from llmeval_sdk import config
from llmeval_sdk.cli import Commands
from llmeval_sdk.cli.options import Help, add_json, add_store
from llmeval_sdk.cli.output import advancing, say_json, say_wrapped
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model import DAY_NS
from llmeval_sdk.process.escaping import one_line
from llmeval_sdk.store.files import path_of
from llmeval_sdk.store.history import Arrival, HistoryWriter, Taken, batches
from llmeval_sdk.text.terminal import megabytes, plural, printable


if TYPE_CHECKING:
    from llmeval_sdk.offline.data.history import HistoryReader, Unreadable


BATCH = 2_000
"""Lines that are written in one transaction; an app that writes the same store waits for it."""
SHOWN = 20
"""How many of the lines that were left out are printed, each with the reason."""
_STDIN = "-"
_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"
_FORMATS = ("jsonl", "otlp", "parquet")
_NOUNS = {
    "spans": "span",
    "evaluations": "evaluation",
    "feedback": "feedback entry",
    "not_run": "judge that did not run",
}

_EPILOG = """\
example:
  llmeval import day.jsonl
  llmeval import old-*.jsonl.gz --store history.db
  zcat traces.otlp.jsonl.gz | llmeval import -

jsonl    what `llmeval export` writes: everything comes back as it was
parquet  the same, but a request or response that is the text of a list or mapping
         becomes that list or mapping
otlp     requests of OTLP in JSON, one per line, as `llmeval export --format otlp` and
         the file exporter of a collector write them. It carries no judges that did not
         run, no tokens of spans that call no model, no cost of judges, and of an
         answer only its text. Spans of other libraries come in if they speak of models;
         their traces have to be complete within 20,000 such spans.

The times are those of the file, so that reports, estimates and filters see history where
it belongs. What the store has already is not written again: an import can be repeated, and
one that broke off is simply run again. A span or evaluation whose ids belong to another
one in the store is left out and named. Alarms of `llmeval watch` do not count what is
imported into hours that they have looked at.

Nothing is redacted, scored or deleted. An app that writes the same store goes on deleting
what is older than LLMEVAL_STORE_MAX_DAYS, imported or not.

Exit codes: 0 everything was read, 1 something was left out, 2 nothing could be imported.
"""


def add(subparsers: Commands) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "import",
        help="read spans with their scores from files of `export` or OTLP",
        description="Read spans, their scores and feedback from files into a store.",
        epilog=_EPILOG,
        formatter_class=Help,
    )
    parser.add_argument(
        "files", metavar="FILE", nargs="+",
        help="a file of `llmeval export` or of OTLP, maybe .gz; - is standard input",
    )  # fmt: skip
    add_store(parser, "the store to write, which is made if there is none")
    parser.add_argument(
        "--format", choices=_FORMATS, help="default: told by the content, line by line"
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Import the files, and say what came of it."""
    from llmeval_sdk.offline.data.history import HistoryReader

    settings = config.from_environment(problems=[])
    store = path_of(args.store or settings.store)
    _check(args.files, store)
    reader = HistoryReader(None if args.format == "parquet" else args.format)
    outcome = _Outcome()
    with closing(HistoryWriter(store)) as writer:
        for name in args.files:
            with _opened(name, reader, args.format, several=len(args.files) > 1) as items:
                for batch in batches(outcome.readable(items), BATCH):
                    outcome.add(writer.take_in(batch), batch)
    if args.json:
        say_json({"store": str(store), **outcome.as_plain(), **_about(reader)})
    else:
        _say(outcome, reader, store)
        _warn_of_bounds(outcome, settings, store)
    return 1 if outcome.left_out else 0


def _check(files: list[str], store: Path) -> None:
    """Raise `ConfigurationError` before anything is written, where a file cannot be read."""
    if files.count(_STDIN) > 1:
        raise ConfigurationError("standard input can be read once: pass - only once")
    for name in files:
        if name == _STDIN:
            continue
        try:
            with Path(name).open("rb"):
                is_store = store.exists() and Path(name).samefile(store)
        except OSError as error:
            raise ConfigurationError(f"{name} cannot be read: {error.strerror}") from None
        if is_store:
            raise ConfigurationError(f"{name} is the store itself: name a file of `llmeval export`")


class _Outcome:
    """What became of everything that was read; the first lines that were left out are printed."""

    def __init__(self) -> None:
        self.taken = Taken()
        self.unreadable = 0
        self.oldest_ns: int | None = None
        self._shown = 0

    @property
    def left_out(self) -> int:
        return self.unreadable + sum(self.conflicts.values())

    @property
    def conflicts(self) -> Counter[str]:
        return self.taken.conflicts

    def readable(self, items: Iterable[Arrival | Unreadable]) -> Iterator[Arrival]:
        """Pass on what could be read, and tell what could not."""
        for item in items:
            if isinstance(item, Arrival):
                yield item
            else:
                self.unreadable += 1
                self._show(*item)

    def add(self, taken: Taken, batch: list[Arrival]) -> None:
        """Count what was done with a batch."""
        self.taken.add(taken)
        for place, why in taken.told:
            self._show(place, why)
        started = [arrival.span.start_ns for arrival in batch if arrival.span is not None]
        if taken.new["spans"] and started:
            self.oldest_ns = min(started if self.oldest_ns is None else [*started, self.oldest_ns])

    def as_plain(self) -> dict[str, Any]:
        """Return all counts, for ``--json``."""
        taken = self.taken
        return {
            "new": {table: taken.new[table] for table in _NOUNS},
            "already_there": {table: taken.known[table] for table in _NOUNS},
            "conflicts": {table: taken.conflicts[table] for table in _NOUNS},
            "unreadable": self.unreadable,
        }

    def _show(self, place: str, why: str) -> None:
        self._shown += 1
        if self._shown <= SHOWN:
            sys.stderr.write(f"{printable(one_line(f'{place}: {why}'), 400)}\n")
        elif self._shown == SHOWN + 1:
            sys.stderr.write(f"(more lines were left out than these {SHOWN})\n")


class _Opened(ExitStack):
    """Lends what is read of one file, with a progress bar by its bytes."""


def _opened(name: str, reader: HistoryReader, form: str | None, *, several: bool) -> Any:
    raise NotImplementedError
