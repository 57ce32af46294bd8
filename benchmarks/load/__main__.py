"""What the SDK costs a service under real load, beside the same service without it.

    python -m benchmarks.load [--only scored,service,…] [--quick | --long] [--beside COMMIT]

Every figure is a ratio within the run, or processor time. Paces, delays and shares that arrive are
those of this machine, and say little while others use it: the first row tells. Exits with 1 where a
bar is missed. The bars of scored requests are for ``--beside 4e362c3b``.
"""

import argparse
import os
import statistics
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

from benchmarks.against import ROOT, worktree
from benchmarks.load.bench import Bench
from benchmarks.load.child import SHAPES
from benchmarks.load.serving import service
from benchmarks.measures import Table
from benchmarks.peers import sink


SCORED_BARS = {"5 × 70": 0.52, "10 × 300": 0.25, "20 × 700": 0.23}
"""Processor time beside the other commit."""
SEEN_BAR = 0.5
DELIVERY_BARS_MS = {"local": 0.9, "otlp": 0.9, "local,otlp": 1.5}
HINTS_BAR_MS = 4
BYTES_BARS_MB = {True: (8, 12), False: (14, 15)}
"""Of store and OTLP, by whether passages come from a corpus."""


def scored(bench):
    """Print the processor time of a scored request, beside another commit if one is named."""
    beside = bench.options.beside
    with worktree(beside) if beside else nullcontext() as before:
        pairs = {}
        for number in range(2 * bench.rounds):
            sides = [before, ROOT] if before else [ROOT]
            figures = {
                side: bench.child("scored", package=side, requests=15, seed=number)
                for side in sides[:: 1 if number % 2 else -1]
            }
            for name, value in figures[ROOT].items():
                pairs.setdefault(name, []).append((value, figures[sides[0]][name]))
    for shape, bar in SCORED_BARS.items():
        new, seen = pairs[f"{shape}, new"], pairs[f"{shape}, seen"]
        title = f"scored request, {shape} words, {SHAPES[shape][2]} in the answer"
        shown = f"{median_ms(new):.2f} ms"
        if beside:
            ratio = statistics.median(ours / theirs for ours, theirs in new)
            bench.at_most(title, ratio, bar, "×", f"({shown})")
        else:
            bench.table.row(title, shown)
        ratio = statistics.median(
            ours / of_new for (ours, _), (of_new, _) in zip(seen, new, strict=True)
        )
        title = f"scored request, {shape} words, all seen before, beside new"
        bench.at_most(title, ratio, SEEN_BAR, "×", f"({median_ms(seen):.2f} ms)")


def median_ms(pairs):
    return statistics.median(ours for ours, _ in pairs)


def alone(bench):
    """Print how fast a process works off what waits, while its app is idle."""
    worked = bench.child("alone", seconds=bench.seconds(10), seed=3, heuristics="inline")
    title = "requests of 10 × 300 words worked off, app idle, one core"
    bench.at_least(title, worked["a_second"], 150, "/s")
    bench.table.row("the same: processor time", f"{worked['milliseconds']:.1f} ms each")


def delivery(bench):
    """Print what becomes of many long spans while they are made."""
    seconds = bench.seconds(10, 60)
    for rate in (300, 400):
        for exporters, bar in DELIVERY_BARS_MS.items():
            names = exporters.split(",")
            fate = bench.child("delivery", rate=rate, seconds=seconds, exporters=names)
            where = {"local": "store", "otlp": "OTLP", "local,otlp": "both"}[exporters]
            title = f"{rate}/s × 20 KB in and out, {seconds:g} s, {where}"
            bench.at_least(f"{title}: delivered", 100 * fate["delivered"], 99, "%")
            bench.at_most(f"{title}: dropped", 100 * fate["dropped"], 0, "%")
            bench.at_most(f"{title}: background", fate["background_ms"], bar, "ms", "each")
            if fate["late_s"] > 0.1:
                bench.table.row(f"{title}: the app was late by", f"{fate['late_s']:.1f} s")


def burst(bench):
    """Print what becomes of a burst of long spans, and of the event loop that makes them."""
    fate = bench.child("burst", spans=2_000, seconds=2)
    title = "2,000 × 20 KB in and out in 2 s, store"
    bench.at_least(f"{title}: arrived", 100 * fate["arrived"], 90, "%")
    bare = f"(bare {fate['plain_ms']:.1f})"
    bench.at_most(f"{title}: loop's stall, p99", fate["stall_ms"], 10, "ms", bare)


def hints(bench):
    """Print what it takes to see whether texts may have secrets."""
    for kind, ms in bench.child("hints").items():
        bench.at_most(f"hints of secrets over 1 MB: {kind}", ms, HINTS_BAR_MS, "ms")


def overload(bench):
    """Print what is left of traces when more come than can be worked off even without scores."""
    pace = bench.child("alone", seconds=bench.seconds(4), seed=4, heuristics="off")["a_second"]
    seconds = bench.seconds(20, 60)
    fate = bench.child("overload", rate=3 * pace, seconds=seconds, seed=5)
    title = f"3 × what is worked off unscored, {3 * pace:.0f}/s, {seconds:g} s"
    broken = 100 * fate["broken"] / fate["traces"]
    bench.at_most(f"{title}: broken traces", broken, 0, "%")
    bench.table.row(f"{title}: in the store", f"{fate['traces']:,} of {fate['made']:,}")
    for what in ("requests", "tokens"):
        made = fate[what if what == "tokens" else "made"]
        total, half = fate[f"{what}_told"]
        bench.table.row(
            f"{what} by weighting, in times of those made (99 %)",
            f"{total / made:.3f} ± {half / made:.3f}",
            "has 1",
            ok=abs(total - made) <= half,
        )


def stored_bytes(bench):
    """Print how much the store and OTLP take for a thousand requests."""
    requests = 200 if bench.options.quick else 1_000
    for repeated, bars in BYTES_BARS_MB.items():
        sink.count(bench.otlp)  # begins anew
        kept = bench.child("stored_bytes", requests=requests, seed=6, repeated=repeated)
        if kept["lost"]:
            raise SystemExit(f"the bytes say nothing: {kept['lost']}")
        title = f"1,000 × 7 × 250 words, {'of a corpus of 2,000' if repeated else 'all new'}"
        amounts = {"store": kept["bytes"], "OTLP": sink.count(bench.otlp)["bytes"]}
        for (where, amount), bar in zip(amounts.items(), bars, strict=True):
            bench.at_most(f"{title}: {where}", amount / requests / 1e3, bar, "MB")


ROWS = {
    "scored": scored, "service": service, "alone": alone, "delivery": delivery, "burst": burst,
    "hints": hints, "overload": overload, "bytes": stored_bytes,
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(ROWS), help="rows, with commas between")
    parser.add_argument("--quick", action="store_true", help="a quarter of the work, one round")
    parser.add_argument("--long", action="store_true", help="a minute where seconds are usual")
    parser.add_argument("--beside", metavar="COMMIT", help="set scored requests beside a commit")
    options = parser.parse_args()
    table = Table()
    table.row("processes that wanted a core in the minute before", f"{os.getloadavg()[0]:.1f}")
    with (
        tempfile.TemporaryDirectory(prefix="llmeval-load-") as folder,
        sink.running("--aside") as otlp,
    ):
        bench = Bench(table, options, Path(folder), otlp)
        for name in options.only.split(","):
            ROWS[name](bench)
    if table.missed:
        print(f"\nmissed: {'; '.join(table.missed)}")
    return int(bool(table.missed))


if __name__ == "__main__":
    sys.exit(main())
