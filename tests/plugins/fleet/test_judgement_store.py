"""The store in Redis: each judgement is asked, claimed and settled once, and the account balances."""

import json
import random
import threading
import time
from base64 import b64encode

import pytest
from fleet_parts import until

from llmeval_sdk.config import Secret
from llmeval_sdk.plugins.fleet._judgement_store import (
    HOLD_SECONDS,
    JUDGEMENT,
    MAX_TRIES,
    QUEUE_KEY,
    RESULTS,
    JudgementStore,
)
from llmeval_sdk.plugins.fleet._message import signature
from llmeval_sdk.plugins.fleet._worker import FleetWorker


@pytest.fixture
def store(broker):
    return JudgementStore(broker.client(), expiry=3600)


def test_a_message_is_queued_with_its_judgements_or_not_at_all(store, broker):
    """Whoever is not sure of having put a message puts it again, and it is there once."""
    assert store.put("m", ["a", "b"]) == 2
    assert store.put("m", ["a", "b"]) == 0
    assert store.put("n", ["b", "c"]) == 1
    assert broker.client().lrange(QUEUE_KEY, 0, -1) == [b"n", b"m"]
    account = store.account()
    assert (account.asked, account.waiting, account.queued) == (3, 3, 2)
    assert account.is_balanced


def test_a_full_queue_takes_nothing(store):
    """The judgements of a message that has no room are not asked either."""
    store.put("m", ["a"])
    assert store.put("n", ["b"], most=1) == -1
    assert store.account().asked == 1


