"""What commands print: with rich on a terminal where it is installed, else plain text."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from llmeval_sdk._terminal import printable


_T = TypeVar("_T")

BLOCKS = "·▁▂▃▄▅▆▇█"
ASCII = ".,:;+*%#@"


def say(text: str = "") -> None:
    """Print one line."""
    sys.stdout.write(f"{text}\n")


def heading(text: str) -> None:
    """Print a headline with an empty line above it."""
    console = _console()
    if console is None:
        say(f"\n{text}")
    else:
        console.print(f"\n{text}", style="bold", markup=False, highlight=False)


def table(titles: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: str = "") -> None:
    """Print rows under titles; ``numbers`` names the titles whose cells go to the right."""
    cells = [[printable(cell) for cell in row] for row in rows]
    right = [title in numbers.split() for title in titles]
    console = _console()
    if console is None:
        _plain_table(titles, cells, right)
    else:
        _rich_table(console, titles, cells, right)


def columns(rows: Sequence[Sequence[str]]) -> None:
    """Print rows one under the other, without titles."""
    if rows:
        _plain_columns([[printable(cell, 400) for cell in row] for row in rows])


def bar(counts: Sequence[int]) -> str:
    """Draw a distribution, one character per part: ``▁··▅·█····``."""
    blocks = BLOCKS if _encodes(BLOCKS) else ASCII
    most = max(counts, default=0)
    steps = len(blocks) - 1
    return "".join(blocks[-(-count * steps // most) if most else 0] for count in counts)


def tracked(items: Iterable[_T], *, total: int, what: str) -> Iterator[_T]:
    """Pass items on, with a progress bar on standard error where that is a terminal."""
    try:
        from rich.console import Console
        from rich.progress import track
    except ImportError:
        yield from items
        return
    console = Console(stderr=True)
    yield from track(
        items, what, total=total, console=console, transient=True, disable=not console.is_terminal
    )


def _encodes(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _console() -> Any:
    """Return rich's console for a terminal; pipes and files get text that tools can read."""
    if not sys.stdout.isatty():
        return None
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console()


def _plain_table(titles: Sequence[str], rows: list[list[str]], right: list[bool]) -> None:
    _plain_columns([list(titles), *rows], right)


def _plain_columns(rows: list[list[str]], right: Sequence[bool] = ()) -> None:
    right = right or [False] * len(rows[0])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(row, widths, right, strict=True)
        ]
        say("  ".join(cells).rstrip())


def _rich_table(
    console: Any, titles: Sequence[str], rows: list[list[str]], right: list[bool]
) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    found = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title, flush in zip(titles, right, strict=True):
        found.add_column(title, justify="right" if flush else "left", overflow="fold")
    for row in rows:
        found.add_row(*map(Text, row))
    console.print(found)
