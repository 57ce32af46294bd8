"""A progress bar on standard error, where a person is watching and rich is installed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def bar(title: str, count: int | None, *, shown: bool) -> Iterator[Callable[[int], None]]:
    """Show a bar for the block, and give what moves it on."""
    if not (shown and sys.stderr is not None and sys.stderr.isatty()):
        yield lambda _: None
        return
    try:
        from rich import progress
        from rich.console import Console
    except ImportError:
        yield lambda _: None
        return
    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("{task.fields[rate]}"),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with progress.Progress(*columns, console=console, transient=True) as shown_bar:
        task = shown_bar.add_task(title, total=count, rate="")

        def tick(rows: int) -> None:
            shown_bar.advance(task, rows)
            speed = shown_bar.tasks[0].speed
            if speed:
                shown_bar.update(task, rate=f"{speed:,.0f} rows/s" if speed >= 10 else "")

        yield tick
