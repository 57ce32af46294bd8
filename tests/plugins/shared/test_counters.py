"""One budget for all hosts, counted in a real Redis, by a clock of the test."""

import asyncio
import os
import random
import threading
import time
from contextlib import suppress
from itertools import pairwise

import pytest
from redis.exceptions import ConnectionError as LostError
from shared_hosts import Hosts, asked, limiter_of, most_in_a_minute

from llmeval_sdk.evaluation.admission import Refused
from llmeval_sdk.evaluation.books import Reservation, Want
from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.evaluation.groups import MAX_GROUPS
from llmeval_sdk.evaluation.limiter import BudgetLimiter
from llmeval_sdk.model import DAY_SECONDS
from llmeval_sdk.plugins.shared.counters import MICROS, RedisCounters, limits_of
from llmeval_sdk.plugins.shared.redis_client import RedisThread
from llmeval_sdk.plugins.shared.settings import RedisAddress
from llmeval_sdk.process import shield


NOON = 20_000 * DAY_SECONDS + DAY_SECONDS / 2


class Clock:
    now = NOON

    def __call__(self, redis):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def host_of(redis, clock):
    """Makes limiters of hosts that have books of their own, and all of one budget."""
    made = []

    def make(budget, *, of_test=True, link=None):
        link = link or RedisThread(RedisAddress(redis.address), beat=0.1)
        counters = RedisCounters(link, now=clock if of_test else None)
        kept_by = (lambda: clock.now) if of_test else time.time
        made.append(BudgetLimiter(budget, all_hosts=counters, clock=kept_by))
        return made[-1]

    yield make
    for limiter in made:
        limiter.close()


def only(**limits):
    return Budget(**{"calls_per_minute": None, "usd_per_day": None, **limits})


