"""One budget for all hosts is never overdrawn, whatever fails: real processes, a real Redis."""

import random
import time

import pytest
from redis_server import SERVER, WHY_SKIPPED, running_redis
from shared_hosts import LEASE, REBUILD, Hosts, limiter_of, most_in_a_minute

from llmeval_sdk.evaluation.admission import Refused
from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.evaluation.limiter import BudgetLimiter
from llmeval_sdk.store.state import HostLedger


DOLLARS = {"calls_per_minute": None, "usd_per_day": 2.0}
SPENDER = {"budget": DOLLARS, "usd": 0.004, "tokens": 100}


@pytest.fixture
def hosts(tmp_path, redis):
    made = Hosts(tmp_path / "hosts", redis.address)
    yield made
    made.kill()


def spent(hosts):
    return sum(call["usd"] for call in hosts.calls())


def wait_until(what, seconds=60):
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def is_open_again(hosts, since):
    """Say whether somebody was granted a call, or refused for what was really used."""
    return any(
        line.get("began", 0) > since or (line.get("at", 0) > since and "used up" in line["refused"])
        for line in hosts.lines()
        if "began" in line or " over all hosts: " in line.get("refused", "")
    )


def test_the_dollars_of_a_day_are_spent_once_by_all_hosts_together(hosts):
    """Three hosts whose clocks differ by minutes spend the whole total, and not a cent more."""
    for place, late in enumerate((0, 400, -700)):
        hosts.start(f"host{place}", 16, **SPENDER, clock_is_late_by=late)
    hosts.start("host0", 16, **SPENDER)  # a second process of the same host
    hosts.wait()
    assert 1.9 < spent(hosts) <= 2.0 + 1e-9
    assert any("USD 2 a day are used up" in words for words in hosts.refusals())


def test_calls_tokens_and_calls_at_a_time_hold_over_all_hosts(hosts):
    """No minute has a call or a token too many, and no moment has a call too many."""
    budget = {"calls_per_minute": 90, "tokens_per_minute": 8_000, "usd_per_day": None}
    for place in range(4):
        hosts.start(
            f"host{place}", 16, budget=budget, usd=0.001, tokens=100, pause=0.05, concurrency=2
        )
    hosts.wait()
    calls = hosts.calls()
    assert 70 <= most_in_a_minute(calls) <= 80  # which 8,000 tokens pay for
    assert most_in_a_minute(calls, lambda call: call["tokens"]) <= 8_000
    assert 1 <= hosts.at_a_time() <= 2


def test_without_redis_a_host_spends_its_lease_and_then_says_why_not(hosts, redis):
    """While Redis is away nobody spends more than was leased, and a new host spends nothing."""
    for place in range(2):
        hosts.start(f"host{place}", 22, **SPENDER, pause=0.05)
    wait_until(lambda: len(hosts.calls()) > 20)
    redis.kill()
    gone = time.time()
    hosts.start("new", 5, **SPENDER)
    hosts.wait()
    last = hosts.calls()[-1]["began"]
    assert last - gone < 1.5, "nothing is spent after the lease has ended"
    assert not list((hosts.folder / "new").glob("*.jsonl")) or not [
        line for line in (hosts.folder / "new").glob("*.jsonl") if '"began"' in line.read_text()
    ]
    assert any("has been away for" in words for words in hosts.refusals())


def test_after_a_flush_nobody_pays_until_the_spend_is_rebuilt(hosts, redis):
    """The hosts' own ledgers say what was spent: the total is what it was."""
    for place in range(3):
        hosts.start(f"host{place}", 30, **SPENDER, pause=0.05)
    wait_until(lambda: spent(hosts) > 0.8)
    redis.flush()
    lost = time.time()
    hosts.wait()
    assert 1.7 < spent(hosts) <= 2.0 + 1e-9
    quiet = [call for call in hosts.calls() if lost + 1.6 < call["began"] < lost + REBUILD]
    assert not quiet, "nobody pays while the spend is rebuilt"
    assert any("is being rebuilt" in words for words in hosts.refusals())


