"""Count the instructions of four main paths, so that a regression shows on a noisy machine too.

A time depends on what else the machine does, the number of executed instructions hardly at all.
Each path of `benchmarks.instruction_paths` runs twice under Cachegrind (without its caches: it then
counts exactly, three times as fast as Callgrind), with few and with many requests. The difference
of both counts is free of what it takes to start. Two runs agree within 0.1 %.

Another build of Python, SQLite or RapidFuzz takes other instructions for the same steps. Counts are
therefore compared with a baseline of the same builds, in benchmarks/results/instructions.json; it
may have several. Where it has none for these builds, the command says so and counts all the same.
It exits with 1 where a path takes over 5 % more than its baseline.
"""

import argparse
import json
import os
import platform
import re
import shutil
import sqlite3
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

from benchmarks.instruction_paths import MOST, PATHS
from benchmarks.recorded import RESULTS, today, write


ROOT = Path(__file__).resolve().parent.parent
BASELINES = RESULTS / "instructions.json"
WORSE = 1.05
FEW = 10
TITLES = {
    "call": "a scored request, on the app's thread",
    "worker": "the same in the worker: redaction, scores",
    "store": "writing its records to the local store",
    "first": "the first call of a process (instructions, once)",
}


def main():
    """Count, compare with the baseline of these builds; 1 where a path got worse."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--accept", action="store_true", help="make the counts the baseline of these builds"
    )
    accept = parser.parse_args().accept
    if shutil.which("valgrind") is None:
        return not_compared("valgrind is not installed (apt-get install valgrind)")
    baselines = json.loads(BASELINES.read_text("utf-8")) if BASELINES.exists() else []
    here = builds()
    baseline = next((one for one in baselines if one["builds"] == here), None)
    counts = measured()
    worse = show(counts, baseline["instructions"] if baseline else {})
    if accept:
        others = [one for one in baselines if one is not baseline]
        write(BASELINES, [*others, {"date": today(), "builds": here, "instructions": counts}])
        print(f"the baseline is new: `make measurements`, and commit {BASELINES.relative_to(ROOT)}")
        return 0
    if baseline is None:
        return not_compared(f"there is no baseline for {', '.join(here.values())}")
    if worse:
        print(
            f"more than 5 % more instructions: {'; '.join(worse)}\nFind out why: `git stash` and "
            "run it again, or read `valgrind --tool=callgrind`. Where the work is worth it, "
            "`make instructions ARGS=--accept`, and say why in the commit."
        )
    return int(bool(worse))


def measured():
    """Return the instructions per request of each path, and those of the first call."""
    for name in (*PATHS, "first"):  # bytecode is then there, and a mistake shows at once
        run(name, FEW, [])
    jobs = [(name, requests) for name in PATHS for requests in (FEW, MOST)]
    jobs += [("first", 0), ("first", 1)]
    with ThreadPoolExecutor(2) as pool:
        counts = dict(zip(jobs, pool.map(lambda job: count(*job), jobs), strict=True))
    found = {name: round((counts[name, MOST] - counts[name, FEW]) / (MOST - FEW)) for name in PATHS}
    return {**found, "first": counts["first", 1] - counts["first", 0]}


def count(name, requests):
    """Return how many instructions a process takes that runs a path for so many requests."""
    with tempfile.TemporaryDirectory(prefix="llmeval-instructions-") as folder:
        log = Path(folder) / "log"
        cachegrind = ["valgrind", "--tool=cachegrind", "--cache-sim=no", f"--log-file={log}"]
        run(name, requests, [*cachegrind, "--cachegrind-out-file=/dev/null"])
        found = re.search(r"I +refs: +([\d,]+)", log.read_text("utf-8"))
    if found is None:
        raise SystemExit("this valgrind prints no number of instructions")
    print(f"{name}, {requests} requests: {found[1]}", file=sys.stderr, flush=True)
    return int(found[1].replace(",", ""))


def run(name, requests, under):
    """Run a path in a process of its own, which sees no settings of this one."""
    with tempfile.TemporaryDirectory(prefix="llmeval-instructions-") as folder:
        done = subprocess.run(
            [*under, sys.executable, "-m", "benchmarks.instruction_paths", name, str(requests), folder],
            cwd=ROOT,
            env={
                "PATH": os.environ["PATH"],  # noqa: TID251 - no setting of ours
                "PYTHONPATH": str(ROOT),
                "PYTHONHASHSEED": "0",
                "XDG_STATE_HOME": f"{folder}/state",
            },
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"the path {name!r} broke off:\n{done.stderr[-2_000:]}")


def builds():
    """Return the builds that the counts depend on."""
    options = sysconfig.get_config_var("CONFIG_ARGS") or ""
    tuned = [word for word in ("--enable-optimizations", "--with-lto") if word in options]
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "machine": platform.machine(),
        "compiler": " ".join([platform.python_compiler(), *tuned]),
        "libc": " ".join(platform.libc_ver()),
        "sqlite": f"SQLite {sqlite3.sqlite_version}",
        "rapidfuzz": f"RapidFuzz {version('rapidfuzz')}",
    }


def show(counts, baseline):
    """Print the counts beside the baseline's; return what got worse."""
    print(f"{'instructions per request':<44}{'now':>12}{'baseline':>12}{'ratio':>8}")
    worse = []
    for name, now in counts.items():
        line = f"{TITLES[name]:<44}{now:>12,}"
        if name in baseline:
            ratio = now / baseline[name]
            worse += [TITLES[name]] * (ratio > WORSE)
            line += f"{baseline[name]:>12,}{ratio:>8.3f}{'  WORSE' if ratio > WORSE else ''}"
        print(line)
    return worse


def not_compared(why):
    """Say that nothing was compared; `.ci/suites.py` reads it from the file that it names."""
    message = f"NOT COMPARED: {why}"
    print(
        f"{message}\n`make instructions ARGS=--accept`, on a commit that is known to be good, makes "
        "the counts of this machine a baseline."
    )
    if trouble := os.environ.get("SUITE_TROUBLE"):  # noqa: TID251 - no setting of ours
        with Path(trouble).open("a", encoding="utf-8") as file:
            file.write(f"{message}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
