"""Prints what commands say, as plain text that people and tools can read."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from typing import Any, TypeVar

from llmeval_sdk.process.escaping import escaped
from llmeval_sdk.text.terminal import printable


_T = TypeVar("_T")

BLOCKS = "·▁▂▃▄▅▆▇█"
ASCII = ".,:;+*%#@"
_NARROW = 30
"""Characters that a sentence needs to be read well in a column."""


def say(text: str = "") -> None:
    """Print one line, or several; what would steer a terminal is printed as an escape."""
    sys.stdout.write(f"{escaped(text)}\n")


def say_json(document: Any) -> None:
    """Print a document as one line of standard JSON, which has no NaN.

    Data classes are objects. What JSON has no form for, such as a date, is printed as its text.
    """
    say(json.dumps(document, default=_plain, allow_nan=False))


def _plain(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


def say_wrapped(text: str, indent: str = "", *, label: str = "") -> None:
    """Print a sentence: on a terminal over as many lines as it needs, each with the indent.

    A ``label`` stands in the indent of the first line.
    """
    width = _terminal_width()
    lines = [text] if width is None else _filled(text, width - len(indent))
    for number, line in enumerate(lines or [""]):
        say(f"{indent if number or not label else label.ljust(len(indent))}{line}")


def heading(text: str) -> None:
    """Print a headline with an empty line above it."""
    say(f"\n{text}")


def table(titles: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: str = "") -> None:
    """Print rows under titles; ``numbers`` names the titles whose cells are right-aligned.

    On a terminal that is too narrow, columns in which no row says anything are left out; if that
    does not suffice, each row takes several lines.
    """
    right_aligned = {printable(title) for title in numbers.split()}
    titles = [printable(title) for title in titles]
    cells = [[printable(cell) for cell in row] for row in rows]
    width = _terminal_width()
    if width is not None and _width_of(titles, cells) > width:
        titles, cells = _telling(titles, cells)
    right = [title in right_aligned for title in titles]
    if width is not None and _width_of(titles, cells) > width:
        _stacked(titles, cells, right, width)
    else:
        _plain_columns([list(titles), *cells], right)


def columns(rows: Sequence[Sequence[str]]) -> None:
    """Print rows one under the other, without titles; the last cell may take several lines."""
    cells = [[printable(cell, 400) for cell in row] for row in rows]
    width = _terminal_width()
    if cells and width is not None:
        leading = [max(map(len, column)) + 2 for column in zip(*cells, strict=True)][:-1]
        room = width - sum(leading)
        if room < _NARROW:
            for *lead, last in cells:
                say("  ".join(lead))
                say_wrapped(last, "    ")
            return
        cells = [
            [*(lead if number == 0 else [""] * len(lead)), line]
            for *lead, last in cells
            for number, line in enumerate(_filled(last, room) or [""])
        ]
    if cells:
        _plain_columns(cells)


def bar(counts: Sequence[int]) -> str:
    """Draw a distribution, one character per part: ``▁··▅·█····``."""
    blocks = BLOCKS if _encodes(BLOCKS) else ASCII
    most = max(counts, default=0)
    steps = len(blocks) - 1
    return "".join(blocks[-(-count * steps // most) if most else 0] for count in counts)


def tracked(items: Iterable[_T], *, total: int, what: str) -> Iterator[_T]:
    """Pass items on, and show a progress bar if standard error is a terminal."""
    with advancing(what, total) as advance:
        for item in items:
            yield item
            advance(1)


@contextmanager
def advancing(what: str, total: int | None) -> Iterator[Callable[[int], object]]:
    """Lend a function that advances a progress bar, which is shown if standard error is a terminal.

    If ``total`` is ``None``, the bar only shows that the command is at work.
    """
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:
        yield lambda _: None
        return
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=total)
        yield lambda steps: progress.advance(task, steps)


def _encodes(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _terminal_width() -> int | None:
    """Return how many characters a line of the terminal has; ``None`` for pipes and files."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _plain_columns(rows: list[list[str]], right: Sequence[bool] = ()) -> None:
    right = right or [False] * len(rows[0])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(row, widths, right, strict=True)
        ]
        say("  ".join(cells).rstrip())


def _telling(titles: Sequence[str], rows: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """Leave out the columns that are empty in all rows."""
    kept = [number for number in range(len(titles)) if any(_says(row[number]) for row in rows)]
    return [titles[n] for n in kept], [[row[n] for n in kept] for row in rows]


def _says(cell: str) -> bool:
    return cell not in ("", "-")


def _width_of(titles: Sequence[str], rows: list[list[str]]) -> int:
    columns = zip(titles, *rows, strict=True)
    return sum(max(map(len, column)) + 2 for column in columns) - 2


def _stacked(titles: Sequence[str], rows: list[list[str]], right: list[bool], width: int) -> None:
    """Print each row over several lines, for a terminal that the table is too wide for.

    What leads a row stands on a line of its own; then come the other cells that say something, each
    whole with its title, as many to a line as fit.
    """
    leading = right.index(True) if True in right[1:] else 1
    for row in rows:
        say()
        _wrapped([cell for cell in row[:leading] if _says(cell)], width, "", " · ")
        rest = zip(titles[leading:], row[leading:], strict=True)
        _wrapped([f"{title} {cell}" for title, cell in rest if _says(cell)], width, "  ")
    say()


def _wrapped(parts: Sequence[str], width: int, indent: str, between: str = "   ") -> None:
    """Print parts, as many to a line as fit; one that is longer than a line takes several."""
    room = width - len(indent)
    lines = [""]
    for part in parts:
        if lines[-1] and len(lines[-1]) + len(between) + len(part) > room:
            lines.append("")
        lines[-1] += f"{between}{part}" if lines[-1] else part
    for line in lines:
        for filled in _filled(line, room):
            say(f"{indent}{filled}")


def _filled(text: str, width: int) -> list[str]:
    """Break a text into lines between words; a long word, such as a path, stays whole."""
    lines = textwrap.wrap(
        text, max(width, 20), break_long_words=False, break_on_hyphens=False, drop_whitespace=False
    )
    return [line.strip() for line in lines]
