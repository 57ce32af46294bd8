"""The tables about the run itself: time, delivery, and what to do next."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median, quantiles

from rich.console import Console
from rich.table import Table
from rich.text import Text

from llmeval_sdk.config import Settings
from llmeval_sdk.demo.show import Result, section, table
from llmeval_sdk.demo.show_judging import picked
from llmeval_sdk.pipeline import Stats


def times(
    console: Console, results: Sequence[Result], phases: Mapping[str, float], overhead: float
) -> None:
    """Show how long each phase took, and each step of a request."""
    shown = Table.grid(padding=(0, 2))
    shown.add_column()
    shown.add_column(justify="right")
    for phase, seconds in phases.items():
        shown.add_row(phase, f"{seconds:.2f} s")
    section(console, "Time of the run", shown)
    steps: dict[str, list[float]] = {
        "search (BM25 + LSA, merged)": _step(results, "hybrid_search"),
        "extract": _step(results, "extract"),
        "aggregate": _step(results, "aggregate"),
        "whole request": [row.seconds for row in results],
        "judge, in the background": [
            row.verdict.duration for row in results if row.verdict and row.verdict.duration
        ],
    }
    made = table(console, "step", "median", "95 %", "calls")
    for step, known in steps.items():
        if known:
            tail = quantiles(known, n=20)[-1] if len(known) > 1 else known[0]
            made.add_row(step, _milliseconds(median(known)), _milliseconds(tail), str(len(known)))
    made.add_section()
    made.add_row("what the SDK added to a request", _milliseconds(overhead), "", str(len(results)))
    note = (
        "From the spans. The last line is the median difference to the same call under"
        " llmeval.disabled(), made just"
        " before or after it: 4 spans, their chunks and all inline"
        " scores, while the worker delivers what came before."
    )
    section(console, "Time of one request", made, note)


def delivery(console: Console, stats: Stats) -> None:
    """Show whether the account of every exporter adds up."""
    columns = ("exporter", "created", "delivered", "dropped", "undelivered", "unknown", "adds up")
    made = table(console, *columns)
    lost = dict(stats.dropped)
    for name, account in stats.exporters.items():
        lost.update({f"{name}: {reason}": count for reason, count in account.dropped.items()})
        made.add_row(
            name, str(account.created), str(account.delivered), str(sum(account.dropped.values())),
            str(account.undelivered), str(account.unknown), "yes" if account.balanced else "NO",
        )  # fmt: skip
    notes = [
        f"{what}: " + ", ".join(f"{reason} {count}" for reason, count in counted.items())
        for what, counted in (("dropped", lost), ("problems", stats.problems))
        if counted
    ]
    if not stats.complete:
        notes.append("Not everything was judged and delivered in time.")
    title = f"Delivery: {stats.spans} spans and {stats.evaluations} evaluations"
    section(console, title, made, "\n".join(notes))


def next_steps(console: Console, store: str, results: Sequence[Result], threshold: float) -> None:
    """Say where everything is, and which commands show more of it."""
    good, bad = picked(results, threshold)
    where = "" if store == Settings().store else f" --store {shlex.quote(store)}"
    program = _program()
    commands = [f"{program} view{where}", f"{program} report{where}", f"{program} doctor"]
    row = bad or good
    if row is not None:
        commands.insert(2, f"{program} explain {row.span.span_id}{where}")
    console.print(Text(f"\nEverything is in {store}. Next:", style="bold"))
    for command in commands:
        console.print(Text(f"  {command}"), soft_wrap=True)  # whole, so that it can be copied


def _program() -> str:
    """Return how this installation is called: the command where it is on the path."""
    found = shutil.which("llmeval")
    if found and Path(found).parent == Path(sys.executable).parent:
        return "llmeval"
    return f"{shlex.quote(os.path.relpath(sys.executable))} -m llmeval_sdk"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms"


def _step(results: Sequence[Result], name: str) -> list[float]:
    return [row.steps[name] for row in results if name in row.steps]
