"""Write ``docs/measurements.md`` from the figures that the benchmarks kept in ``results``.

python -m benchmarks.page docs/measurements.md
"""

import copy
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.instructions import TITLES
from benchmarks.recorded import RESULTS


Peer = dict[str, Any]
OURS, NOTHING = "ours", "nothing"


class Figure(NamedTuple):
    """One column of the comparison; less is better in all of them."""

    title: str
    of: Callable[[Peer], float | None]
    form: str
    named: str
    """What it is called in a sentence, with its unit."""


def case(name: str, figure: str) -> Callable[[Peer], float | None]:
    """Return what reads a figure of a case, which some peers do not have."""
    return lambda peer: peer["cases"].get(name, {}).get(figure)


def lost(found: dict[str, float]) -> float:
    """Return how many records of a case did not arrive, though the backend was well."""
    return found["created"] - found["records"]


COST = (
    Figure("call p50, µs", case("small", "p50"), ",.1f", "the median of a call (µs)"),
    Figure("p99, µs", case("small", "p99"), ",.0f", "the 99th percentile of a call (µs)"),
    Figure("20 KB p50, µs", case("large", "p50"), ",.1f", "a call with 20 KB (µs)"),
    Figure("scored p50, µs", case("scored", "p50"), ",.1f", "a scored call (µs)"),
    Figure("CPU per call, µs", case("small", "cpu"), ",.0f", "processor time of all threads (µs)"),
    Figure("peak memory, MB", case("small", "peak_mb"), ",.0f", "peak memory (MB)"),
    Figure("installed, MB", lambda peer: peer["installed_mb"], ",.0f", "size on disk (MB)"),
)
FAULTS = (
    Figure("closed: p99, µs", case("closed", "p99"), ",.0f", "p99 with the backend closed (µs)"),
    Figure("hanging: p99, µs", case("hanging", "p99"), ",.0f", "p99 while it hangs (µs)"),
    Figure("exit, s", case("small", "exit"), ".1f", "exit (s)"),
    Figure("exit, closed, s", case("closed", "exit"), ".1f", "exit with the backend closed (s)"),
    Figure("exit, hanging, s", case("hanging", "exit"), ".1f", "exit while it hangs (s)"),
    Figure(
        "lost of the calls",
        lambda peer: None if peer["adapter"] == NOTHING else lost(peer["cases"]["small"]),
        ",.0f",
        "records lost with a healthy backend",
    ),
)
SETS = {"wice": "WiCE", "cliff_goyal": "CLIFF and Goyal 2021", "begin": "BEGIN"}
"""What is written otherwise than the benchmarks call it."""
LITTLE = 0.6
"""An AUROC that is hardly above chance, which is 0.5."""
ALIKE = 1.1
"""Figures that differ by less are taken for alike: the rounds of one peer differ by as much."""


PAGE = """\
# Measurements

One shared virtual machine ({machine}; Python {python}), {date}.
`make measurements` writes this page from what the commands below keep in `benchmarks/results/`.
Look at ratios: times are those of one moment.

## Where we are worse

{worse}
{blind}

Scoring is also work that most peers leave to a server. Here it runs in your process, most of it
[in a background thread](#instructions).

## The cost of a call

Each SDK with its defaults, sending to a sink on the same machine; medians of {rounds} rounds. Processor time is of all
threads, without what the loop itself takes. A dash: it cannot score in the process.

{cost}

## Faults and exit

The same calls while nobody listens (*closed*), and while the far end accepts and never answers (*hanging*). What has
not ended after {limit:.0f} s is killed.

{faults}

`make faults`, `make kills` and `make soak` have more.

## Instructions

Times show a regression of 5 % only on a quiet machine, instructions on any. Cachegrind counts them; what starting
takes is subtracted, and two runs agree within 0.1 %. The request has a retrieval of five new passages and the default
scores. With these builds, CI fails above 5 % more.

{instructions}

## How well free scores find errors

Public sets that people labelled, and generated documents. Weights are fitted on other records than they are measured
on. Intervals are of 95 %, drawn by source. *Caught* is the share of errors in the riskiest fifth where a tenth is
wrong; chance catches 20 %.

{quality}

## Tests

Noticed of {drawn} random changes (seed {seed}; `benchmarks/results/mutants.json`):

{mutants}

## Measure again

| command | what it measures | minutes |
| --- | --- | --- |
| `make bench-peers` | cost, memory, exit, faults | 25 |
| `make instructions` | instructions, beside the baseline | 2 |
| `make mutants` | tests | 60 |
| `make quality DATA=folder` | scores and intervals on labelled sets | 30 |
| `make bench` | our own figures beside their bars | 15 |
"""


