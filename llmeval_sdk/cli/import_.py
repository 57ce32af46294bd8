"""``llmeval import``: history from files, into a store."""

from __future__ import annotations

import argparse
import gzip
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llmeval_sdk import config
from llmeval_sdk.cli import Commands
from llmeval_sdk.cli.options import Help, add_json, add_store
from llmeval_sdk.cli.output import advancing, say_json, say_wrapped
from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model import DAY_NS
from llmeval_sdk.store.files import path_of
from llmeval_sdk.store.history import WAIT_SECONDS, Arrival, Taken, batches, take_in
from llmeval_sdk.store.writer import StoreWriter
from llmeval_sdk.text.terminal import megabytes, printable


if TYPE_CHECKING:
    from llmeval_sdk.config import Settings
    from llmeval_sdk.offline.data.history import HistoryReader, Unreadable


SHOWN = 20
"""How many of the lines that were left out are printed, each with the reason."""
_STDIN = "-"
_GZIP = b"\x1f\x8b"
_NOUNS = {
    "spans": ("span", "spans"),
    "evaluations": ("evaluation", "evaluations"),
    "feedback": ("label", "labels"),
    "not_run": ("judge that did not run", "judges that did not run"),
}
"""What the records of a table are called, one and several."""

_EPILOG = """\
example:
  llmeval import day.jsonl
  zcat traces.otlp.jsonl.gz | llmeval import - --store history.db

Each line of a file says what it is:

jsonl    all that `llmeval export` writes, as it was
otlp     requests in JSON, one per line, of `llmeval export` or a collector's file exporter.
         They lack judges that did not run, what judges cost, tokens of spans that call no
         model, and of an answer all but its text. Of other libraries, spans that speak of
         models come in; a trace has to be complete within 20,000 spans and 128 MB.

Lines of more than 32 MB are left out. A file is read no further than to the millionth empty
line in a row, or to the hundred thousandth that cannot be read; the last line says so.

Times are those of the file. What the store has already is not written again, so an import
that broke off is simply repeated. Where a span or evaluation has the ids of another one in
the store, the store's stays. `llmeval watch` does not count what comes into hours that it
has looked at. Nothing is redacted, scored or deleted; an app that writes the same store
goes on deleting what is older than LLMEVAL_STORE_MAX_DAYS.
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
        help="a file, maybe .gz; - is standard input",
    )  # fmt: skip
    add_store(parser, "the store to write")
    add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Import the files and print a summary."""
    from llmeval_sdk.offline.data.history import HistoryReader

    settings = config.from_environment(problems=[])
    store = path_of(args.store or settings.store)
    _check(args.files, store)
    reader, outcome = HistoryReader(), _Outcome()
    with closing(StoreWriter(store, 0, 0, busy_timeout=WAIT_SECONDS)) as writer:
        for name in args.files:
            label = f"{name}, " if len(args.files) > 1 else ""
            for batch in batches(outcome.readable(_items(name, reader, label))):
                outcome.add(take_in(writer, batch))
        outcome.add(take_in(writer, []))  # so that there is a store although nothing was in a file
    if args.json:
        ignored = {"unknown_fields": dict(reader.unknown), "not_for_a_store": dict(reader.others)}
        say_json({"store": str(store), **outcome.as_plain(), **ignored})
    else:
        _say(outcome, reader, store, settings)
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
        self.new, self.known, self.conflicts = Counter[str](), Counter[str](), Counter[str]()
        self.unreadable = 0
        self.oldest_ns = time.time_ns()
        self._shown = 0

    @property
    def left_out(self) -> int:
        """How much was not imported although it should have been."""
        return self.unreadable + sum(self.conflicts.values())

    def readable(self, items: Iterable[Arrival | Unreadable]) -> Iterator[Arrival]:
        """Pass on what could be read, and tell what could not."""
        for item in items:
            if isinstance(item, Arrival):
                yield item
            else:
                self.unreadable += 1
                self._show(item.place, item.why, is_end=item.is_end)

    def add(self, taken: Taken) -> None:
        """Count what was done with a batch."""
        self.new += taken.new
        self.known += taken.known
        self.conflicts += taken.conflicts
        for place, why in taken.told:
            self._show(place, why)
        self.oldest_ns = min(taken.oldest_ns or self.oldest_ns, self.oldest_ns)

    def as_plain(self) -> dict[str, Any]:
        """Return all counts, for ``--json``."""
        counts = {"new": self.new, "already_there": self.known, "conflicts": self.conflicts}
        plain = {name: {table: of[table] for table in _NOUNS} for name, of in counts.items()}
        return {**plain, "unreadable": self.unreadable}

    def _show(self, place: str, why: str, *, is_end: bool = False) -> None:
        self._shown += 1
        if self._shown <= SHOWN or is_end:
            sys.stderr.write(f"{printable(f'{place}: {why}', 400)}\n")
        elif self._shown == SHOWN + 1:
            sys.stderr.write(f"more was left out than these {SHOWN}; the summary counts it\n")


