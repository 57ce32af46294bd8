"""Rows a second on two Ray workers, beside the local engine in the same run, with the same report.

    python -m benchmarks.ray_offline [--rows 200000]

The metadata heuristics of `benchmarks.offline` read Parquet. Starting up is excluded from both: each
engine evaluates a small file and one that is longer by ``--rows``, and the difference of the times
is what those rows took. Prints each figure beside the bar it has to clear, and exits 1 if one is
missed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from hashlib import sha256
from pathlib import Path

import llmeval_sdk as llmeval
from benchmarks.measures import Table
from benchmarks.offline import HEURISTICS, resident, write_parquet


SMALL = 20_000
WORKERS = 2
BAR = 0.8
MEMORY_BAR = 600


def evaluated(engine, path):
    """Evaluate the file in this process; print seconds, memory and the report, for the parent."""
    workers = None
    if engine == "ray":
        import ray

        workers = WORKERS
        ray.init(
            address="local", num_cpus=WORKERS + 1, include_dashboard=False, log_to_driver=False,
            object_store_memory=512 << 20, logging_level="error",
        )  # fmt: skip
    begun = time.perf_counter()
    report = llmeval.evaluate(
        path,
        engine=engine,
        workers=workers,
        evaluators=HEURISTICS,
        experiment="bench",
        progress=False,
    )
    took = time.perf_counter() - begun
    said = [report.metrics, report.counts, report.reasons, report.skipped, len(report.rows)]
    some = [repr(report.rows[place].evaluations) for place in (0, len(report.rows) // 2, -1)]
    digest = sha256(json.dumps([said, some, report.to_markdown(worst=0)]).encode()).hexdigest()
    print(json.dumps([took, resident("VmHWM"), digest]))


def measured(engine, path):
    command = [sys.executable, "-m", "benchmarks.ray_offline", "--child", engine, str(path)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(done.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--child", nargs=2, metavar=("ENGINE", "FILE"))
    options = parser.parse_args()
    if options.child:
        evaluated(*options.child)
        return
    table = Table()
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder) / "small.parquet", Path(folder) / "large.parquet"
        write_parquet(small, SMALL)
        write_parquet(large, SMALL + options.rows)
        rates, memory, reports = {}, {}, {}
        for engine in ("local", "ray"):
            before, now = measured(engine, small), measured(engine, large)
            rates[engine] = options.rows / (now[0] - before[0])
            memory[engine] = now[1]
            reports[engine] = before[2], now[2]
            print(
                f"{engine}: {SMALL:,} rows in {before[0]:.1f} s, {SMALL + options.rows:,} in {now[0]:.1f} s",
                flush=True,
            )
    share = rates["ray"] / rates["local"]
    same = reports["ray"] == reports["local"]
    table.row(f"{options.rows:,} rows x {len(HEURISTICS)} heuristics, start-up excluded", "")
    table.row("local engine, rows a second", f"{rates['local']:,.0f}")
    table.row(f"{WORKERS} Ray workers, rows a second", f"{rates['ray']:,.0f}")
    table.row(
        "their share of the local engine's rate", f"{share:.2f}", f">= {BAR}", ok=share >= BAR
    )
    table.row("the same report", "yes" if same else "NO", "yes", ok=same)
    table.row("largest memory of the local engine", f"{memory['local']:.0f} MB")
    driver = memory["ray"]
    bar = f"< {MEMORY_BAR} MB"
    table.row("largest memory of Ray's driver", f"{driver:.0f} MB", bar, ok=driver < MEMORY_BAR)
    sys.exit(1 if table.missed else 0)


if __name__ == "__main__":
    main()