def test_one_worker_claims_a_judgement(store):
    """Of ten that try at once, one makes it."""
    store.put("m", ["a"])
    states = []
    threads = [
        threading.Thread(
            target=lambda me: states.append(store.claim("a", me, seconds=60).state),
            args=(f"w{n}",),
        )
        for n in range(10)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(states) == ["claimed"] + ["held"] * 9


def test_a_claim_ends_with_its_time_and_not_before(store):
    """The next worker waits as long as the judge of a dead one may still be paid."""
    store.put("m", ["a"])
    store.claim("a", "dead", seconds=0.3)
    claim = store.claim("a", "next", seconds=60)
    assert claim.state == "held"
    assert 0 < claim.seconds <= 0.3
    while (claim := store.claim("a", "next", seconds=60)).state == "held":
        time.sleep(claim.seconds)
    assert claim.state == "claimed"


def test_a_redelivered_judgement_has_the_first_verdict(store):
    """What was settled once is never settled again, nor claimed."""
    store.put("m", ["a"])
    store.claim("a", "w", seconds=60)
    assert store.settle("a", "first", field="judged") is None
    assert store.settle("a", "second", field="judged") == b"first"
    claim = store.claim("a", "x", seconds=60)
    assert (claim.state, claim.outcome, claim.is_sent) == ("settled", b"first", False)
    store.note_sent(["a"])
    assert store.claim("a", "x", seconds=60).is_sent
    assert store.account().judged == 1


def test_whoever_settles_a_judgement_emits_it(store):
    """Others wait until the exporters have the verdict, and then leave it alone."""
    store.put("m", ["a"])
    store.claim("a", "w", seconds=60)
    store.settle("a", "first", field="judged", owner="w")
    claim = store.claim("a", "x", seconds=60)
    assert claim.state == "held"
    assert 0 < claim.seconds <= HOLD_SECONDS
    assert store.claim("a", "w", seconds=60).state == "settled"
    store.note_sent(["a"])
    claim = store.claim("a", "x", seconds=60)
    assert (claim.state, claim.is_sent) == ("settled", True)


def test_an_outcome_returns_to_its_host_once(store, broker):
    """It is put into the host's list in the same step in which it is settled."""
    store.settle("a", "first", field="judged", host="h")
    store.settle("a", "second", field="judged", host="h")
    assert broker.client().lrange(RESULTS + "h", 0, -1) == [b"first"]
    assert broker.client().pttl(RESULTS + "h") > 0


def test_a_judgement_at_which_workers_die_is_given_up(store):
    """A record that kills its judge's process is not paid for without end."""
    store.put("m", ["a"])
    states = [store.claim("a", f"w{n}", seconds=0.0).state for n in range(MAX_TRIES + 1)]
    assert states == ["claimed"] * MAX_TRIES + ["lost"]


def test_what_waited_too_long_is_refused(broker):
    """A judgement expires by the clock of Redis, whether its message is there or lost."""
    store = JudgementStore(broker.client(), expiry=2.0)
    store.put("m", ["a", "b"])
    asked = broker.client().time()[0]
    while broker.client().time()[0] < asked + 3:
        time.sleep(0.05)
    assert store.claim("a", "w", seconds=60).state == "expired"
    store.settle("a", "x", field="refused:expired")
    assert store.sweep() == 1
    account = store.account()
    assert dict(account.refused) == {"expired": 2}
    assert account.waiting == 0
    assert account.is_balanced


def test_what_waited_longer_than_its_key_is_asked_once(broker):
    """After days without a worker the account still adds up, whoever comes first."""
    store = JudgementStore(broker.client(), expiry=0.3)
    store.put("m", ["a", "b", "c", "d"])
    while broker.client().exists(*(f"{JUDGEMENT}{name}" for name in "abcd")):
        time.sleep(0.05)
    assert store.put("m", ["a"]) == 1
    assert store.claim("b", "w", seconds=0).state == "expired"
    store.settle("b", "x", field="refused:expired")
    store.settle("c", "x", field="judged")
    account = store.account()
    assert (account.asked, account.waiting, account.is_balanced) == (4, 2, True)
    while store.account().waiting:
        store.sweep()
    account = store.account()
    assert (account.asked, account.judged, dict(account.refused)) == (4, 1, {"expired": 3})


def test_the_account_balances_whatever_happens(store):
    """Any order of asking, claiming, settling and sweeping leaves asked = judged + refused + waiting."""
    chance = random.Random(5)
    ids = [f"{n}" for n in range(40)]
    for _ in range(400):
        one = chance.choice(ids)
        match chance.randrange(4):
            case 0:
                store.put("m", chance.sample(ids, 3))
            case 1:
                store.claim(one, f"w{chance.randrange(3)}", seconds=chance.random() / 100)
            case 2:
                store.settle(one, "x", field=chance.choice(["judged", "refused:error"]))
            case _:
                store.sweep()
    account = store.account()
    assert account.is_balanced
    assert account.asked > 20


def test_every_key_has_the_prefix(store, broker):
    """A Redis that others use too stays theirs."""
    store.put("m", ["a"])
    store.claim("a", "w", seconds=1)
    store.settle("a", "x", field="judged", host="h")
    assert all(key.startswith(b"llmeval.") for key in broker.client().keys())  # noqa: SIM118


def test_a_message_that_got_lost_on_its_way_to_a_worker_is_queued_again(broker, store):
    """Celery's transport takes it out of the queue before it notes who has it."""
    redis = broker.client()
    store.put("m", ["a", "b"], name="copy")
    assert store.queue_again(0.0) == 0  # it is still in the queue
    assert redis.rpop("llmeval.judgements") == b"m"  # and now nobody has it
    assert store.queue_again(60.0) == 0
    store.claim("a", "w", seconds=60.0)
    until(lambda: store.queue_again(0.05) == 1, "another delivery", seconds=5)
    assert redis.lrange("llmeval.judgements", 0, -1) == [b"m"]
    assert store.claim("b", "v", seconds=60.0).state == "claimed"


def test_a_message_that_was_answered_is_never_queued_again(broker, store):
    """What is left of it is nothing."""
    redis = broker.client()
    store.put("m", ["a"], name="copy")
    redis.rpop("llmeval.judgements")
    store.forget_message("copy")
    assert store.queue_again(0.0) == 0
    assert not redis.keys("llmeval.message.*")


def test_a_message_that_is_refused_for_good_leaves_no_copy(broker, store):
    """Its prompts do not stay in Redis; a forged message forgets no copy of another one."""
    redis, key = broker.client(), Secret("a-key-that-only-tests-have")
    judgement = "0" * 32
    body = b64encode(json.dumps({"v": 999, "ids": [judgement]}).encode()).decode()
    signed = signature(body, key)
    store.put("m", [judgement], name=signed)
    worker = object.__new__(FleetWorker)
    worker.key, worker._store = key, store
    worker.answer("another text", signed)
    assert redis.keys("llmeval.message.*")
    worker.answer(body, signed)
    assert not redis.keys("llmeval.message.*")
    account = store.account()
    assert dict(account.refused) == {"unknown_version": 1}
    assert account.is_balanced
