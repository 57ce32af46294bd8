"""``llmeval label``: hands out judged records one by one, and stores what somebody says of them."""

from __future__ import annotations

import argparse
import getpass
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from llmeval_sdk import registry
from llmeval_sdk.cli import Commands
from llmeval_sdk.cli.options import Help, add_store, add_where, open_store, repeated, since
from llmeval_sdk.cli.output import say, say_json, say_wrapped
from llmeval_sdk.errors import ConfigurationError, ExportError
from llmeval_sdk.model import SpanData
from llmeval_sdk.statistics.labels import Choice
from llmeval_sdk.store.fields import ACCEPT, Drawn, draw_values, scored_field, unknown_field
from llmeval_sdk.store.frames import ALL_TRAFFIC, Frame
from llmeval_sdk.store.labelling import (
    MOST,
    PLANNED,
    Queue,
    Shown,
    add_feedback,
    add_label,
    doubt,
    human_label,
    judges_of,
    pruned_sentence,
    queue,
    shown,
)
from llmeval_sdk.store.labels import EXTRACTION_JUDGE
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.selection import frame_of
from llmeval_sdk.text.terminal import plural, printable


MAX_LENGTH, LISTED = 3_000, 600
"""Characters of each text that are shown: of a record that waits for a key, and in a list."""
CHUNKS = 10
"""Retrieved passages that are shown."""
_EPILOG = """\
example:
  llmeval label groundedness
  llmeval label groundedness --labels 200       # go on after the first hundred
  llmeval label groundedness --list             # read what waits, without labelling
  llmeval label groundedness --list --json > queue.jsonl
  llmeval label --for accept --field total      # values of a field, drawn at random

Keys: y the answer is good by this judge's question, n it is not, s skip, u undo the last
answer, q quit. Where the input is no terminal, each key is a line. The judge's verdict is
not shown, because it would lead you. >>Marks<< stand around words that the free scores did
not find in the context.

Records are chosen where the judge is most likely to be wrong and where a record stands for
much traffic. The chance of each choice is stored with the label, so "people would say" in
`llmeval report` has no bias. Skipped records come again next time.

Exit codes: 0 all records have a label, or you quit; 2 the command could not run, or the
records to label are no longer in the store.
"""


