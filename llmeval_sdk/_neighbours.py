"""Other tracing libraries in this process: spans nest in theirs, and their ends are ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from llmeval_sdk.protocols import Exporter
from llmeval_sdk.tracing._inner import Link, state


def meet(
    exporters: Sequence[Exporter],
    *,
    lost: Callable[[], Mapping[str, Mapping[str, int]]],
    at_exit: Callable[[], None],
    at_flush: Callable[[], None],
) -> None:
    """Connect exporters, and the libraries behind them that have a current span of their own.

    Args:
        exporters: those of the new configuration; each takes the hooks that it has a name for.
        lost: says what no exporter will deliver.
        at_exit: delivers what is there when the process ends.
        at_flush: judges and delivers when the app flushes another library.
    """
    for each in exporters:
        if hasattr(each, "before_exit"):
            each.before_exit = at_exit
        if hasattr(each, "lost"):
            each.lost = lost
    found = [around for each in exporters if (around := getattr(each, "surroundings", None))]
    state.neighbours = tuple(found)
    state.ambient_parent = partial(_parent_in, state.neighbours) if found else None
    for each in exporters:
        for hook, deliver in (("at_exit_signal", at_exit), ("at_flush", at_flush)):
            if (connect := getattr(each, hook, None)) is not None:
                connect(deliver)


def _parent_in(neighbours: tuple[Any, ...]) -> Any:
    """Return what a root nests under: a span of ours, a Link to another library's, or nothing."""
    for around in neighbours:
        found = around.parent()
        if found is not None:
            return Link(*found) if type(found) is tuple else found
    return None
