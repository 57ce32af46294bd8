"""The script in a real Redis, with time in our hands: hours of leases, losses and midnights at once.

Only the clock is simulated. Requests are lost, answered into the void, or arrive after later ones.
"""

import random
from contextlib import suppress

import pytest
from redis.exceptions import ConnectionError as LostError
from shared_hosts import most_in_a_minute
from simulated_hosts import SimulatedHosts, simulated

from llmeval_sdk.evaluation.admission import Refused
from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.model import DAY_SECONDS
from llmeval_sdk.plugins.shared import groups


CALLS, USD, SLOTS, USD_A_CALL = 40, 1.0, 3, 0.01
CALLS_OF_TENANT, USD_OF_TENANT = 10, 0.2


@pytest.mark.parametrize("seed", range(12))
def test_the_total_holds_whatever_is_lost_late_or_killed(redis, monkeypatch, seed):
    """In any minute, on any day and at any moment, over all processes of all hosts."""
    chance = random.Random(seed)
    now = 20_000 * DAY_SECONDS + (DAY_SECONDS - 300 if seed % 2 else 40_000)
    clock = simulated(monkeypatch, now)
    each = Budget(calls_per_minute=CALLS_OF_TENANT, usd_per_day=USD_OF_TENANT, per="tag:tenant")
    budget = Budget(calls_per_minute=CALLS, usd_per_day=USD, groups=[each] if seed % 4 > 1 else [])
    monkeypatch.setattr(groups, "MAX_GROUPS", 2)
    hosts = SimulatedHosts(redis, clock, budget, chance=chance, concurrency=SLOTS)
    wire = hosts.wire
    processes = [(host, hosts.process(host)) for host in (0, 0, 1, 2)]
    under_way, calls, most_at_a_time, opened = [], [], 0, 0

    def exchange(place):
        with suppress(LostError):
            processes[place][1].exchange(wire)

    for _ in range(1_500):
        clock.now += chance.choice((0.01, 0.05, 0.2, 1.0))
        if chance.random() < 0.01:
            clock.now += chance.choice((3, 6, 15, 70))
        place = chance.randrange(len(processes))
        host, limiter = processes[place]
        for entry in [e for e in under_way if clock.now - e[0] > 3]:  # no call takes longer
            entry[1].settle(entry[2], tokens=1, usd=USD_A_CALL)
            under_way.remove(entry)
        what = chance.random()
        if what < 0.55:
            tenant = chance.choice("aaabcde")
            got = limiter.reserve("j", tokens=1, usd=USD_A_CALL, tags={"tenant": tenant})
            if isinstance(got, Refused):
                exchange(place)
                got = limiter.reserve("j", tokens=1, usd=USD_A_CALL, tags={"tenant": tenant})
            if not isinstance(got, Refused):
                opened += 1
                calls.append({"began": clock.now, "usd": USD_A_CALL, "tenant": tenant})
                under_way.append((clock.now, limiter, got, calls[-1]))
                most_at_a_time = max(most_at_a_time, len(under_way))
        elif what < 0.75 and under_way:
            entry = under_way.pop(chance.randrange(len(under_way)))
            if chance.random() < 0.2:
                entry[1].release(entry[2])  # the call was never made
                calls[:] = [call for call in calls if call is not entry[3]]
            else:
                entry[3]["usd"] = USD_A_CALL * chance.choice((0.5, 1))
                entry[1].settle(entry[2], tokens=1, usd=entry[3]["usd"])
        elif what < 0.97:
            exchange(place)
        elif what < 0.985:
            under_way = [entry for entry in under_way if entry[1] is not limiter]
            processes[place] = (host, hosts.process(host))  # it was killed
        elif chance.random() < 0.1:
            redis.flush()
    assert opened > 40, "nothing was paid for, so nothing was shown"
    assert most_at_a_time <= SLOTS
    check(calls, CALLS, USD)
    for tenant in "abcde" if budget.groups else "":
        own = [call for call in calls if call["tenant"] == tenant]
        check(own, CALLS_OF_TENANT, USD_OF_TENANT)


def check(calls, most_calls, most_usd):
    """Find any minute or day with too much."""
    assert most_in_a_minute(calls) <= most_calls
    for day in {int(call["began"] // DAY_SECONDS) for call in calls}:
        spent = sum(call["usd"] for call in calls if int(call["began"] // DAY_SECONDS) == day)
        assert spent <= most_usd + 1e-9, day


def test_an_overspent_account_stops_nobody_who_wants_nothing_of_it(redis, monkeypatch):
    """The account apart has spent more than its budget: it gets no more, and judges go on."""
    clock = simulated(monkeypatch, 20_000 * DAY_SECONDS + 40_000)
    budget = Budget(calls_per_minute=None, usd_per_day=USD)
    hosts = SimulatedHosts(redis, clock, budget, apart={"apart": budget})
    limiter = hosts.process("host")
    hosts.open(limiter)
    limiter.settle(hosts.ask(limiter, judge="apart", usd=USD_A_CALL), usd=2 * USD)
    hosts.exchange(limiter)
    assert isinstance(hosts.ask(limiter, judge="apart", usd=USD_A_CALL), Refused)
    assert not isinstance(hosts.ask(limiter, judge="judge", usd=USD_A_CALL), Refused)