def add(subparsers: Commands) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "label",
        help="read answers that a judge has rated, and say yes or no to each yourself",
        description="Hand out judged records one by one and store what you say of them. Labels "
        "correct the judge's mean for its mistakes in `llmeval report` and the viewer.",
        epilog=_EPILOG,
        formatter_class=Help,
    )
    parser.add_argument(
        "judge",
        nargs="?",
        metavar="JUDGE",
        help="the judge whose verdicts are to be corrected (default: the one with the most)",
    )
    add_store(parser)
    add_where(parser)
    parser.add_argument(
        "--labels", type=_count, default=PLANNED, metavar="N",
        help=f"how many labels there shall be in the end, with those of before (default {PLANNED})",
    )  # fmt: skip
    parser.add_argument(
        "--since",
        type=since,
        metavar="TIME",
        help="only records that were judged from this time on: 24h, 7d or an ISO date",
    )
    parser.add_argument(
        "--for", dest="purpose", choices=(ACCEPT,),
        help="accept: label values of a field that are drawn at random, from which `llmeval accept`"
        " learns which values need no look",
    )  # fmt: skip
    parser.add_argument("--field", metavar="FIELD", help="with --for: the field, such as total")
    parser.add_argument("--span-name", metavar="NAME", help="with --for: only spans of this name")
    parser.add_argument(
        "--list", action="store_true",
        help="print the records that wait for a label and what the judge asks, and label none",
    )  # fmt: skip
    parser.add_argument(
        "--json", action="store_true",
        help="with --list: print JSON lines with the full texts; fill in each label, and give the "
        "file to `llmeval report --labels`",
    )  # fmt: skip
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Hand out records until all are labelled or somebody quits."""
    with open_store(args.store, args.where) as reader:
        if args.purpose:
            return _label_values(reader, args)
        if args.field or args.span_name:
            raise ConfigurationError("--field and --span-name go with --for accept")
        if args.json and not args.list:
            raise ConfigurationError("--json goes with --list: labelling asks a person")
        judge = args.judge or next(iter(judges_of(reader)), None)
        if judge is None:
            raise ConfigurationError("no judge has judged anything in this store: nothing to label")
        waiting = queue(reader, judge, args.labels, args.since)
        if args.list:
            _list(reader, waiting, as_json=args.json)
            return 0
        _ask_for(judge)
        if not waiting.waiting:
            say(f"All {len(waiting.chosen)} chosen records have a label: ask for more with"
                f" --labels {2 * len(waiting.chosen)}.")  # fmt: skip
        session = _Session(
            [_JudgedRecord(reader, each, judge, waiting.frame) for each in waiting.waiting]
        )
        session.run_until_quit()
        _say_pruned(session, len(waiting.waiting))
        say(f"\n{session.stored} labels stored, {len(waiting.labelled) + session.stored} of"
            f" {len(waiting.chosen)} chosen records have one.")  # fmt: skip
        if waiting.frame != ALL_TRAFFIC:
            say_wrapped(f"They count in reports on this part of the traffic: {waiting.frame}.")
        if doubted := doubt(reader, judge):
            say_wrapped(doubted)
    return 0


def _say_pruned(session: _Session, waiting: int) -> None:
    if waiting and session.pruned == waiting:
        raise ConfigurationError(pruned_sentence(session.pruned))
    if session.pruned:
        say(f"\n{session.pruned} chosen records were passed over: their spans were pruned.")


def _label_values(reader: StoreReader, args: argparse.Namespace) -> int:
    """Hand out values of a field that were drawn at random."""
    if args.judge or args.list or args.json:
        raise ConfigurationError("--for accept is about a field: it has no judge and no --list")
    if not args.field:
        raise ConfigurationError("--for accept needs --field, such as --field total")
    field, frame = args.field, frame_of(reader.selection, args.since)
    drawn = reader.read(lambda store: draw_values(store, field, args.labels, frame, args.span_name))
    if not drawn.total:
        raise ConfigurationError(reader.read(lambda store: unknown_field(store, field, frame)))
    session = _Session([_DrawnValue(reader, *value, drawn) for value in drawn.waiting])
    session.run_until_quit()
    _say_pruned(session, len(drawn.waiting))
    labelled = drawn.count - len(drawn.waiting) + session.stored
    say(f"\n{session.stored} labels stored, {labelled} of {drawn.count} values that were drawn"
        f" have one.")  # fmt: skip
    say(f"`llmeval accept --field {printable(field)}{repeated(args)}` says what they promise.")
    return 0


def _count(text: str) -> int:
    try:
        count = int(text)
    except ValueError:
        count = 0
    if not 1 <= count <= MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of labels from 1 to {MOST:,}")
    return count


def _ask_for(judge: str) -> None:
    """Print what a judge asks, by which people are to label."""
    question = registry.question_of(judge)
    if question is None:
        say_wrapped(f"What {printable(judge)} asks stands where your app defines it.")
        return
    say(f"{printable(judge)} asks:")
    for line in question.splitlines():
        say_wrapped(line, "    ")


def _list(reader: StoreReader, waiting: Queue, *, as_json: bool) -> None:
    """Print what is needed to judge each record: on paper short, as JSON whole."""
    records = [(choice, shown(reader, choice.id)) for choice in waiting.waiting]
    found = [(choice, record) for choice, record in records if record is not None]
    if records and not found:
        raise ConfigurationError(pruned_sentence(len(records)))
    if as_json:
        for choice, record in found:
            say_json(_row(waiting, choice, record))
        return
    _ask_for(waiting.judge)
    for place, (_, record) in enumerate(found, 1):
        _show(record, place, len(found), waiting.judge, LISTED)
    judge = printable(waiting.judge)
    say()
    say_wrapped(
        f"{plural(len(found), 'record')} wait for a label: `llmeval label {judge}` hands them out,"
        " and `--list --json` prints their full texts to be filled in."
    )
    if doubted := doubt(reader, waiting.judge):
        say_wrapped(doubted)


def _row(waiting: Queue, choice: Choice, record: Shown) -> dict[str, object]:
    span = record.span
    return {
        "span_id": choice.id,
        "trace_id": span.trace_id,
        "judge": waiting.judge,
        "question": registry.question_of(waiting.judge),
        "request": span.request,
        "response": span.response,
        "value": span.value,
        "retrieved_context": record.chunks,
        "extractions": span.extractions,
        "inclusion_probability": choice.chance,
        **waiting.frame.as_metadata(),
        "label": None,
    }


@dataclass
class _Pending:
    """The last answer, which is stored when the next one is given, so that it can be undone."""

    item: _Item
    span: SpanData
    value: str


class _Item(Protocol):
    """A record or a value that somebody is to label."""

    def show(self, place: int, count: int, /) -> SpanData | None:
        """Print the item and return its span, or ``None`` if the store no longer has it."""

    def store(self, span: SpanData, value: str, /) -> None:
        """Store what somebody said of the item: ``yes`` or ``no``."""


@dataclass(frozen=True)
class _JudgedRecord:
    """A record whose judge's verdict is to be corrected."""

    reader: StoreReader
    choice: Choice
    judge: str
    frame: Frame

    def show(self, place: int, count: int) -> SpanData | None:
        record = shown(self.reader, self.choice.id)
        if record is None:
            return None
        _show(record, place, count, self.judge)
        return record.span

    def store(self, span: SpanData, value: str) -> None:
        add_label(
            self.reader.location, self.judge, span,
            value=value, chance=self.choice.chance, frame=self.frame, by=_user(),
        )  # fmt: skip


