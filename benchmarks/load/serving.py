"""The service under load as its users run it: two workers, with and without an SDK or an agent."""

import json
import socket
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path

from benchmarks.against import ROOT
from benchmarks.load import judge, traffic
from benchmarks.measures import quantile
from benchmarks.peers import sink


RATE = 50
"""Requests a second that the service gets."""
BESIDE_BARE = {
    "otel": ("OpenTelemetry's SDK", None, None),
    "ours": ("ours", 1.6, 1.4),
    "agent": ("ours, with the agent", 1.1, 1.2),
}
"""What each variant is called, and its bars: processor time and p99 beside the bare service."""
VARIANTS = ("without", *BESIDE_BARE)
REQUESTS_STORED = "SELECT count(*) FROM spans WHERE name = 'answer' AND kind = 'workflow'"


class Run:
    """What one variant gave, over all its rounds."""

    def __init__(self):
        self.times, self.failed, self.dropped = [], 0, Counter()
        self.cpu = self.agent_cpu = self.client = 0.0
        self.at_end = self.at_last = self.store_bytes = self.otlp_bytes = 0

    @property
    def requests(self):
        return len(self.times)

    @property
    def cost(self):
        """Milliseconds of the workers' processor time for a request."""
        return self.cpu / self.requests * 1e3

    @property
    def delays(self):
        """The p50 and p99 of the milliseconds beyond the model's time."""
        times = sorted(self.times)
        return quantile(times, 0.5), quantile(times, 0.99)


def service(bench):
    """Print what a request of the service costs its workers, and how long it takes."""
    runs = {variant: Run() for variant in VARIANTS}
    seconds = bench.seconds(12, 60)
    for number in range(bench.rounds):
        for place in range(len(VARIANTS)):
            variant = VARIANTS[(place + number) % len(VARIANTS)]
            serve(bench, variant, runs[variant], seconds, seed=number)
    show(bench, runs)


def serve(bench, variant, run, seconds, seed):
    """Add to a run what one start of the service gives."""
    ours = {"LLMEVAL_EXPORTERS": "local,otlp", **judge.SETTINGS}
    environment = bench.environment(**(ours if variant in ("ours", "agent") else {}))
    store = Path(environment["LLMEVAL_STORE"])
    kind = "ours" if variant == "agent" else variant
    app = {"LOAD_VARIANT": kind, "LOAD_FOLDER": str(store.parent)}
    running_agent = nullcontext([])
    if variant == "agent":
        environment["LLMEVAL_SPOOL"] = str(store.parent / "spool")
        app["LLMEVAL_WORKER"] = "off"
        running_agent = agent(environment)
    with running_agent as agents, uvicorn({**environment, **app}, store.parent) as (port, workers):

        def work_off(load):
            """Wait until all of a load is in the store; return what was dropped, by reason."""
            dropped = tell(store.parent, "flush")
            if agents:
                settle(lambda: stored(store), before + len(load.times))
            return dropped

        before = 0
        work_off(traffic.run(port, 10, 2, seed=100))
        sink.count(bench.otlp)  # begins anew
        cpu, agent_cpu = traffic.processor_seconds(workers), traffic.processor_seconds(agents)
        before = stored(store)
        load = traffic.run(port, RATE, seconds, seed)
        run.at_end += stored(store) - before
        run.dropped += work_off(load)
        run.at_last += stored(store) - before
        run.cpu += traffic.processor_seconds(workers) - cpu
        run.agent_cpu += traffic.processor_seconds(agents) - agent_cpu
    run.otlp_bytes += sink.count(bench.otlp)["bytes"]
    if requests := stored(store):
        taken = sum(file.stat().st_size for file in store.parent.glob("store.db*"))
        run.store_bytes += taken * len(load.times) / requests  # without those of the warm-up
    run.times += load.times
    run.failed += load.failed
    run.client = load.own_share


@contextmanager
def uvicorn(environment, folder):
    """Run two workers for the block; give the port and the workers' process ids."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        listener.set_inheritable(True)
        command = [sys.executable, "-m", "uvicorn", "--workers", "2", "--log-level", "warning"]
        process = subprocess.Popen(
            [*command, "--fd", str(listener.fileno()), "benchmarks.load.service:app"],
            cwd=ROOT, env=environment, close_fds=False, start_new_session=True,
        )  # fmt: skip
        try:
            settle(lambda: len(list(folder.glob("*.sock"))), 2)
            workers = [int(path.stem) for path in folder.glob("*.sock")]
            if len(workers) < 2:
                raise SystemExit("the service did not start within a minute")
            yield listener.getsockname()[1], workers
        finally:
            process.terminate()
            process.wait(60)


@contextmanager
def agent(environment):
    """Run `llmeval agent` for the block; give its process id in a list."""
    command = [sys.executable, "-m", "llmeval_sdk", "agent", "--import", "benchmarks.load.judge"]
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    try:
        yield [process.pid]
    finally:
        process.terminate()
        process.wait(60)


def tell(folder, what):
    """Have all workers flush, or not, and return what they dropped, by reason."""
    dropped = Counter()
    for path in folder.glob("*.sock"):
        with socket.socket(socket.AF_UNIX) as worker:
            worker.connect(str(path))
            worker.sendall(f"{what}\n".encode())
            with worker.makefile() as answer:
                dropped.update(json.load(answer))
    return dropped


def stored(store):
    """Return how many requests stand in a store; judges have spans of their own."""
    with (
        suppress(sqlite3.OperationalError),
        closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection,  # noqa: TID251
    ):
        return connection.execute(REQUESTS_STORED).fetchone()[0]
    return 0


def settle(read, wanted, patience=60):
    """Wait until a number is as large as wanted, or until patience ends."""
    until = time.monotonic() + patience
    while read() < wanted and time.monotonic() < until:
        time.sleep(0.05)


def show(bench, runs):
    """Print the variants beside the service without an SDK."""
    row, bare = bench.table.row, runs["without"]
    row(f"service at {RATE}/s, two workers, without: processor time", f"{bare.cost:.1f} ms each")
    row("without: beyond the model's time, p50 · p99", "{:.0f} · {:.0f} ms".format(*bare.delays))
    row("without: the client's share of a core", f"{bare.client:.2f}")
    for variant, (name, cpu_bar, delay_bar) in BESIDE_BARE.items():
        run = runs[variant]
        half, most = run.delays
        cpu, delay = run.cost / bare.cost, most / bare.delays[1]
        bench.at_most(f"{name}: processor time beside without", cpu, cpu_bar, "×", f"({run.cost:.1f} ms)")  # fmt: skip
        bench.at_most(f"{name}: p99 beside without", delay, delay_bar, "×", f"({half:.0f} · {most:.0f} ms)")  # fmt: skip
        row(f"{name}: OTLP a thousand requests", f"{run.otlp_bytes / run.requests / 1e3:.1f} MB")
        if variant == "otel":
            continue
        row(f"{name}: store a thousand requests", f"{run.store_bytes / run.requests / 1e3:.1f} MB")
        there = f"{run.at_end / run.requests:.1%} · {run.at_last / run.requests:.1%}"
        row(f"{name}: in the store at the end · after a flush", there)
        row(f"{name}: records dropped", str(dict(run.dropped) or "none"))
    agent_ms = runs["agent"].agent_cpu / runs["agent"].requests * 1e3
    row("the agent's own processor time", f"{agent_ms:.1f} ms each")
    bench.at_most("requests that failed", sum(run.failed for run in runs.values()), 0, "")