def until(what, seconds=60):
    deadline = time.monotonic() + seconds
    while not (outcome := what()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
    return outcome


def used(limiter, what, budget=None):
    """Return what Redis has of a limit of the account of all judges."""
    counters = limiter._all_hosts
    limit = next(one for one in limits_of("", budget or limiter.budget) if one.what == what)
    return counters.link.ask(lambda redis: counters.used(redis, limit)).result(30)


def is_paid(limiter, tenant=None, **wanted):
    """Say whether a call is granted; it is settled as it was reserved."""
    got = asked(limiter, tags={} if tenant is None else {"tenant": tenant}, **wanted)
    if isinstance(got, Reservation):
        limiter.settle(got)
    return isinstance(got, Reservation)


# -- what holds ----------------------------------------------------------------------------------


def test_the_dollars_of_a_day_are_spent_once_by_all_hosts_together(tmp_path, redis):
    """Hosts whose clocks differ by minutes spend all of it, and not a cent more.

    The last one is alone: what several add and give back in one moment counts for that moment.
    """
    hosts = Hosts(tmp_path, redis.address)
    spender = {"budget": {"calls_per_minute": None, "usd_per_day": 0.6}, "usd": 0.004}
    for place, late in enumerate((0, 400, -700)):
        hosts.start(f"host{place}", **spender, worst=0.006, clock_is_late_by=late)
    hosts.start("host0", **spender, worst=0.006)  # a second process of the same host
    hosts.wait()
    hosts.start("last", 200, **spender, worst=0.006)
    hosts.wait()
    spent = sum(call["usd"] for call in hosts.calls())
    assert 0.593 < spent <= 0.6 + 1e-9
    assert any("over all hosts: USD 0.6 a day are used up" in words for words in hosts.refusals())


def test_no_minute_has_a_call_or_a_token_too_many_over_all_hosts(host_of, clock):
    """However the calls lie in it; and most of what a minute holds is used."""
    budget = only(calls_per_minute=30, tokens_per_minute=2_000)
    hosts = [host_of(budget) for _ in range(3)]
    chance, made = random.Random(7), []
    for _ in range(400):
        clock.now += chance.expovariate(1.0)
        tokens = chance.choice((10, 100, 200))
        if is_paid(chance.choice(hosts), tokens=tokens):
            made.append({"began": clock.now, "tokens": tokens})
    assert most_in_a_minute(made) <= 30
    assert most_in_a_minute(made, lambda call: call["tokens"]) <= 2_000
    assert most_in_a_minute(made, lambda call: call["tokens"]) > 1_700


def test_rare_calls_keep_their_distance_over_all_hosts(host_of, clock):
    """With half a call a minute, one host's call fills the two minutes of all."""
    hosts = [host_of(only(calls_per_minute=0.5)) for _ in range(2)]
    made = []
    for step in range(80):
        clock.now += 10
        if is_paid(hosts[step % 2]):
            made.append(clock.now)
    assert all(later - former >= 120 for former, later in pairwise(made))
    assert len(made) >= 5
    refused = asked(hosts[0])
    assert "all judges" in refused.detail
    assert "0.5 calls a minute are used up" in refused.detail


def test_tokens_of_unknown_price_have_their_limit_over_all_hosts(host_of):
    """As on one host: a judgement that needs more takes the whole minute."""
    budget = only(usd_per_day=5.0, unpriced_tokens_per_minute=1_000)
    one, other = host_of(budget), host_of(budget)
    assert is_paid(one, tokens=5_000)
    assert not is_paid(other, tokens=1)
    assert is_paid(other, tokens=50_000, usd=0.01)


def test_what_is_refused_is_given_back_and_says_when_to_try_again(host_of, clock):
    """A refusal takes nothing from the others."""
    budget = only(usd_per_day=1.0, calls_per_minute=2)
    one, other = host_of(budget), host_of(budget)
    assert isinstance(asked(one, usd=0.7), Reservation)
    refused = asked(other, usd=0.5)
    assert "all judges, over all hosts: USD 1 a day are used up or reserved" in refused.detail
    assert refused.retry_after == pytest.approx(DAY_SECONDS / 2)
    assert asked(other, usd=2.0).retry_after is None
    assert used(one, "usd") == 0.7 * MICROS
    assert used(one, "calls") == 1
    assert is_paid(other, usd=0.3)
    wait = asked(other, usd=0.0).retry_after
    assert 60 <= wait <= 66
    clock.now += wait
    assert is_paid(other, usd=0.0)


def test_what_a_call_did_not_use_is_given_back_to_the_day_that_it_was_taken_from(host_of, clock):
    """A call that ends after midnight takes nothing from the new day, and gives it nothing."""
    limiter = host_of(only(usd_per_day=1.0))
    clock.now = NOON + DAY_SECONDS / 2 - 5
    got = asked(limiter, usd=0.9)
    clock.now += 10
    limiter.settle(got, usd=0.2)
    until(lambda: not limiter._all_hosts._unsettled)
    assert used(limiter, "usd") == 0
    clock.now -= 10
    assert used(limiter, "usd") == 0.2 * MICROS


def test_a_price_above_the_estimate_is_what_passes_a_limit_and_nothing_else(host_of):
    """It counts as soon as it is known."""
    one, other = (host_of(only(usd_per_day=1.0)) for _ in range(2))
    got = asked(one, usd=0.9)
    one.settle(got, usd=1.1)
    until(lambda: used(other, "usd") == 1.1 * MICROS)
    assert not is_paid(other, usd=0.01)


def test_a_process_that_dies_leaves_what_it_had_reserved_until_the_key_expires(host_of, redis):
    """Nobody knows whether it was spent. Each key has an end, and all lie on one server."""
    budget = only(usd_per_day=1.0, calls_per_minute=60, tokens_per_minute=1_000)
    dying, other = host_of(budget), host_of(budget)
    assert isinstance(asked(dying, usd=0.8, tokens=10), Reservation)
    dying._all_hosts.link.close()
    assert not is_paid(other, usd=0.3)
    assert is_paid(other, usd=0.2)
    keys = redis.client().keys()
    assert len(keys) == 3
    for key in keys:
        assert key.startswith(b"llmeval.{shared}.")
        seconds = redis.client().ttl(key)
        assert 0 < seconds <= (2 * DAY_SECONDS if b".usd." in key else 70)


def test_accounts_of_their_own_hold_beside_that_of_all_judges(host_of):
    """A judge's limit and that of a budget apart are counted over all hosts as well."""
    budget = Budget(calls_per_minute=5, usd_per_day=None, judges={"a": only(calls_per_minute=2)})
    hosts = [host_of(budget) for _ in range(2)]
    paid = [isinstance(asked(host, "a"), Reservation) for host in hosts * 2]
    assert sum(paid) == 2
    assert sum(isinstance(asked(host, "b"), Reservation) for host in hosts * 4) == 3
    apart = {"decisions": only(calls_per_minute=1)}
    for host in hosts:
        host.apart = apart
    assert sum(isinstance(asked(host, "decisions"), Reservation) for host in hosts) == 1


# -- groups --------------------------------------------------------------------------------------


def per_tenant(most, **limits):
    return only(**limits, groups=[only(calls_per_minute=most, per="tag:tenant")])


def test_the_calls_of_a_tenant_are_those_of_all_processes_of_all_hosts(host_of, clock):
    """The next tenant has all of its own."""
    hosts = [host_of(per_tenant(3)) for _ in range(3)]
    for tenant in ("acme", "globex"):
        assert sum(is_paid(host, tenant) for host in hosts * 3) == 3, tenant
    refused = asked(hosts[0], tags={"tenant": "acme"})
    assert refused.detail.startswith("tag:tenant=acme, over all hosts: 3 calls a minute")
    clock.now += 66
    assert is_paid(hosts[2], "acme")


def test_a_host_has_two_hundred_accounts_and_further_tenants_share_one(host_of, redis):
    """So what strangers write in a tag fills no Redis."""
    host = host_of(per_tenant(1_000))
    for number in range(MAX_GROUPS + 50):
        assert is_paid(host, f"t{number}")
    until(lambda: not host._all_hosts._unsettled)
    accounts = {key.split(b".")[3] for key in redis.client().scan_iter()}
    assert len(accounts) == MAX_GROUPS + 1


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("x" * 1_000_000, id="a megabyte"),
        pytest.param("two\nlines\r\x00\x1b[31m", id="control characters"),
        pytest.param("{acme}*?[a-z]", id="a pattern of Redis"),
        pytest.param("", id="empty"),
        pytest.param("\ud800half", id="half a surrogate pair"),
        pytest.param("\U0001f600" * 300, id="emoji"),
        pytest.param("all others", id="the name of the pool"),
    ],
)
def test_any_value_of_a_tag_is_a_group_and_redis_sees_a_hash_of_it(host_of, redis, value):
    """It breaks nothing, is bounded, and has its limit on all hosts together."""
    hosts = [host_of(per_tenant(3)) for _ in range(2)]
    assert is_paid(hosts[1], "acme")
    assert sum(is_paid(host, value) for host in hosts * 3) == 3
    keys = redis.client().keys()
    assert max(map(len, keys)) < 100
    assert not any(b"acme" in key for key in keys)


