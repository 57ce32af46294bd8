"""What one budget for all hosts costs, and whether it is exact while hosts are killed.

    python -m benchmarks.fleet_shared [--seconds 60]

It stands beside the budget of one host, in the same run; times are CPU time where it says so. What
follows for fleets that fit no test machine is worked out by `benchmarks.fleet_model`, and stands in
docs/concepts/capacity.md.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path


sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
from redis_server import SERVER, WHY_SKIPPED, running_redis
from shared_hosts import Hosts, asked, limiter_of, most_in_a_minute

from benchmarks import fleet_model
from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.evaluation.limiter import BudgetLimiter
from llmeval_sdk.store.state import HostLedger


PLENTY = Budget(calls_per_minute=1e9, tokens_per_minute=None, usd_per_day=1e6)
PRICE = {"tokens": 1_000, "usd": 0.001}
RATIO_BAR = 4.0
"""What one call takes of the judges' thread with all hosts, by what it takes with one."""


def microseconds(limiter, times=400):
    """Return the mean CPU time of a reservation, its answer and its settlement: thread, process."""
    thread, process = time.thread_time(), time.process_time()
    for _ in range(times):
        limiter.settle(asked(limiter, **PRICE), calls=1, tokens=500, usd=0.0005, later=True)
    thread, process = time.thread_time() - thread, time.process_time() - process
    return thread / times * 1e6, process / times * 1e6


def cost(folder):
    """Return both figures of a budget of one host, and of all hosts with the commands of a call."""
    (folder / "alone").mkdir()
    alone = BudgetLimiter(PLENTY, HostLedger(folder / "alone" / "llmeval.ledger"))
    with running_redis(folder / "redis") as server:
        shared = limiter_of(folder / "host", server.address, budget=PLENTY)
        microseconds(shared, 20)
        before = server.client().info("stats")["total_commands_processed"]
        figures = microseconds(alone), microseconds(shared)
        shared.close()
        after = server.client().info("stats")["total_commands_processed"]
    alone.close()
    return *figures, (after - before) / 400


def under_fire(folder, seconds):
    """Kill four hosts at random; return what was spent, and what had to hold."""
    chance = random.Random(20)
    budget = {"calls_per_minute": 600, "usd_per_day": 6.0}
    spender = {"refusals": 10**9, "budget": budget, "usd": 0.004, "worst": 0.006}
    with running_redis(folder / "redis-fire") as server:
        hosts = Hosts(folder / "fire", server.address)
        running = {name: hosts.start(name, **spender) for name in "abcd"}
        kills, end = 0, time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(chance.uniform(2, 12))
            name = chance.choice("abcd")
            running[name].kill()
            running[name].wait()
            running[name] = hosts.start(name, **spender)
            kills += 1
        hosts.kill()
    calls = hosts.calls()
    return kills, len(calls), sum(call["usd"] for call in calls), most_in_a_minute(calls)


def verdict_bytes(server_folder):
    """Return what one verdict takes in Redis."""
    from llmeval_sdk.evaluation.verdicts import VerdictKey, Verdicts
    from llmeval_sdk.model import Evaluation
    from llmeval_sdk.plugins.shared.redis_client import RedisThread
    from llmeval_sdk.plugins.shared.settings import RedisAddress
    from llmeval_sdk.plugins.shared.verdicts import RedisVerdicts

    with running_redis(server_folder) as server:
        link = RedisThread(RedisAddress(server.address))
        verdicts = Verdicts(place=RedisVerdicts(link))
        before = server.client().info("memory")["used_memory"]
        text = "The answer names a year that no passage holds. " * 4
        for number in range(200):
            key = VerdictKey(number.to_bytes(16, "big"), lasts=True)
            verdicts.put(key, Evaluation("groundedness", 0.5, explanation=text))
        while link.counts.snapshot().get("verdicts shared", 0) < 200:
            time.sleep(0.01)
        after = server.client().info("memory")["used_memory"]
        link.close()
    return (after - before) / 200


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="how long hosts are killed")
    arguments = parser.parse_args()
    if SERVER is None:
        print(WHY_SKIPPED)
        return 1
    missed = []

    def show(what, figure, bar=""):
        print(f"{what:<62} {figure:>20}  {bar}", flush=True)

    def check(what, holds, figure, bar):
        show(what, figure, f"{bar}{'' if holds else '  MISSED'}")
        if not holds:
            missed.append(what)

    with tempfile.TemporaryDirectory(prefix="llmeval-fleet-") as name:
        folder = Path(name)
        alone, shared, commands = cost(folder)
        show("reserve and settle, budget of one host, CPU", f"{alone[0]:.0f} µs")
        ratio = shared[0] / alone[0]
        check("the same counted with all hosts, CPU of the judges' thread", ratio <= RATIO_BAR,
              f"{shared[0]:.0f} µs = {ratio:.2f}", f"<= {RATIO_BAR}")  # fmt: skip
        show("  with the thread that talks to Redis", f"{shared[1]:.0f} µs")
        show("  commands of Redis for a call", f"{commands:.1f}")
        show(
            "a verdict of 200 characters takes in Redis", f"{verdict_bytes(folder / 'v'):.0f} bytes"
        )
        kills, calls, spent, most = under_fire(folder, arguments.seconds)
        show(f"four hosts for {arguments.seconds:g} s, {kills} of them killed: calls", f"{calls:,}")
        check("  dollars", spent <= 6.0 + 1e-9, f"{spent:.3f} of 6", "never above")
        check("  calls in any minute", most <= 600, f"{most} of 600", "never above")
        print()
        fleet_model.print_table(commands)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
