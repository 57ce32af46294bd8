"""What a group may use holds over all hosts: on a real Redis, by a clock of the test."""

import json

import pytest
from shared_hosts import Hosts, most_in_a_minute
from simulated_hosts import SimulatedHosts, simulated

from llmeval_sdk.evaluation.admission import Refused
from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.evaluation.groups import MAX_GROUPS
from llmeval_sdk.evaluation.limiter import Reservation
from llmeval_sdk.model import DAY_SECONDS
from llmeval_sdk.plugins.shared.limiter import IDLE_SECONDS, keys


NOON = 20_000 * DAY_SECONDS + DAY_SECONDS / 2
POOL = "tag:tenant=all others"


@pytest.fixture
def clock(monkeypatch):
    return simulated(monkeypatch, NOON)


@pytest.fixture
def hosts_of(redis, clock):
    def make(*groups, **limits):
        limits = {"calls_per_minute": None, "usd_per_day": None, **limits}
        return SimulatedHosts(redis, clock, Budget(**limits, groups=groups))

    return make


def calls(most, **group):
    return Budget(calls_per_minute=most, usd_per_day=None, **(group or {"per": "tag:tenant"}))


def dollars(most, **group):
    return Budget(calls_per_minute=None, usd_per_day=most, **(group or {"per": "tag:tenant"}))


def is_paid(hosts, limiter, tenant, **wanted):
    """Say whether a call is granted; it is settled as it was reserved."""
    got = hosts.ask(limiter, tenant, **wanted)
    if isinstance(got, Refused):
        return False
    limiter.settle(got)
    return True


def accounts(redis):
    """Return the accounts of groups in Redis."""
    books = redis.client().hgetall(keys("judges")[-1])
    return {name.decode(): json.loads(text) for name, text in books.items()}


# -- limits ------------------------------------------------------------------------------------


def test_the_calls_of_a_tenant_are_those_of_all_processes_of_all_hosts(hosts_of):
    """The next tenant has all of its own."""
    hosts = hosts_of(calls(3))
    processes = [hosts.process(host) for host in "aab"]
    hosts.open(*processes)
    for tenant in ("acme", "globex"):
        paid = [is_paid(hosts, each, tenant) for _ in range(3) for each in processes]
        assert sum(paid) == 3, tenant
    refused = hosts.ask(processes[0], "acme")
    assert refused.detail == "tag:tenant=acme, over all hosts: 3 calls a minute are used up"
    hosts.clock.now += 61
    assert is_paid(hosts, processes[2], "acme")


def test_the_dollars_of_a_tenant_are_spent_once(hosts_of):
    """To the cent, and what was reserved and not used is free again."""
    hosts = hosts_of(dollars(0.5))
    processes = [hosts.process(host) for host in "ab"]
    hosts.open(*processes)
    first = hosts.ask(processes[0], "acme", usd=0.5)
    assert isinstance(hosts.ask(processes[1], "acme", usd=0.01), Refused)
    processes[0].settle(first, usd=0.1)
    hosts.clock.now += 1.0
    hosts.exchange(processes[0])  # which says that the rest is free again
    hosts.clock.now += 1.0
    for tenant, times in (("acme", 4), ("globex", 5)):
        paid = 0
        for _ in range(3):
            paid += sum(
                is_paid(hosts, each, tenant, usd=0.1) for _ in "12345" for each in processes
            )
            hosts.clock.now += IDLE_SECONDS + 1  # until what is leased and not used is given back
            for each in processes:
                hosts.exchange(each)
        assert paid == times, tenant


def test_a_budget_of_named_tenants_holds_beside_that_of_each(hosts_of):
    """Each of the limits counts by itself, and whoever is in no group has none of them."""
    hosts = hosts_of(calls(3), calls(4, where={"tag:tenant": ["acme", "globex"]}))
    processes = [hosts.process(host) for host in "ab"]
    hosts.open(*processes)
    paid = {
        tenant: sum(is_paid(hosts, each, tenant) for _ in range(4) for each in processes)
        for tenant in ("acme", "globex", "initech")
    }
    assert paid == {"acme": 3, "globex": 1, "initech": 3}
    refused = hosts.ask(processes[0], "globex")
    assert "where tag:tenant=acme|globex, over all hosts: 4 calls" in refused.detail


def test_judges_of_other_hosts_keep_within_the_limit_of_a_tenant(tmp_path, redis):
    """As real processes with threads of their own find it."""
    budget = {"calls_per_minute": None, "groups": [{"calls_per_minute": 7, "per": "tag:tenant"}]}
    hosts = Hosts(tmp_path / "hosts", redis.address)
    try:
        for name in ("a", "a", "b"):
            spender = {"budget": budget, "usd": 0.0001, "tokens": 10, "pause": 0.02}
            hosts.start(name, 15, **spender, tenants=["acme", "globex"])
        hosts.wait()
    finally:
        hosts.kill()
    for tenant in ("acme", "globex"):
        assert most_in_a_minute([c for c in hosts.calls() if c["tenant"] == tenant]) == 7
    assert any("tag:tenant=acme, over all hosts: 7 calls" in words for words in hosts.refusals())


