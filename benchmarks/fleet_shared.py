"""What one budget for all hosts costs, and whether it is exact while hosts and Redis are killed.

    python -m benchmarks.fleet_shared [--seconds 120]

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
from statistics import mean


sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
from redis_server import SERVER, WHY_SKIPPED, running_redis
from shared_hosts import Hosts, limiter_of, most_in_a_minute

from benchmarks import fleet_model
from llmeval_sdk.evaluation.admission import Refused
from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.evaluation.limiter import BudgetLimiter
from llmeval_sdk.store.state import HostLedger


PLENTY = Budget(calls_per_minute=1e9, tokens_per_minute=None, usd_per_day=1e6)
PRICE = {"tokens": 1_000, "usd": 0.001}
RATIO_BAR = 1.5
"""A reservation out of a lease may take this much of one of the host's ledger, which it contains."""


def microseconds(limiter, times=400, *, ahead=False):
    """Return the mean CPU time of a reservation and its settlement on the caller's thread.

    With ``ahead`` the books are written for several calls at a time, as the judges of one host do.
    """
    figures = []
    for _ in range(times):
        begun = time.thread_time()
        granted = limiter.reserve("judge", **PRICE, ahead=ahead)
        if isinstance(granted, Refused):
            time.sleep(0.05)
            continue
        limiter.settle(granted, calls=1, tokens=500, usd=0.0005, later=True)
        figures.append((time.thread_time() - begun) * 1e6)
    return mean(figures)


def opened(folder, server, budget=PLENTY, **options):
    """Return a limiter whose budget is open."""
    limiter = limiter_of(folder, server.address, budget=budget, rebuild=2.0, **options)
    while isinstance(granted := limiter.reserve("judge", **PRICE), Refused):
        time.sleep(0.05)
    limiter.settle(granted, tokens=500, usd=0.0005)
    return limiter


def cost(folder):
    """Compare the limiters; return the means of one host, one host ahead, and all hosts."""
    alone = BudgetLimiter(PLENTY, HostLedger(folder / "alone" / "llmeval.ledger"))
    (folder / "alone").mkdir()
    with running_redis(folder / "redis") as server:
        shared = opened(folder / "host", server)
        figures = microseconds(alone), microseconds(alone, ahead=True), microseconds(shared)
        shared.close()
    alone.close()
    return figures


def redis_load(folder, processes, rate, seconds=8.0):
    """Return what Redis did for limiters that each make ``rate`` judgements a second."""
    with running_redis(folder / f"redis-{processes}-{rate}") as server:
        limiters = [
            opened(folder / f"host-{processes}-{rate}-{place}", server, beat=2.0)
            for place in range(processes)
        ]
        settle = time.monotonic() + 3.0  # until the leases are as large as this pace needs
        made = 0
        before = None
        end = settle + seconds
        due = time.monotonic()
        while (now := time.monotonic()) < end:
            if before is None and now >= settle:
                before, made = fleet_model.counters(server.client()), 0
            for limiter in limiters:
                granted = limiter.reserve("judge", **PRICE)
                if not isinstance(granted, Refused):
                    limiter.settle(granted, tokens=500, usd=0.0005)
                    made += 1
            due += 1 / rate
            time.sleep(max(due - time.monotonic(), 0))
        after = fleet_model.counters(server.client())
        memory = server.client().info("memory")["used_memory_dataset"]
        for limiter in limiters:
            limiter.close()
    return fleet_model.Point(
        processes=processes,
        rate=made / seconds / processes,
        exchanges=(after.exchanges - before.exchanges) / seconds,
        cpu=(after.cpu - before.cpu) / seconds,
        script_us=(after.script_us - before.script_us) / max(after.exchanges - before.exchanges, 1),
        bytes=memory,
    )