def page(results: Path = RESULTS) -> str:
    """Return the page."""
    peers = read(results, "peers")
    figures = peers["figures"]
    rows = beyond_the_empty_loop(figures["peers"])
    noticed = read(results, "mutants")
    return PAGE.format(
        machine=peers["machine"],
        python=peers["python"],
        date=peers["date"],
        rounds=figures["rounds"],
        limit=figures["exit_limit_s"],
        worse="\n".join(worse(rows)),
        blind="\n".join(blind(results)),
        cost="\n".join(table(rows, COST)),
        faults="\n".join(table(rows, FAULTS)),
        instructions="\n".join(instructions(read(results, "instructions"))),
        quality="\n".join(quality(results)),
        drawn=noticed["number"],
        seed=noticed["seed"],
        mutants="\n".join(mutants(noticed["rooms"])),
    )


def read(results: Path, name: str) -> Any:
    return json.loads((results / f"{name}.json").read_text("utf-8"))


def beyond_the_empty_loop(peers: list[Peer]) -> list[Peer]:
    """Return the peers with what the loop itself takes subtracted from their processor time."""
    empty = next(peer for peer in peers if peer["adapter"] == NOTHING)["cases"]["small"]["cpu"]
    rows: list[Peer] = copy.deepcopy(peers)
    for row in rows:
        small = row["cases"]["small"]
        small["cpu"] = max(0.0, small["cpu"] - empty)
    return rows


def worse(rows: list[Peer]) -> Iterator[str]:
    """Yield a line for each figure in which a peer is clearly better than we are."""
    ours = next(peer for peer in rows if peer["adapter"] == OURS)
    others = [peer for peer in rows if peer["adapter"] not in (OURS, NOTHING)]
    lines = []
    for figure in (*COST, *FAULTS):
        mine = figure.of(ours)
        better = sorted(
            (value, peer["title"])
            for peer in others
            if (value := figure.of(peer)) is not None and mine is not None and value * ALIKE < mine
        )
        if better and f"{better[0][0]:{figure.form}}" != f"{mine:{figure.form}}":
            best = f"{better[0][1]} has {better[0][0]:{figure.form}}"
            more = f" ({len(better)} peers have less)" if len(better) > 1 else ""
            lines.append(f"- {figure.named}: we have {mine:{figure.form}}; {best}{more}")
    yield from lines or ["In none of the figures below is a peer better by a tenth."]


def table(rows: list[Peer], figures: tuple[Figure, ...]) -> Iterator[str]:
    """Yield a table with a row for each peer; a figure that a peer cannot have is a dash."""
    yield f"| | {' | '.join(figure.title for figure in figures)} |"
    yield f"| --- |{' ---: |' * len(figures)}"
    for peer in rows:
        values = [figure.of(peer) for figure in figures]
        cells = [
            "–" if value is None else f"{value:{figure.form}}"
            for value, figure in zip(values, figures, strict=True)
        ]
        yield f"| {peer['title']} | {' | '.join(cells)} |"


def instructions(baselines: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the baselines of `make instructions`, a column for each."""
    heads = [f"{one['builds']['python']}, {one['builds']['machine']}" for one in baselines]
    yield f"| instructions per request | {' | '.join(heads)} |"
    yield f"| --- |{' ---: |' * len(heads)}"
    for name, title in TITLES.items():
        if name == "first":  # it is no request's
            continue
        counts = [f"{one['instructions'][name]:,}" for one in baselines]
        yield f"| {title} | {' | '.join(counts)} |"


def mutants(rooms: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield how many changes of each room the tests noticed, a column for each room."""
    yield f"| | {' | '.join(rooms)} |"
    yield f"| --- |{' ---: |' * len(rooms)}"
    shares = [f"{one['killed_share']:.0%}" for one in rooms.values()]
    yield f"| noticed | {' | '.join(shares)} |"


def quality(results: Path) -> Iterator[str]:
    """Yield a table of scores on labelled sets."""
    yield "| score | set | records | AUROC | 95 % | caught |"
    yield "| --- | --- | ---: | ---: | --- | ---: |"
    for one in labelled(results):
        yield (
            f"| `{one['score']}` | {one['set']} | {one['records']:,} | {one['auroc']:.3f} |"
            f" {one['low']:.3f} to {one['high']:.3f} | {one['caught']:.0%} |"
        )


def blind(results: Path) -> Iterator[str]:
    """Yield a line for each set in which a score finds little more than chance would."""
    for one in labelled(results):
        if one["low"] < LITTLE:
            yield f"- `{one['score']}` finds little in {one['set']}: AUROC {one['auroc']:.3f}"


def labelled(results: Path) -> Iterator[dict[str, Any]]:
    """Yield what scores reached on each labelled set."""
    for name in ("answers", "extraction"):
        for one in read(results, name)["figures"]:
            yield {**one, "set": SETS.get(one["set"], one["set"])}


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
