"""Options that several commands share."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
import textwrap
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from typing import TypeVar

from llmeval_sdk import config
from llmeval_sdk.errors import ConfigurationError, LlmevalError
from llmeval_sdk.judges.models.prices import Prices, price_of
from llmeval_sdk.store.damage import why_unreadable
from llmeval_sdk.store.files import path_of
from llmeval_sdk.store.filters import length_of, read_time
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.selection import may_lack, selection_of
from llmeval_sdk.store.traffic import Pricing
from llmeval_sdk.text.terminal import printable


# Prices for reports: those that come along, one's own, and those that a command names.


def pricing(anew: Prices | None = None) -> Pricing:
    """Return the prices of a report; calls of models with a price among ``anew`` get that one."""
    own = {**(config.from_environment(problems=[]).prices or {}), **(anew or {})}

    def is_anew(model: str) -> bool:
        return model in (anew or ()) or price_of(model, own=anew) != price_of(model)

    return Pricing(lambda model: price_of(model, own=own), is_anew if anew else None)


_T = TypeVar("_T")


class Help(argparse.RawDescriptionHelpFormatter):
    """Fills paragraphs to the width of the terminal; indented lines, such as examples, stay lines.

    A line that is too long goes on below the column in which its last words began.
    """

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines: list[str] = []
        for line in text.splitlines():
            if lines and line and lines[-1] and _goes_on(lines[-1], line):
                lines[-1] += f" {line.strip()}"
            else:
                lines.append(line)
        return textwrap.indent("\n".join(_wrapped(line, width) for line in lines), indent)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)


def _goes_on(before: str, line: str) -> bool:
    """Say whether a line continues a paragraph, or the second column of a table."""
    begins, above = _indentation(line), _indentation(before)
    if before.endswith(":") or _column(line) > begins:
        return False
    return begins == _column(before) and (begins > above or begins == 0)


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def _column(line: str) -> int:
    """Return the column where a long line continues: its indent, or a table's last column."""
    match = re.match(r" *(?:\S+(?: \S+)* {2,80})?", line)
    return match.end() if match else 0


def _wrapped(line: str, width: int) -> str:
    hanging = " " * _column(line)
    return textwrap.fill(
        line, width, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False
    )


def add_store(parser: argparse._ActionsContainer, what: str = "the store to read") -> None:
    """Add ``--store``; ``what`` is done with it."""
    parser.add_argument(
        "--store",
        metavar="FILE",
        help=f"{what} (default: LLMEVAL_STORE, else .llmeval/llmeval.db)",
    )


def add_json(parser: argparse._ActionsContainer, form: str = "") -> None:
    """Add ``--json``. Every command has it whose output a program may want to read."""
    parser.add_argument(
        "--json", action="store_true", help=f"print JSON instead of text{form and f', {form}'}"
    )


def add_filter(parser: argparse._ActionsContainer, what: str = "requests") -> None:
    """Add ``--where``, ``--since`` and ``--until``; ``what`` is what the times are about."""
    add_where(parser)
    parser.add_argument(
        "--since", type=since, metavar="TIME",
        help=f"only {what} from this time on: 90m, 24h, 7d or an ISO date",
    )  # fmt: skip
    parser.add_argument(
        "--until", type=since, metavar="TIME", help=f"only {what} from before this time"
    )


def add_where(parser: argparse._ActionsContainer) -> None:
    """Add ``--where``, the filter that all commands share."""
    parser.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="CONDITION",
        help="only requests of which this holds, such as tag:tenant=acme, model~gpt-4o or"
        " 'score:groundedness<0.5'; may be repeated",
    )


def repeated(args: argparse.Namespace) -> str:
    """Return ``--span-name`` and ``--where`` as they were given, for a command that is shown."""
    name = ("--span-name", args.span_name) if args.span_name else ()
    given = [*name, *(word for text in args.where for word in ("--where", text))]
    return "".join(f" {shlex.quote(printable(word))}" for word in given)


def open_selected(
    args: argparse.Namespace, by: Sequence[str] = ()
) -> AbstractContextManager[StoreReader]:
    """Lend a reader of the requests that the options of `add_filter` select, but for ``--since``.

    The time of ``--since`` is for the readings, which find it by their indices.
    """
    return open_store(args.store, args.where, by, args.until)


@contextmanager
def open_store(
    store: str | None,
    where: Sequence[str] = (),
    by: Sequence[str] = (),
    until: int | None = None,
    only: str | Collection[str] | None = None,
) -> Iterator[StoreReader]:
    """Lend a reader of the store; if there is none yet, the error says how to get one.

    It reads the requests that `selection_of` makes of the other arguments.
    What cannot be read raises `ConfigurationError`, which says whether the file is whole.
    """
    path = path_of(store or config.from_environment(problems=[]).store)
    if not path.exists():
        raise ConfigurationError(
            f"no store at {path}\n"
            "An app that uses llmeval_sdk creates its store when its first decorated call ends. "
            "Run the app in this folder, set LLMEVAL_STORE for both, or pass --store FILE. "
            "`llmeval demo` creates a store to look at."
        )
    selection = selection_of(where, by, until, only)
    files = nullcontext() if selection is None else closing(selection)
    with files, StoreReader(path, selection=selection) as reader:
        try:
            if warning := reader.read(lambda store: may_lack(store, selection)):
                sys.stderr.write(f"llmeval: {warning}\n")
            yield reader
        except (LlmevalError, OSError, UnicodeEncodeError):
            raise  # the last one is about an argument that SQLite cannot take, not about the store
        except Exception as error:
            raise ConfigurationError(why_unreadable(path, error)) from error


def checked(read: Callable[[str], _T]) -> Callable[[str], _T]:
    """Return a reader of an option's text whose errors argparse shows with the option's name.

    Args:
        read: Returns the value; raises `ConfigurationError` or `ValueError` for text that is none.
    """

    def read_option(text: str) -> _T:
        try:
            return read(text)
        except (ConfigurationError, ValueError) as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read_option


def seconds(text: str) -> float:
    """Read ``90s``, ``5m``, ``24h`` or ``7d`` as seconds."""
    length = length_of(text)
    if length is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a length of time: expected 90s, 5m or 24h"
        )
    return length


def since(text: str) -> int:
    """Read ``90m``, ``24h``, ``7d`` or an ISO date as nanoseconds since the epoch.

    A date without a zone is local time.
    """
    try:
        return read_time(text)
    except ConfigurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
