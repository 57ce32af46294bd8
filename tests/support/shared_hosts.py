"""Hosts that share one budget: processes with folders, ledgers and clocks of their own.

    python shared_hosts.py ADDRESS FOLDER SECONDS OPTIONS

spends as much as it may, and writes one line for each call it made: when it began and ended, its
judge and what it cost.
"""

import json
import os
import subprocess
import sys
import time
from itertools import cycle
from pathlib import Path

from llmeval_sdk.evaluation.admission import Refused
from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.plugins.shared.limiter import Host, SharedLimiter
from llmeval_sdk.plugins.shared.redis_client import RedisThread
from llmeval_sdk.plugins.shared.settings import RedisAddress
from llmeval_sdk.store.state import HostLedger


LEASE, REBUILD = 1.5, 5.0
"""Shorter than in production, so that tests see them end; REBUILD is longer than LEASE and 2 s."""


def limiter_of(folder, address, *, budget, **options):
    """Return the limiter of one process of the host whose ledger stands in a folder."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    options = {"lease": LEASE, "rebuild": REBUILD, "longest": 2.0, **options}
    return SharedLimiter(
        budget,
        HostLedger(folder / "llmeval.ledger", timeout=5.0),
        host=Host(HostLedger(folder / "llmeval.ledger", "hosts", timeout=5.0)),
        link=RedisThread(RedisAddress(address), beat=options.pop("beat", 0.3)),
        **options,
    )


def spend(address, folder, seconds, options):
    """Call a model that costs money for as long as it is allowed, and write down each call."""
    late = options.pop("clock_is_late_by", 0)
    real = time.time
    time.time = lambda: real() - late
    budget = options.pop("budget")
    groups = [Budget(**group) for group in budget.pop("groups", ())]
    tenants = cycle(options.pop("tenants", [None]))
    budget = Budget(**budget, groups=groups)
    usd, tokens, pause = options.pop("usd"), options.pop("tokens"), options.pop("pause", 0.002)
    limiter = limiter_of(folder, address, budget=budget, **options)
    end = time.monotonic() + seconds
    with (Path(folder) / f"calls-{os.getpid()}.jsonl").open("a", buffering=1) as calls:
        while time.monotonic() < end:
            tenant = next(tenants)
            tags = {"tenant": tenant} if tenant else {}
            granted = limiter.reserve("judge", tokens=tokens, usd=usd, tags=tags)
            if isinstance(granted, Refused):
                calls.write(json.dumps({"refused": granted.detail, "at": real()}) + "\n")
                time.sleep(min(granted.retry_after or 0.05, 0.05))  # as a rate limiter would
                continue
            began = real()
            call = {"began": began, "usd": usd, "tokens": tokens, "tenant": tenant}
            calls.write(json.dumps(call) + "\n")
            time.sleep(pause)  # the call
            calls.write(json.dumps({"ended": real(), "of": began}) + "\n")
            limiter.settle(granted, tokens=tokens, usd=usd)
    limiter.close()


class Hosts:
    """Processes that spend, each on a host of its own unless they are told the same folder."""

    def __init__(self, folder, address):
        self.folder, self.address = Path(folder), address
        self.processes = []

    def start(self, name, seconds, **options):
        """Start a process on the host of this name."""
        (self.folder / name).mkdir(parents=True, exist_ok=True)
        arguments = [self.address, str(self.folder / name), str(seconds), json.dumps(options)]
        process = subprocess.Popen([sys.executable, __file__, *arguments])
        self.processes.append(process)
        return process

    def wait(self, seconds=120):
        """Wait until all have ended by themselves, or were killed."""
        for process in self.processes:
            process.wait(seconds)

    def kill(self):
        for process in self.processes:
            process.kill()
            process.wait()

    def lines(self):
        for path in self.folder.glob("*/calls-*.jsonl"):
            for line in path.read_text().splitlines():
                try:
                    yield json.loads(line)
                except ValueError:  # the process was killed while it wrote
                    assert not line.endswith("}")

    def calls(self):
        """Return all calls that were made, oldest first."""
        return sorted((c for c in self.lines() if "began" in c), key=lambda c: c["began"])

    def refusals(self):
        return [line["refused"] for line in self.lines() if "refused" in line]

    def at_a_time(self):
        """Return how many calls were under way at most."""
        ended = {c["of"]: c["ended"] for c in self.lines() if "ended" in c}
        moments = sorted(
            [(c["began"], 1) for c in self.calls()]
            + [(ended.get(c["began"], c["began"]), -1) for c in self.calls()],
            key=lambda moment: (moment[0], -moment[1]),
        )
        now = most = 0
        for _, change in moments:
            now += change
            most = max(most, now)
        return most


def most_in_a_minute(calls, amount=lambda call: 1):
    """Return the most calls, or the most of what they used, in any 60 seconds."""
    most = total = first = 0
    for call in calls:
        total += amount(call)
        while calls[first]["began"] <= call["began"] - 60:
            total -= amount(calls[first])
            first += 1
        most = max(most, total)
    return most


if __name__ == "__main__":
    spend(sys.argv[1], sys.argv[2], float(sys.argv[3]), json.loads(sys.argv[4]))