# -- accounts ----------------------------------------------------------------------------------


def test_two_hundred_tenants_have_accounts_and_all_hosts_say_the_same_ones(hosts_of, redis):
    """All others share one; once a process knows that, none of them costs a further exchange."""
    hosts = hosts_of(dollars(0.1))
    processes = [hosts.process(host) for host in "ab"]
    hosts.open(*processes)
    for number in range(MAX_GROUPS + 50):
        is_paid(hosts, processes[number % 2], f"t{number}", usd=0.0001)
    own = {name for name in accounts(redis) if name.startswith("tag:tenant=")}
    assert own == {*(f"tag:tenant=t{number}" for number in range(MAX_GROUPS)), POOL}
    late = hosts.process("c")
    hosts.open(late)
    for each in (*processes, late):
        assert is_paid(hosts, each, "one more", usd=0.0001)
        before = hosts.exchanges
        for number in range(10_000):
            assert [*each._groups.of({"tenant": f"further{number}"})] == [POOL]
        assert [*each._groups.of({"tenant": "t7"})] == ["tag:tenant=t7"]
        assert hosts.exchanges == before
    for each in processes:
        hosts.exchange(each)
    hosts.clock.now += 1.0
    spent = sum(is_paid(hosts, each, "greedy", usd=0.01) for each in processes for _ in range(12))
    assert spent == 9, "ten thousandths of the 0.1 that all others share are used"
    assert f"{POOL}, over all hosts" in hosts.ask(late, "any other", usd=0.01).detail


def test_accounts_that_nobody_used_since_yesterday_make_way_at_midnight(hosts_of, redis):
    """Until then those stay that there are, so that nobody has two on one day."""
    hosts = hosts_of(dollars(0.1))
    limiter = hosts.process("a")
    hosts.open(limiter)
    for number in range(MAX_GROUPS + 1):
        assert is_paid(hosts, limiter, f"t{number}", usd=0.1)
    assert not is_paid(hosts, limiter, "late", usd=0.1)
    for days, is_own in ((1, False), (2, True)):
        hosts.clock.now = NOON - 3600 + days * DAY_SECONDS
        hosts.exchange(limiter)
        assert is_paid(hosts, limiter, "late", usd=0.05)
        assert ("tag:tenant=late" in accounts(redis)) is is_own, days
    assert len(accounts(redis)) < 10
    assert len(json.loads(limiter._ledger._text)["accounts"]) < MAX_GROUPS + 10


def test_a_process_forgets_the_accounts_that_it_does_not_use(hosts_of, redis):
    """What it used of them is counted, and counts on when it uses them again."""
    hosts = hosts_of(dollars(0.1))
    limiter = hosts.process("a")
    hosts.open(limiter)
    for number in range(100):
        assert is_paid(hosts, limiter, f"t{number}", usd=0.06)
    under_way = hosts.ask(limiter, "slow", usd=0.06)
    for _ in range(4):
        hosts.clock.now += IDLE_SECONDS / 2 + 0.1
        hosts.exchange(limiter)
    assert [*limiter._lease._accounts] == ["", "tag:tenant=slow"]
    limiter.settle(under_way, usd=0.01)
    assert sum(is_paid(hosts, limiter, "t7", usd=0.02) for _ in range(4)) == 2
    assert sum(is_paid(hosts, limiter, "slow", usd=0.02) for _ in range(9)) == 4
    hosts.exchange(limiter)
    assert accounts(redis)["tag:tenant=t7"]["usd"] == 100_000


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("x" * 1_000_000, id="a megabyte"),
        pytest.param("two\nlines\r\x00\x1b[31m", id="control characters"),
        pytest.param("%a+.-[](%1)*$^", id="a pattern of Lua"),
        pytest.param("\"}]\\{'--[[", id="brackets and quotes"),
        pytest.param("__proto__", id="proto"),
        pytest.param("", id="empty"),
        pytest.param("1", id="a number"),
        pytest.param("\ud800half", id="half a surrogate pair"),
        pytest.param("\U0001f600" * 300, id="emoji"),
        pytest.param("all others", id="the name of the pool"),
        pytest.param("begun", id="a word of the books"),
    ],
)
def test_any_value_of_a_tag_is_a_group(hosts_of, redis, value):
    """It breaks nothing, is bounded, and has its limit on all hosts together."""
    hosts = hosts_of(calls(3), dollars(0.5, where={"tag:tenant": value}))
    processes = [hosts.process(host) for host in "ab"]
    hosts.open(*processes)
    assert is_paid(hosts, processes[1], "acme", usd=0.1)
    paid = [is_paid(hosts, each, value, usd=0.1) for _ in range(3) for each in processes]
    assert sum(paid) == 3
    redis.flush()
    hosts.open(*processes)
    hosts.clock.now += 61
    paid = [is_paid(hosts, each, value, usd=0.1) for _ in range(3) for each in processes]
    assert sum(paid) == 2
    assert max(map(len, accounts(redis))) <= len("where tag:tenant=") + max(len(value), 200)