# -- what fails ----------------------------------------------------------------------------------


def test_while_redis_is_away_a_host_keeps_to_the_budget_by_itself_and_says_so(host_of, redis):
    """What it used meanwhile is counted when Redis is back."""
    budget = only(usd_per_day=1.0)
    one, other = (host_of(budget, of_test=False) for _ in range(2))
    assert is_paid(one, usd=0.1)
    redis.kill()
    shield.notices.clear()
    shield._last_told.clear()
    for _ in range(9):
        assert is_paid(one, usd=0.1)
    assert "0.1000 do not fit in 1 a day" in asked(one, usd=0.1).detail
    assert one.stats()["own limit"] == 9
    assert any("this host keeps to the budget by itself" in n.what for n in shield.notices)
    redis.start()
    until(lambda: not one._all_hosts._unsettled)
    assert used(other, "usd") == 0.9 * MICROS
    assert not is_paid(other, usd=0.2)


def test_a_hanging_redis_holds_up_neither_the_judges_loop_nor_the_next_call(host_of, redis):
    """The first call waits half a second while all others go on; then nobody asks any more."""
    limiter = host_of(only(usd_per_day=1.0), of_test=False)
    assert is_paid(limiter, usd=0.1)
    redis.pause()

    async def work():
        reserved = limiter.reserve("judge", usd=0.1)
        waiting = asyncio.ensure_future(limiter.confirm(reserved))
        for _ in range(1_000):
            await asyncio.sleep(0)
        assert not waiting.done()
        assert await waiting is None
        limiter.settle(reserved, usd=0.1)
        reserved = limiter.reserve("judge", usd=0.1)
        until(lambda: limiter._all_hosts.link.is_away)
        assert await limiter.confirm(limiter.reserve("judge", usd=0.1)) is None
        limiter.settle(reserved, usd=0.1)

    asyncio.run(work())
    redis.resume()
    assert limiter.stats()["own limit"] == 2
    until(lambda: not limiter._all_hosts.link.is_away)