def test_after_a_flush_a_call_of_minutes_ago_still_counts_where_calls_are_rare(tmp_path, redis):
    """With half a call a minute, one that a host made 70 s ago fills the two minutes of all."""
    budget = Budget(calls_per_minute=0.5, usd_per_day=None)
    ledger = HostLedger(tmp_path / "a" / "llmeval.ledger")
    before = BudgetLimiter(budget, ledger, clock=lambda: time.time() - 70)
    before.settle(before.reserve("judge"))
    ledger.close()
    told, asking = [limiter_of(tmp_path / name, redis.address, budget=budget) for name in "ab"]
    told.reserve("judge")  # from then on it reports by itself
    deadline, answers = time.monotonic() + 30, []
    while len(answers) < 5 * LEASE / 0.05:  # a lease that nobody uses ends meanwhile
        assert time.monotonic() < deadline, answers[-1:]
        answer = asking.reserve("judge")
        assert isinstance(answer, Refused), answers[-1:]
        if "used up" in answer.detail:
            answers.append(answer)
        time.sleep(0.05)
    told.close()
    asking.close()


def test_a_known_host_that_does_not_report_keeps_the_dollars_closed(hosts, redis):
    """What a host spent that died with its disk is unknown: it is named, and nobody pays.

    Until somebody says that it is gone for good.
    """
    dying = hosts.start("dying", 60, **SPENDER, pause=0.05)
    living = hosts.start("living", 90, **SPENDER, pause=0.05)
    wait_until(lambda: spent(hosts) > 0.6)
    time.sleep(2.5)  # until the living host has heard of the dying one
    dying.kill()
    redis.flush()
    lost = time.time()
    waits = "hosts that have not reported: "
    wait_until(lambda: any(waits in words for words in hosts.refusals()))
    time.sleep(2)
    assert not [call for call in hosts.calls() if call["began"] > lost + 1.6]
    missing = next(words for words in hosts.refusals() if waits in words).partition(waits)[2]
    redis.client().hset("llmeval.{shared}.judges.state", f"forgotten:{missing}", 1)
    wait_until(lambda: any(call["began"] > lost + 1.6 for call in hosts.calls()))
    living.kill()


@pytest.mark.parametrize("appendonly", ["no", "yes"])
def test_nothing_that_fails_overdraws_the_budget(tmp_path, appendonly):
    """Hosts and Redis are killed, stopped and emptied at random: the total holds."""
    if SERVER is None:
        pytest.skip(WHY_SKIPPED)
    chance = random.Random(appendonly)
    budget = {"calls_per_minute": 400, "usd_per_day": 3.0}
    spender = {"budget": budget, "usd": 0.004, "tokens": 100, "pause": 0.01, "concurrency": 3}
    with running_redis(tmp_path / "redis", "--appendonly", appendonly) as redis:
        hosts = Hosts(tmp_path / "hosts", redis.address)
        try:
            names = ["a", "b", "c", "d"]
            running = {
                name: hosts.start(name, 170, **spender, clock_is_late_by=place * 300)
                for place, name in enumerate(names)
            }
            end = time.monotonic() + 60
            while time.monotonic() < end:
                time.sleep(chance.uniform(0.5, 4))
                fault = chance.choice(["host", "host", "kill", "pause", "flush"])
                if fault == "host":
                    name = chance.choice(names)
                    running[name].kill()
                    running[name].wait()
                    running[name] = hosts.start(name, 170, **spender)
                elif fault == "kill":
                    redis.kill()
                    time.sleep(chance.uniform(0, 2))
                    redis.start()
                elif fault == "pause":
                    redis.pause()
                    time.sleep(chance.uniform(0.1, 3))
                    redis.resume()
                else:
                    redis.flush()
            calm = time.time()
            wait_until(lambda: is_open_again(hosts, calm), 60)
        finally:
            hosts.kill()
    assert spent(hosts) <= 3.0 + 1e-9
    assert most_in_a_minute(hosts.calls()) <= 400
    assert hosts.at_a_time() <= 3
    assert len(hosts.calls()) > 50, "the faults left nothing to check"