@dataclass(frozen=True)
class _DrawnValue:
    """A value that was drawn at random from all values of its field."""

    reader: StoreReader
    row: int
    path: str
    drawn: Drawn

    def show(self, place: int, count: int) -> SpanData | None:
        field = self.reader.read(lambda store: scored_field(store, self.row))
        if field is None:
            return None
        record = shown(self.reader, field.span_id)
        if record is None:
            return None
        name = printable(record.span.name)
        say()
        say_wrapped(f"--- {place} of {count}, {name} {record.span.trace_id}")
        for number, chunk in enumerate(record.sources[:CHUNKS], 1):
            say_wrapped(f"[{number}] {_text(chunk.content, MAX_LENGTH)}")
        say_wrapped(f"Request: {_text(record.span.request, LISTED)}")
        say_wrapped(f"Is this right?  {printable(field.path)} = {_text(field.value, LISTED)}")
        return record.span

    def store(self, span: SpanData, value: str) -> None:
        label = human_label(
            span, EXTRACTION_JUDGE, value, field=self.path, purpose=ACCEPT,
            drawn=self.drawn.draw.as_metadata(), inclusion_probability=self.drawn.chance,
            submitter={"id": _user()},
        )  # fmt: skip
        add_feedback(self.reader.location, label)


class _Session:
    """One sitting of somebody who labels."""

    def __init__(self, items: Sequence[_Item]) -> None:
        self.stored = 0
        self.pruned = 0
        """How many could not be shown, because their spans are no longer in the store."""
        self._items = items
        self._pending: _Pending | None = None

    def run_until_quit(self) -> None:
        """Show the items one by one until all are labelled, somebody quits or the input ends."""
        try:
            self._run()
        except (KeyboardInterrupt, EOFError):
            pass
        finally:
            self._store_pending()

    def _run(self) -> None:
        records = self._items
        place, before = 0, 0
        with _keys() as keys:
            while place < len(records):
                span = records[place].show(place + 1, len(records))
                if span is None:
                    self.pruned += 1
                    place += 1
                    continue
                key = next(keys)
                if key == "q":
                    return
                if key == "u":
                    if self._pending is None:
                        say("There is nothing to undo.")
                    else:
                        self._pending, place = None, before
                    continue
                if key in ("y", "n"):
                    self._store_pending()
                    value = "yes" if key == "y" else "no"
                    self._pending = _Pending(records[place], span, value)
                    before = place
                place += 1

    def _store_pending(self) -> None:
        pending, self._pending = self._pending, None
        if pending is None:
            return
        try:
            pending.item.store(pending.span, pending.value)
        except ExportError as error:
            raise ConfigurationError(f"the label could not be stored: {error}") from None
        self.stored += 1


@contextmanager
def _keys() -> Iterator[Iterator[str]]:
    """Yield the keys y, n, s, u and q; if the input is not a terminal, one key per line."""
    try:
        import termios
        import tty
    except ImportError:  # Windows
        yield _answers(sys.stdin.readline)
        return
    if not sys.stdin.isatty():
        yield _answers(sys.stdin.readline)
        return
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield _answers(lambda: sys.stdin.read(1))
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _answers(read: Any) -> Iterator[str]:
    while True:
        sys.stdout.write("good? [y]es [n]o [s]kip [u]ndo [q]uit ")
        sys.stdout.flush()
        text = read()
        if not text or text == "\x04":
            raise EOFError
        key = text.strip().lower()[:1]
        say(key)
        if key in tuple("ynsuq"):
            yield key


def _show(record: Shown, place: int, count: int, judge: str, longest: int = MAX_LENGTH) -> None:
    span = record.span
    say()
    say_wrapped(
        f"--- {place} of {count}, {printable(judge)}, {printable(span.name)} {span.trace_id}"
    )
    for number, chunk in enumerate(record.chunks[:CHUNKS], 1):
        say_wrapped(f"[{number}] {_text(chunk.content, longest)}")
    if len(record.chunks) > CHUNKS:
        say_wrapped(f"and {len(record.chunks) - CHUNKS} more passages (`llmeval view` shows them)")
    for each in record.evidence[:CHUNKS]:
        say_wrapped(f"Evidence for {_text(each.value, 60)}: {_text(each.evidence, longest)}")
    say_wrapped(f"Request:  {_text(span.request, longest)}")
    answer = record.answer
    marks = record.unsupported if isinstance(answer, str) else ()
    say_wrapped(f"Response: {_text(_marked(answer, marks) if marks else answer, longest)}")


def _marked(text: str, marks: tuple[tuple[int, int], ...]) -> str:
    for start, end in sorted(marks, reverse=True):
        if 0 <= start < end <= len(text):
            text = f"{text[:start]}>>{text[start:end]}<<{text[end:]}"
    return text


def _text(value: object, longest: int) -> str:
    if value is None:
        return "(not captured)"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return printable(text, longest)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "command line"