def test_a_judgement_that_is_stopped_while_it_waits_holds_nothing(host_of, redis):
    """Neither on this host nor, when Redis answers again, on all."""
    limiter = host_of(only(usd_per_day=1.0), of_test=False)
    assert is_paid(limiter, usd=0.1)
    free = threading.Event()
    limiter._all_hosts.link.ask(lambda redis: free.wait(30))  # the thread is busy

    async def work():
        waiting = asyncio.ensure_future(limiter.confirm(limiter.reserve("judge", usd=0.9)))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(work())
    free.set()
    assert used(limiter, "usd") == 0.1 * MICROS
    limiter.write()
    assert limiter.used().reserved_usd == 0


def test_whatever_answers_are_lost_no_more_is_spent_than_the_budget_has(redis, clock):
    """Where a command may have been carried out, the most that a call may use counts."""

    class Losing:
        """A client whose transactions are lost before or after they are carried out."""

        def __init__(self, chance):
            self._client, self._chance = redis.client(), chance

        def pipeline(self, **options):
            pipeline, chance = self._client.pipeline(**options), self._chance
            execute = pipeline.execute

            def losing():
                fate = chance.random()
                if fate < 0.1:
                    raise LostError("lost")
                answer = execute()
                if fate < 0.2:
                    raise LostError("no answer")
                return answer

            pipeline.execute = losing
            return pipeline

    class NoThread(RedisThread):
        def ask(self, question):
            return None

    for seed in range(5):
        redis.flush()
        chance, spent = random.Random(seed), 0.0
        link = NoThread(RedisAddress(redis.address))
        hosts = [(RedisCounters(link, now=clock), Losing(chance)) for _ in range(3)]
        for _ in range(300):
            counters, wire = chance.choice(hosts)
            call = counters.count({"": only(usd_per_day=1.0)}, Want(1, 0, 0.02))
            is_granted = False  # where no answer came, this host would keep to its own limit
            with suppress(LostError):
                is_granted = counters.add(wire, call) is True
            usd = chance.uniform(0, 0.02) if is_granted else 0.0
            spent += usd
            counters.settle(call, Want(1, 0, usd))
            with suppress(LostError):
                counters.exchange(wire)
        assert 0.2 < spent <= 1.0


def test_a_forked_child_counts_for_itself(tmp_path, redis):
    """It has a connection of its own, and settles nothing of its parent."""
    limiter = limiter_of(tmp_path / "host", redis.address, budget=only(calls_per_minute=10))
    assert all(isinstance(asked(limiter), Reservation) for _ in range(3))
    child = os.fork()
    if child == 0:
        made = sum(isinstance(asked(limiter), Reservation) for _ in range(20))
        os._exit(made)
    _, status = os.waitpid(child, 0)
    made = sum(isinstance(asked(limiter), Reservation) for _ in range(20))
    assert 3 + made + os.waitstatus_to_exitcode(status) == 10
    limiter.close()


def test_a_limiter_that_was_closed_and_is_used_again_counts_nothing_twice(tmp_path, redis):
    """What it had settled was counted when it was closed."""
    budget = only(calls_per_minute=10)
    limiter = limiter_of(tmp_path / "host", redis.address, budget=budget)
    other = limiter_of(tmp_path / "other", redis.address, budget=budget)
    for _ in range(3):
        for _ in range(3):
            limiter.settle(asked(limiter))
        limiter.close()
    assert isinstance(asked(other), Reservation)
    assert isinstance(asked(other), Refused)
    limiter.close()
    other.close()
