"""The script in a real Redis, with time in our hands: hours of leases, losses and midnights at once.

Only the clock is simulated. Requests are lost, answered into the void, or arrive after later ones.
"""

import random
from contextlib import suppress

import pytest
from redis.exceptions import ConnectionError as LostError
from shared_hosts import most_in_a_minute

from llmeval_sdk.evaluation.admission import Refused
from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.evaluation.limiter import MemoryLedger
from llmeval_sdk.model import DAY_SECONDS
from llmeval_sdk.plugins.shared import limiter as limiter_module
from llmeval_sdk.plugins.shared.limiter import Host, SharedLimiter
from llmeval_sdk.plugins.shared.redis_client import RedisThread
from llmeval_sdk.plugins.shared.settings import RedisAddress


CALLS, USD, SLOTS, USD_A_CALL = 40, 1.0, 3, 0.01
OPTIONS = {"lease": 5.0, "rebuild": 10.0, "longest": 4.0, "concurrency": SLOTS}


class ByHand(RedisThread):
    """Talks to Redis when the test says so, and has no thread."""

    is_away = True

    def start(self):
        pass

    def wake(self):
        pass


class Wire:
    """A client whose requests may be lost, late, or without an answer."""

    def __init__(self, client, chance, clock):
        self.client, self.chance, self.clock = client, chance, clock
        self.late = []

    def register_script(self, text):
        run = self.client.register_script(text)

        def call(keys, args, client):
            def send():
                return run(
                    keys=keys,
                    args=[*args, str(int(self.clock.now)), f"{self.clock.now % 1 * 1e6:06.0f}"],
                )

            fate = self.chance.random()
            if fate < 0.05:
                raise LostError("lost")
            if fate < 0.1:
                self.late.append(send)
                raise LostError("late")
            answer = send()
            if fate < 0.15:
                raise LostError("no answer")
            while self.late:
                self.late.pop()()
            return answer

        return call


class Clock:
    def __init__(self, now):
        self.now = now


def simulated(monkeypatch, now):
    """Return the clock by which the script and the limiters go."""
    clock = Clock(now)
    text = limiter_module.script().replace("redis.call('TIME')", "{ARGV[2], ARGV[3]}")
    monkeypatch.setattr(limiter_module, "script", lambda: text)
    monkeypatch.setattr(limiter_module, "elapsed", lambda: clock.now - 7_000)
    return clock


@pytest.mark.parametrize("seed", range(12))
def test_the_total_holds_whatever_is_lost_late_or_killed(redis, monkeypatch, seed):
    """In any minute, on any day and at any moment, over all processes of all hosts."""
    chance = random.Random(seed)
    now = 20_000 * DAY_SECONDS + (DAY_SECONDS - 300 if seed % 2 else 40_000)
    clock = simulated(monkeypatch, now)
    budget = Budget(calls_per_minute=CALLS, usd_per_day=USD)
    ledgers = [(MemoryLedger(), MemoryLedger()) for _ in range(3)]
    wire = Wire(redis.client(), chance, clock)

    def process(host):
        books, memory = ledgers[host]
        link = ByHand(RedisAddress(redis.address))
        return SharedLimiter(
            budget, books, host=Host(memory, clock=lambda: clock.now), link=link, **OPTIONS
        )

    processes = [(host, process(host)) for host in (0, 0, 1, 2)]
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
            got = limiter.reserve("j", tokens=1, usd=USD_A_CALL)
            if isinstance(got, Refused):
                exchange(place)
                got = limiter.reserve("j", tokens=1, usd=USD_A_CALL)
            if not isinstance(got, Refused):
                opened += 1
                calls.append({"began": clock.now, "usd": USD_A_CALL})
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
            processes[place] = (host, process(host))  # it was killed
        elif chance.random() < 0.1:
            redis.flush()
    assert opened > 40, "nothing was paid for, so nothing was shown"
    assert most_in_a_minute(calls) <= CALLS
    assert most_at_a_time <= SLOTS
    for day in {int(call["began"] // DAY_SECONDS) for call in calls}:
        spent = sum(call["usd"] for call in calls if int(call["began"] // DAY_SECONDS) == day)
        assert spent <= USD + 1e-9, day


class Lucky:
    """Loses nothing."""

    def random(self):
        return 1.0


def test_an_overspent_account_stops_nobody_who_wants_nothing_of_it(redis, monkeypatch):
    """The account apart has spent more than its budget: it gets no more, and judges go on."""
    clock = simulated(monkeypatch, 20_000 * DAY_SECONDS + 40_000)
    wire = Wire(redis.client(), Lucky(), clock)
    budget = Budget(calls_per_minute=None, usd_per_day=USD)
    host = Host(MemoryLedger(), clock=lambda: clock.now)
    link = ByHand(RedisAddress(redis.address))
    limiter = SharedLimiter(
        budget, MemoryLedger(), host=host, link=link, apart={"apart": budget}, **OPTIONS
    )

    def reserve(name):
        for _ in range(20):  # Redis grants nothing for the first ten seconds
            got = limiter.reserve(name, usd=USD_A_CALL)
            if not isinstance(got, Refused):
                break
            limiter.exchange(wire)
            clock.now += 1.0
        return got

    limiter.settle(reserve("apart"), usd=2 * USD)
    limiter.exchange(wire)
    assert isinstance(reserve("apart"), Refused)
    assert not isinstance(reserve("judge"), Refused)