def test_where_names_may_not_leave_redis_sees_hashes_of_groups(redis, clock):
    """The limits hold all the same."""
    groups = [calls(3), calls(9, where={"tag:tenant": "acme"})]
    hosts = SimulatedHosts(redis, clock, Budget(groups=groups), names=False)
    processes = [hosts.process(host) for host in "ab"]
    hosts.open(*processes)
    for tenant in ("acme", "globex"):
        assert sum(is_paid(hosts, each, tenant) for _ in range(3) for each in processes) == 3
    assert [len(name) for name in sorted(accounts(redis), key=len)] == [16, 32, 32]


# -- what fails --------------------------------------------------------------------------------


def test_after_a_flush_no_tenant_spends_its_day_twice(hosts_of, redis):
    """Neither one with an account of its own, nor any of those that share one."""
    hosts = hosts_of(dollars(0.1))
    processes = [hosts.process(host) for host in "ab"]
    hosts.open(*processes)
    for number in range(MAX_GROUPS):
        assert is_paid(hosts, processes[number % 2], f"t{number}", usd=0.06)
    assert is_paid(hosts, processes[0], "late", usd=0.06)
    for _ in range(2):
        redis.flush()
        hosts.open(*processes)
    for tenant in ("t0", "t1", "late", "later"):
        for each in processes:
            assert not is_paid(hosts, each, tenant, usd=0.06), tenant
    hosts.clock.now += 1.1
    assert is_paid(hosts, processes[0], "t1", usd=0.04)


def test_accounts_of_groups_that_redis_evicted_are_rebuilt(hosts_of, redis):
    """As all the data are that Redis may lose."""
    hosts = hosts_of(dollars(0.1))
    limiter = hosts.process("a")
    hosts.open(limiter)
    assert is_paid(hosts, limiter, "acme", usd=0.06)
    redis.client().delete(keys("judges")[-1])
    hosts.exchange(limiter)
    assert limiter._status == "closed"
    hosts.open(limiter)
    assert not is_paid(hosts, limiter, "acme", usd=0.06)


def test_what_a_dead_process_had_leased_for_a_tenant_is_spent(hosts_of):
    """For nobody knows whether it was."""
    hosts = hosts_of(dollars(0.5))
    dying, other = (hosts.process(host) for host in "ab")
    hosts.open(dying, other)
    assert isinstance(hosts.ask(dying, "acme", usd=0.3), Reservation)
    hosts.clock.now += 6.0
    hosts.exchange(other)
    assert not is_paid(hosts, other, "acme", usd=0.3)
    hosts.clock.now += 1.1
    assert is_paid(hosts, other, "acme", usd=0.2)
    assert is_paid(hosts, other, "globex", usd=0.5)


def test_a_tenant_with_nothing_left_asks_once_a_second_whatever_others_get(hosts_of):
    """A refusal of one account is good for a second, also while others are granted something."""
    hosts = hosts_of(dollars(0.1))
    limiter = hosts.process("a")
    hosts.open(limiter)
    assert is_paid(hosts, limiter, "acme", usd=0.1)
    assert not is_paid(hosts, limiter, "acme", usd=0.1)
    hosts.exchange(limiter)
    assert is_paid(hosts, limiter, "globex", usd=0.1)
    assert limiter._refusal({"tag:tenant=acme": {}}) is not None
    hosts.clock.now += 1.1
    assert limiter._refusal({"tag:tenant=acme": {}}) is None


def test_without_groups_an_exchange_says_nothing_of_them(redis, clock):
    """An app without them pays nothing for them."""
    hosts = SimulatedHosts(redis, clock, Budget())
    limiter = hosts.process("a")
    assert "groups" not in limiter._who()
    hosts.open(limiter)
    assert is_paid(hosts, limiter, "acme", usd=0.1)
    assert accounts(redis) == {}


def test_a_limit_in_dollars_of_groups_alone_is_rebuilt_as_one_of_all(hosts_of, redis):
    """A host that was seen and has not reported keeps the budget closed until the day is over."""
    hosts = hosts_of(dollars(0.1))
    silent, living = (hosts.process(host) for host in "ab")
    hosts.open(silent, living)
    assert is_paid(hosts, silent, "acme", usd=0.1)
    hosts.exchange(silent)
    hosts.clock.now += 6.0  # until the living host has heard of the silent one
    hosts.exchange(living)
    redis.flush()
    for _ in range(300):
        hosts.clock.now += 1.0
        hosts.exchange(living)
    assert living._status == "closed"
    assert not is_paid(hosts, living, "acme", usd=0.1)
