"""What the shelves of several hosts make of odd sessions: bounded, explained, nothing lost."""

import json
import time

import pytest
from fleet_parts import until

from llmeval_sdk.model import Record
from llmeval_sdk.plugins.sessions import turn_store as turn_store_module
from llmeval_sdk.plugins.sessions.shared_turn_store import DUE, PREFIX, SharedTurnStore
from llmeval_sdk.plugins.sessions.turn_store import (
    MOST_BYTES,
    MOST_TURNS,
    KeptTurn,
    key_of,
    written,
)
from llmeval_sdk.plugins.shared.redis_client import RedisThread
from llmeval_sdk.plugins.shared.settings import RedisAddress


SECOND = 10**9
IDLE = 1 * SECOND


@pytest.fixture
def host(tmp_path, redis, monkeypatch):
    """Make a host with a file and a link to Redis of its own."""
    monkeypatch.setattr(SharedTurnStore, "hold_seconds", 0.2)
    made = []

    def make(name, idle=IDLE):
        link = RedisThread(RedisAddress(redis.address), beat=0.1)
        made.append((SharedTurnStore(tmp_path / f"{name}.state", idle, link), link))
        return made[-1][0]

    yield make
    for turn_store, link in made:
        link.close()
        turn_store.close()


def turn(number, *, session="chat", **fields):
    now = time.time_ns()
    text = written(Record(request=f"q{number}", response=f"a{number}"), content=True)
    kept = KeptTurn(
        key_of(session), session, f"{number:032x}", f"{number:016x}", "answer", "workflow",
        now + number, now + number + 1, True, text,
    )  # fmt: skip
    return kept._replace(**fields)


def taken(turn_store, count=1, owner="me"):
    """Wait until a host gets sessions, renewing as a worker does."""
    dues = []

    def take():
        now = time.time_ns()
        dues.extend(turn_store.take(owner, now, now + 5 * SECOND, 50))
        return len(dues) >= count

    until(take, "the sessions")
    return dues


def add(turn_store, *turns):
    turn_store.add(turns, time.time_ns())


def told(turn_store):
    """Wait until Redis knows all that a host knows."""
    until(lambda: not turn_store.updates(), "Redis is told")


def test_an_id_that_everybody_shares_stays_bounded_over_all_hosts(host, redis):
    """Redis keeps the first turns and the latest, and knows how many there were."""
    one, two = host("one", 3 * SECOND), host("two", 3 * SECOND)
    for start in range(0, 400, 50):
        before = time.time_ns() - SECOND // 10  # further than the clocks of two hosts may differ
        add(
            one,
            *(turn(n, start_ns=before + n, end_ns=before + n) for n in range(start, start + 50)),
        )
        add(two, *(turn(1_000 + n) for n in range(start, start + 50)))
        told(one)
        told(two)
    (due,) = taken(one)
    turns = one.turns(due.key)
    assert (due.turns, len(turns)) == (800, MOST_TURNS)
    texts = [json.loads(one.text)["u"] for one in turns]
    assert texts[:3] == ["q0", "q1", "q2"]
    assert texts[-1] == "q1399"


def test_long_turns_of_all_hosts_are_bounded_in_bytes(host, redis):
    """A session takes no more than about 256 KB of Redis."""
    shelves = [host("one", 3 * SECOND), host("two", 3 * SECOND)]
    long = written(Record(request="漢" * 5_000, response="é" * 5_000), content=True)
    for number in range(40):
        add(shelves[number % 2], turn(number, text=long))
        told(shelves[number % 2])
    (due,) = taken(shelves[0])
    assert due.turns == 40
    assert sum(len(one.text.encode()) for one in shelves[0].turns(due.key)) <= MOST_BYTES
    name = f"{PREFIX}{due.key.hex()}.turns"
    assert redis.client().memory_usage(name, samples=0) < 1.5 * MOST_BYTES


def test_one_that_is_never_idle_is_evaluated_once_a_day_by_one_host(host, monkeypatch):
    """It says so, and what is said meanwhile is evaluated later."""
    monkeypatch.setattr("llmeval_sdk.plugins.sessions.shared_turn_store.LONGEST_NS", 6 * SECOND)
    shelves = [host("one", 5 * SECOND), host("two", 5 * SECOND)]
    numbers, dues = iter(range(10_000)), []

    def talk():
        number = next(numbers)
        add(shelves[number % 2], turn(number))
        now = time.time_ns()
        dues.extend(shelves[0].take("one", now, now + 5 * SECOND, 50))
        return dues

    until(talk, "the evaluation of its day")
    (due,) = dues
    assert due.is_endless
    shelves[0].done("one", dues)
    add(shelves[1], turn(next(numbers)))
    (again,) = taken(shelves[1], owner="two")
    assert (again.period, again.turns > due.turns) == (2, True)


