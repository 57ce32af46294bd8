"""Hosts that share one budget: processes with folders, ledgers and clocks of their own.

    python shared_hosts.py ADDRESS FOLDER REFUSALS OPTIONS

spends as much as it may until it was refused so often, and writes one line for each call it made:
when it began, and what it cost.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from llmeval_sdk.evaluation.admission import Refused
from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.evaluation.limiter import BudgetLimiter
from llmeval_sdk.plugins.shared.counters import RedisCounters
from llmeval_sdk.plugins.shared.redis_client import RedisThread
from llmeval_sdk.plugins.shared.settings import RedisAddress
from llmeval_sdk.store.state import HostLedger


def limiter_of(folder, address, *, budget, beat=0.1):
    """Return the limiter of one process of the host whose ledger stands in a folder."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return BudgetLimiter(
        budget,
        HostLedger(folder / "llmeval.ledger", timeout=30.0),
        all_hosts=RedisCounters(RedisThread(RedisAddress(address), beat=beat)),
    )


def asked(limiter, judge="judge", **wanted):
    """Reserve something, and wait for what the other hosts say."""
    reserved = limiter.reserve(judge, **wanted)
    if isinstance(reserved, Refused):
        return reserved
    return limiter.confirm_now(reserved) or reserved


def spend(address, folder, refusals, options):
    """Call a model that costs money for as long as it is allowed, and write down each call."""
    late = options.pop("clock_is_late_by", 0)
    real = time.time
    time.time = lambda: real() - late
    budget = Budget(**options.pop("budget"))
    usd, worst = options.pop("usd"), options.pop("worst")
    limiter = limiter_of(folder, address, budget=budget)
    deadline = time.monotonic() + 100
    with (Path(folder) / f"calls-{os.getpid()}.jsonl").open("a", buffering=1) as calls:
        while refusals and time.monotonic() < deadline:
            granted = asked(limiter, tokens=10, usd=worst)
            if isinstance(granted, Refused):
                calls.write(json.dumps({"refused": granted.detail}) + "\n")
                refusals -= 1
                continue
            calls.write(json.dumps({"began": real(), "usd": usd}) + "\n")
            limiter.settle(granted, tokens=10, usd=usd)
    limiter.close()


class Hosts:
    """Processes that spend, each on a host of its own unless they are told the same folder."""

    def __init__(self, folder, address):
        self.folder, self.address = Path(folder), address
        self.processes = []

    def start(self, name, refusals=20, **options):
        """Start a process on the host of this name."""
        (self.folder / name).mkdir(parents=True, exist_ok=True)
        arguments = [self.address, str(self.folder / name), str(refusals), json.dumps(options)]
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
    spend(sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4]))
