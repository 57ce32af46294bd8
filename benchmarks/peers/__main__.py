"""Measure us and our peers and print a table; ``--chart FILE`` draws it, ``--json FILE`` keeps it.

Every round runs every case of every peer once, in a process of its own, one after the other, so that
a slow moment of the machine meets them all; each figure is the median of the rounds. What they send
goes to a sink on this machine. The first run makes the environments and needs a package index.

    python -m benchmarks.peers [--rounds N] [--chart FILE] [--json FILE]
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from threading import Timer
from typing import NamedTuple

from benchmarks.peers import sink
from benchmarks.peers.environments import CONTENDERS, ROOT, installed_mb, python_of
from benchmarks.peers.show import chart, table
from benchmarks.recorded import keep


EXIT_SECONDS = 30.0
"""A process that has not ended by then is killed and counted with this time, as Kubernetes does."""
CALLS_SECONDS = 180.0
"""A process whose calls are not over by then fails the run."""


class Case(NamedTuple):
    """One thing that is measured: which call, against which far end."""

    name: str
    call: str
    backend: str
    count: int
    pace: float


CASES = (
    Case("small", "small", "healthy", 2_000, 0.001),
    Case("large", "large", "healthy", 500, 0.005),
    Case("scored", "scored", "healthy", 1_000, 0.002),
    Case("closed", "small", "closed", 1_000, 0.001),
    Case("hanging", "small", "hanging", 1_000, 0.001),
)


def measure(contender, case, url):
    """Run one process; return its figures, with its exit and what arrived."""
    ends = ["--flush"] if case.backend == "healthy" else []
    numbers = [str(case.count), str(case.pace)]
    command = [python_of(contender), "-W", "ignore", "-m", "benchmarks.peers.child"]
    kept = {name: os.environ[name] for name in ("PATH", "HOME")}  # noqa: TID251 - no settings of ours
    with subprocess.Popen(
        [*command, contender.adapter, url, case.call, *numbers, *ends], cwd=ROOT, text=True,
        env=kept, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        watchdog = Timer(CALLS_SECONDS, process.kill)
        watchdog.start()
        said = process.stdout.readline()
        watchdog.cancel()
        begun = time.monotonic()
        try:
            process.wait(EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
    if not said:
        raise SystemExit(f"{contender.title} failed in the case {case.name!r}: {command}")
    found = json.loads(said)
    found["exit"] = time.monotonic() - begun
    if case.backend == "healthy":
        found |= sink.count(url)
    return found


def closed_port():
    """Return the address of a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def run(rounds):
    """Return the medians by peer and case."""
    runs = {}
    with sink.running() as healthy, sink.running("--hang") as hanging:
        backends = {"healthy": healthy, "hanging": hanging, "closed": closed_port()}
        for number in range(1, rounds + 1):
            for case in CASES:
                for contender in CONTENDERS:
                    if case.call == "scored" and not contender.scores:
                        continue
                    found = measure(contender, case, backends[case.backend])
                    runs.setdefault((contender.adapter, case.name), []).append(found)
            print(f"round {number} of {rounds} is done", file=sys.stderr)
    return {
        key: {name: median(each[name] for each in found) for name in found[0]}
        for key, found in runs.items()
    }


def kept(figures, rounds):
    """Return the figures as `keep` takes them: the peers in their order, with their versions."""
    peers = [
        {
            "adapter": contender.adapter,
            "title": contender.title,
            "installed_mb": round(installed_mb(contender), 1),
            "cases": {
                case: {name: round(value, 3) for name, value in found.items()}
                for (adapter, case), found in figures.items()
                if adapter == contender.adapter
            },
        }
        for contender in CONTENDERS
    ]
    return {"rounds": rounds, "exit_limit_s": EXIT_SECONDS, "peers": peers}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--chart", type=Path, metavar="FILE")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    for contender in CONTENDERS:
        python_of(contender)
    figures = run(options.rounds)
    print(table(CONTENDERS, figures, options.rounds))
    if options.chart is not None:
        options.chart.parent.mkdir(exist_ok=True)
        options.chart.write_text(chart(CONTENDERS, figures), encoding="utf-8")
    if options.json is not None:
        keep(options.json, "make bench-peers", kept(figures, options.rounds))


if __name__ == "__main__":
    main()