def under_fire(folder, seconds):
    """Kill four hosts and Redis at random; return what was spent, and what had to hold."""
    chance = random.Random(20)
    usd_per_day, calls_per_minute = 6.0, 600
    spender = {
        "budget": {"calls_per_minute": calls_per_minute, "usd_per_day": usd_per_day},
        "usd": 0.004, "tokens": 100, "pause": 0.02, "concurrency": 4,
    }  # fmt: skip
    with running_redis(folder / "redis-fire", "--appendonly", "yes") as server:
        hosts = Hosts(folder / "fire", server.address)
        running = {name: hosts.start(name, seconds + 60, **spender) for name in "abcd"}
        kills = {"hosts": 0, "Redis": 0, "flushes": 0}
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(chance.uniform(2, 12))
            fault = chance.random()
            if fault < 0.6:
                name = chance.choice("abcd")
                running[name].kill()
                running[name].wait()
                running[name] = hosts.start(name, seconds + 60, **spender)
                kills["hosts"] += 1
            elif fault < 0.9:
                server.kill()
                time.sleep(chance.uniform(0, 2))
                server.start()
                kills["Redis"] += 1
            else:
                server.flush()
                kills["flushes"] += 1
        hosts.kill()
    calls = hosts.calls()
    return {
        "kills": kills,
        "calls": len(calls),
        "spent": sum(call["usd"] for call in calls),
        "usd_per_day": usd_per_day,
        "most": most_in_a_minute(calls),
        "calls_per_minute": calls_per_minute,
        "at_a_time": hosts.at_a_time(),
        "concurrency": 4,
    }


def verdict_bytes(server_folder):
    """Return what one verdict takes in Redis."""
    from llmeval_sdk.evaluation.verdicts import VerdictKey
    from llmeval_sdk.model import Evaluation
    from llmeval_sdk.plugins.shared.verdicts import SharedVerdicts

    with running_redis(server_folder) as server:
        limiter = opened(server_folder / "host", server)
        verdicts = SharedVerdicts(limiter.link)
        before = server.client().info("memory")["used_memory"]
        text = "The answer names a year that no passage holds. " * 4
        for number in range(200):
            key = VerdictKey(number.to_bytes(16, "big"), lasts=True)
            verdicts.put(key, Evaluation("groundedness", 0.5, explanation=text))
        while limiter.link.counts.snapshot().get("verdicts shared", 0) < 200:
            time.sleep(0.01)
        after = server.client().info("memory")["used_memory"]
        limiter.close()
    return (after - before) / 200


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=120.0, help="how long hosts are killed")
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
        alone, ahead, shared = cost(folder)
        show("reserve and settle, budget of one host, CPU", f"{alone:.0f} µs")
        show("the same for several calls at a time, as judges of one host do", f"{ahead:.0f} µs")
        ratio = shared / alone
        check("the same out of a lease of all hosts, CPU", ratio <= RATIO_BAR,
              f"{shared:.0f} µs = {ratio:.2f}", f"<= {RATIO_BAR}")  # fmt: skip
        first = redis_load(folder, 2, 20)
        second = redis_load(folder, 6, 60)
        for point in (first, second):
            show(f"{point.processes} processes, {point.rate:.0f} judgements a second each: "
                 "exchanges a second", f"{point.exchanges:.2f}")  # fmt: skip
            show("  exchanges for a judgement",
                 f"{point.exchanges / point.rate / point.processes:.4f}")  # fmt: skip
            show("  Redis' time for an exchange", f"{point.script_us:.0f} µs")
        show(
            "a verdict of 200 characters takes in Redis", f"{verdict_bytes(folder / 'v'):.0f} bytes"
        )
        model = fleet_model.Model.fitted(first)
        for what, predicted, measured in model.compare(second):
            off = predicted / measured - 1 if measured else 0.0
            check(f"model, fitted on the first point: {what} of the second",
                  abs(off) <= fleet_model.BAR, f"{predicted:.2f} for {measured:.2f}",
                  f"within {fleet_model.BAR:.0%}")  # fmt: skip
        fire = under_fire(folder, arguments.seconds)
        words = ", ".join(f"{times} {what}" for what, times in fire["kills"].items())
        show(f"four hosts under fire for {arguments.seconds:g} s ({words}): calls", fire["calls"])
        for what, most in (("spent", "usd_per_day"), ("most", "calls_per_minute"),
                           ("at_a_time", "concurrency")):  # fmt: skip
            check(f"  {what.replace('_', ' ')} of the {most.replace('_', ' ')}",
                  fire[what] <= fire[most] + 1e-9, f"{fire[what]:.4g} of {fire[most]:g}", "never above")  # fmt: skip
        print()
        model.print_table()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
