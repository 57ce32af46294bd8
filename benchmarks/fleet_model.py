"""What a fleet of any size asks of Redis and of its judges: arithmetic from a measured point.

The model has two constants that are measured on one point and hold for every other one, which
`benchmarks.fleet_shared` checks on a second point that it was not fitted on:

- a process exchanges its lease at a fixed pace, however many judgements it makes;
- an exchange takes Redis a time that does not depend on the number of processes.

The rest is arithmetic: Little's law for judges, and prices.
"""

from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from llmeval_sdk.model import DAY_SECONDS
from llmeval_sdk.plugins.shared.verdicts import MAX_ENTRIES, SECONDS


BAR = 0.35
JUDGED_SHARE = 0.02
"""Part of the requests that is judged."""
JUDGE_SECONDS = 0.5
CONCURRENCY = 8
"""Calls at a time in a process, `LLMEVAL_JUDGE_CONCURRENCY`."""
REQUESTS_OF_A_PROCESS = 50
"""Requests a second that a process of the app serves."""
USD_A_CALL = 0.0005
RECORD_BYTES = 4_000
"""With five passages of 500 characters; the local store keeps it, an exporter sends it."""
VERDICT_BYTES = 1_100
"""In Redis, as `benchmarks.fleet_shared` prints it."""
COMMANDS_OF_A_VERDICT = 3
"""One asks for it, two keep it."""


class Counters(NamedTuple):
    """What Redis counts."""

    exchanges: int
    script_us: float
    cpu: float


class Point(NamedTuple):
    """What was measured with some processes at some pace."""

    processes: int
    rate: float
    exchanges: float
    """In a second, over all processes."""
    cpu: float
    script_us: float
    bytes: int


def counters(client):
    """Read the counters of a server."""
    stats = client.info("commandstats")
    calls = sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("eval", "evalsha"))
    usec = sum(stats.get(f"cmdstat_{name}", {}).get("usec", 0) for name in ("eval", "evalsha"))
    cpu = client.info("cpu")
    return Counters(calls, usec, cpu["used_cpu_user"] + cpu["used_cpu_sys"])


@dataclass(frozen=True)
class Model:
    """The two constants."""

    exchanges_of_a_process: float
    seconds_of_an_exchange: float

    @classmethod
    def fitted(cls, point):
        return cls(point.exchanges / point.processes, point.script_us / 1e6)

    def exchanges(self, processes):
        return processes * self.exchanges_of_a_process

    def busy(self, processes):
        """Return the part of its one thread that Redis spends on exchanges."""
        return self.exchanges(processes) * self.seconds_of_an_exchange

    def compare(self, point):
        """Yield what the model says of a point beside what was measured there."""
        yield "exchanges a second", self.exchanges(point.processes), point.exchanges
        measured = point.exchanges * point.script_us / 1e6
        yield "Redis' busy time, ms a second", self.busy(point.processes) * 1e3, measured * 1e3

    def row(self, requests):
        """Return what a fleet needs that serves so many requests a second."""
        judged = requests * JUDGED_SHARE
        under_way = judged * JUDGE_SECONDS
        workers = max(1, ceil(under_way / CONCURRENCY))
        apps = max(1, ceil(requests / REQUESTS_OF_A_PROCESS))
        kept = min(judged * SECONDS, MAX_ENTRIES)
        verdicts = judged * COMMANDS_OF_A_VERDICT
        return {
            "requests a second": f"{requests:,}",
            "records a second, MB": f"{requests * RECORD_BYTES / 1e6:,.2f}",
            "judge calls a second": f"{judged:,.1f}",
            "calls under way": f"{under_way:,.1f}",
            "waiting after a minute without Redis": f"{judged * 60:,.0f}",
            "USD a day, if nothing limits it": f"{judged * DAY_SECONDS * USD_A_CALL:,.0f}",
            "verdicts kept in Redis, MB": f"{kept * VERDICT_BYTES / 1e6:,.1f}",
            "app processes": f"{apps:,}",
            "Redis commands a second, each app judges": f"{self.exchanges(apps) + verdicts:,.0f}",
            "Redis busy with exchanges, each app judges": f"{self.busy(apps):.1%}",
            "judging workers": f"{workers:,}",
            "Redis commands a second, workers judge": f"{self.exchanges(workers) + verdicts:,.0f}",
            "Redis busy with exchanges, workers judge": f"{self.busy(workers):.1%}",
        }

    def print_table(self):
        """Print the rows for three sizes; the page on capacity holds them."""
        rows = [self.row(requests) for requests in (10, 1_000, 100_000)]
        for what in rows[0]:
            print(f"{what:<44} " + " ".join(f"{row[what]:>16}" for row in rows))