def test_a_span_inside_one_of_another_host_is_no_turn_of_its_own(host):
    """A service that calls another one in its trace: the outer answer is the turn."""
    one, two = host("one"), host("two")
    now = time.time_ns()
    outer = turn(0, trace_id="t", span_id="out", start_ns=now - SECOND, end_ns=now)
    inner = turn(1, trace_id="t", span_id="in", start_ns=now - SECOND // 2,
                 end_ns=now - SECOND // 4, is_top=False)  # fmt: skip
    add(two, inner)
    add(one, outer)
    (due,) = taken(one)
    assert (due.turns, due.target[1]) == (1, "out")
    assert json.loads(one.turns(due.key)[0].text)["u"] == "q0"


@pytest.mark.parametrize("ahead", [-(10**18), -3_600 * SECOND, 3_600 * SECOND, 10**18])
def test_times_out_of_order_change_nothing_about_when_it_is_due(host, ahead):
    """Idle is measured by the clock of Redis."""
    one = host("one")
    odd = turn(1)
    odd = odd._replace(start_ns=max(0, odd.start_ns + ahead), end_ns=max(0, odd.end_ns + ahead))
    begun = time.monotonic()
    add(one, turn(0), odd)
    (due,) = taken(one)
    assert time.monotonic() - begun >= 0.9
    assert due.turns == 2


@pytest.mark.parametrize("planted", [b"no json", b"[1,2,3,4]", b'["s","t",1,"{}"]', b"[" * 9_000])
def test_turns_that_somebody_planted_are_left_out(host, redis, planted):
    """Whoever can write to Redis can plant data there, and never code."""
    one = host("one")
    add(one, turn(0))
    told(one)
    redis.client().zadd(f"{PREFIX}{key_of('chat').hex()}.turns", {planted: 1.0})
    (due,) = taken(one)
    assert [json.loads(kept.text)["u"] for kept in one.turns(due.key)] == ["q0"]


@pytest.mark.parametrize(
    "state",
    [
        {"due": "1", "period": "x"},
        {"due": "1", "period": "1", "id": "s", "cut": "0", "active": "1", "target": "[" * 5_000},
        {"due": "1", "period": "1", "id": "s" * 9_999, "cut": "0", "active": "1", "target": "{}"},
    ],
)
def test_a_session_that_nobody_can_read_is_dropped_and_counted(host, redis, state):
    """The others go on."""
    one, name = host("one"), "ab" * 16
    redis.client().hset(PREFIX + name, mapping=state)
    redis.client().zadd(DUE, {name: 1})
    add(one, turn(0))
    (due,) = taken(one)
    assert due.session_id == "chat"
    until(lambda: not redis.client().exists(PREFIX + name), "it is dropped")
    until(lambda: one._link.counts.snapshot().get("sessions not understood"), "it is counted")


def test_redis_that_went_back_to_an_older_state_hears_what_was_evaluated(host, redis):
    """As after a restart from a copy that is older than the last verdicts."""
    one, two = host("one"), host("two")
    add(one, turn(0))
    told(one)
    name = PREFIX + key_of("chat").hex()
    before = redis.client().hgetall(name)
    dues = taken(one)
    one.done("me", dues)
    until(lambda: not one.idle_sessions(2**62), "the file knows")
    client = redis.client()
    client.hset(name, mapping=before)
    client.zadd(DUE, {key_of("chat").hex(): 1})
    client.set("llmeval.{shared}.sessions.hold", 1, px=2_000)
    client.set("llmeval.{shared}.sessions.born", "another life")
    add(two, turn(0, session="other"))
    (other,) = taken(two, owner="two")
    assert other.session_id == "other"
    assert client.hget(name, "due") == b""


def test_a_file_that_cannot_be_used_is_replaced_by_memory_and_still_shared(host):
    """Its turns reach the other hosts all the same."""
    one, two = host("one"), host("two")
    one.go_on_in_memory()
    add(one, turn(0))
    told(one)
    (due,) = taken(two)
    assert due.session_id == "chat"


def test_nothing_is_kept_longer_in_redis_than_in_the_file(host, redis):
    """A session that nobody goes on with expires there by itself."""
    one = host("one")
    add(one, turn(0))
    told(one)
    for key in redis.client().keys(f"{PREFIX}*"):
        assert 0 < redis.client().pttl(key) <= turn_store_module.KEPT_NS // 10**6


def test_a_hanging_redis_delays_no_worker_and_loses_no_turn(host, redis):
    """What the worker calls returns at once; Redis is told when it answers again."""
    one, slowest = host("one"), 0.0
    add(one, turn(0))
    told(one)
    redis.pause()
    for number in range(1, 30):
        begun = time.perf_counter()
        add(one, turn(number))
        now = time.time_ns()
        one.renew("me", now + 5 * SECOND)
        assert one.take("me", now, now + 5 * SECOND, 50) == []
        slowest = max(slowest, time.perf_counter() - begun)
        time.sleep(0.02)
    redis.resume()
    assert slowest < 30
    told(one)
    assert sum(due.turns for due in taken(one)) == 30