def _items(name: str, reader: HistoryReader, label: str) -> Iterator[Arrival | Unreadable]:
    """Yield the records of one file, and show by a progress bar how far it was read."""
    with ExitStack() as stack:
        is_stdin = name == _STDIN
        file: Any = sys.stdin.buffer if is_stdin else stack.enter_context(Path(name).open("rb"))
        if file.peek(4).startswith(b"PAR1"):
            raise ConfigurationError(
                f"{name} is Parquet: export JSON lines, which can be read back"
            )
        lines: Any = gzip.GzipFile(fileobj=file) if file.peek(2).startswith(_GZIP) else file
        size = None if is_stdin else os.fstat(file.fileno()).st_size or None
        advance, before = stack.enter_context(advancing("importing", size)), 0
        for item in reader.lines(lines, label):
            yield item
            if size is not None:
                here = file.tell()
                advance(here - before)
                before = here


def _say(outcome: _Outcome, reader: HistoryReader, store: Path, settings: Settings) -> None:
    """Print what was imported, what was left out, and what an app will delete again."""
    say_wrapped(f"{printable(str(store), 500)}: imported {_counted(outcome.new)}")
    if outcome.known:
        say_wrapped(f"already there: {_counted(outcome.known)}")
    if outcome.unreadable:
        what = "line or record" if outcome.unreadable == 1 else "lines or records"
        say_wrapped(f"could not be read: {outcome.unreadable:,} {what}")
    if outcome.conflicts:
        say_wrapped(
            f"left out: {_counted(outcome.conflicts)} whose ids belong to others in the store;"
            " nothing there was changed"
        )
    for what, count in reader.others.items():
        say_wrapped(f"nothing for a store: {count:,} × {what}")
    if reader.unknown:
        some = ", ".join(
            f"{printable(name, 40)} ({count:,} ×)" for name, count in reader.unknown.most_common(5)
        )
        more = len(reader.unknown) - 5
        also = f" and {more:,} more" if more > 0 else ""
        say_wrapped(f"ignored: fields that this release does not know: {some}{also}")
    days = (time.time_ns() - outcome.oldest_ns) / DAY_NS
    if settings.store_max_days and days > settings.store_max_days:
        say_wrapped(
            f"The oldest is {days:,.0f} days old, and an app that writes this store deletes what is"
            f" older than {settings.store_max_days:g}: set LLMEVAL_STORE_MAX_DAYS for it, or import"
            " into a store of its own."
        )
    size = store.stat().st_size
    if settings.store_max_bytes and size > settings.store_max_bytes:
        say_wrapped(
            f"The store has {megabytes(size)}, and an app that writes it deletes the oldest down to"
            f" {megabytes(settings.store_max_bytes)}: set LLMEVAL_STORE_MAX_BYTES for it."
        )


def _counted(counts: Counter[str]) -> str:
    """Count the records of several tables in words."""
    parts = [
        f"{counts[table]:,} {one if counts[table] == 1 else several}"
        for table, (one, several) in _NOUNS.items()
        if counts[table]
    ]
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:]))) or "nothing"
