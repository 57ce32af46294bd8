"""The register in Redis: each judgement is asked, claimed and settled once, and the account balances."""

import json
import random
import threading
import time
from base64 import b64encode

import pytest
from fleet_parts import until

from llmeval_sdk.config import Secret
from llmeval_sdk.plugins.fleet._answering import Answering
from llmeval_sdk.plugins.fleet._keys import JUDGEMENT, QUEUE_KEY, RESULTS
from llmeval_sdk.plugins.fleet._message import signature
from llmeval_sdk.plugins.fleet._register import HOLD_SECONDS, MAX_TRIES, Register


@pytest.fixture
def register(broker):
    return Register(broker.client(), expiry=3600)


def test_a_message_is_queued_with_its_judgements_or_not_at_all(register, broker):
    """Whoever is not sure of having put a message puts it again, and it is there once."""
    assert register.put("m", ["a", "b"]) == 2
    assert register.put("m", ["a", "b"]) == 0
    assert register.put("n", ["b", "c"]) == 1
    assert broker.client().lrange(QUEUE_KEY, 0, -1) == [b"n", b"m"]
    account = register.account()
    assert (account.asked, account.waiting, account.queued) == (3, 3, 2)
    assert account.is_balanced


def test_a_full_queue_takes_nothing(register):
    """The judgements of a message that has no room are not asked either."""
    register.put("m", ["a"])
    assert register.put("n", ["b"], most=1) == -1
    assert register.account().asked == 1


def test_one_worker_claims_a_judgement(register):
    """Of ten that try at once, one makes it."""
    register.put("m", ["a"])
    states = []
    threads = [
        threading.Thread(
            target=lambda me: states.append(register.claim("a", me, seconds=60).state),
            args=(f"w{n}",),
        )
        for n in range(10)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(states) == ["claimed"] + ["held"] * 9


def test_a_claim_ends_with_its_time_and_not_before(register):
    """The next worker waits as long as the judge of a dead one may still be paid."""
    register.put("m", ["a"])
    register.claim("a", "dead", seconds=0.3)
    claim = register.claim("a", "next", seconds=60)
    assert claim.state == "held"
    assert 0 < claim.seconds <= 0.3
    while (claim := register.claim("a", "next", seconds=60)).state == "held":
        time.sleep(claim.seconds)
    assert claim.state == "claimed"


def test_a_redelivered_judgement_has_the_first_verdict(register):
    """What was settled once is never settled again, nor claimed."""
    register.put("m", ["a"])
    register.claim("a", "w", seconds=60)
    assert register.settle("a", "first", field="judged") is None
    assert register.settle("a", "second", field="judged") == b"first"
    claim = register.claim("a", "x", seconds=60)
    assert (claim.state, claim.outcome, claim.is_sent) == ("settled", b"first", False)
    register.note_sent(["a"])
    assert register.claim("a", "x", seconds=60).is_sent
    assert register.account().judged == 1


def test_whoever_settles_a_judgement_emits_it(register):
    """Others wait until the exporters have the verdict, and then leave it alone."""
    register.put("m", ["a"])
    register.claim("a", "w", seconds=60)
    register.settle("a", "first", field="judged", owner="w")
    claim = register.claim("a", "x", seconds=60)
    assert claim.state == "held"
    assert 0 < claim.seconds <= HOLD_SECONDS
    assert register.claim("a", "w", seconds=60).state == "settled"
    register.note_sent(["a"])
    claim = register.claim("a", "x", seconds=60)
    assert (claim.state, claim.is_sent) == ("settled", True)


def test_an_outcome_returns_to_its_host_once(register, broker):
    """It is put into the host's list in the same step in which it is settled."""
    register.settle("a", "first", field="judged", host="h")
    register.settle("a", "second", field="judged", host="h")
    assert broker.client().lrange(RESULTS + "h", 0, -1) == [b"first"]
    assert broker.client().pttl(RESULTS + "h") > 0


def test_a_judgement_at_which_workers_die_is_given_up(register):
    """A record that kills its judge's process is not paid for without end."""
    register.put("m", ["a"])
    states = [register.claim("a", f"w{n}", seconds=0.0).state for n in range(MAX_TRIES + 1)]
    assert states == ["claimed"] * MAX_TRIES + ["lost"]


def test_what_waited_too_long_is_refused(broker):
    """A judgement expires by the clock of Redis, whether its message is there or lost."""
    register = Register(broker.client(), expiry=2.0)
    register.put("m", ["a", "b"])
    asked = broker.client().time()[0]
    while broker.client().time()[0] < asked + 3:
        time.sleep(0.05)
    assert register.claim("a", "w", seconds=60).state == "expired"
    register.settle("a", "x", field="refused:expired")
    assert register.sweep() == 1
    account = register.account()
    assert dict(account.refused) == {"expired": 2}
    assert account.waiting == 0
    assert account.is_balanced


def test_what_waited_longer_than_its_key_is_asked_once(broker):
    """After days without a worker the account still adds up, whoever comes first."""
    register = Register(broker.client(), expiry=0.3)
    register.put("m", ["a", "b", "c", "d"])
    while broker.client().exists(*(f"{JUDGEMENT}{name}" for name in "abcd")):
        time.sleep(0.05)
    assert register.put("m", ["a"]) == 1
    assert register.claim("b", "w", seconds=0).state == "expired"
    register.settle("b", "x", field="refused:expired")
    register.settle("c", "x", field="judged")
    account = register.account()
    assert (account.asked, account.waiting, account.is_balanced) == (4, 2, True)
    while register.account().waiting:
        register.sweep()
    account = register.account()
    assert (account.asked, account.judged, dict(account.refused)) == (4, 1, {"expired": 3})


def test_the_account_balances_whatever_happens(register):
    """Any order of asking, claiming, settling and sweeping leaves asked = judged + refused + waiting."""
    chance = random.Random(5)
    ids = [f"{n}" for n in range(40)]
    for _ in range(400):
        one = chance.choice(ids)
        match chance.randrange(4):
            case 0:
                register.put("m", chance.sample(ids, 3))
            case 1:
                register.claim(one, f"w{chance.randrange(3)}", seconds=chance.random() / 100)
            case 2:
                register.settle(one, "x", field=chance.choice(["judged", "refused:error"]))
            case _:
                register.sweep()
    account = register.account()
    assert account.is_balanced
    assert account.asked > 20


def test_every_key_has_the_prefix(register, broker):
    """A Redis that others use too stays theirs."""
    register.put("m", ["a"])
    register.claim("a", "w", seconds=1)
    register.settle("a", "x", field="judged", host="h")
    assert all(key.startswith(b"llmeval.") for key in broker.client().keys())  # noqa: SIM118


def test_a_message_that_got_lost_on_its_way_to_a_worker_is_queued_again(broker, register):
    """Celery's transport takes it out of the queue before it notes who has it."""
    redis = broker.client()
    register.put("m", ["a", "b"], name="copy")
    assert register.queue_again(0.0) == 0  # it is still in the queue
    assert redis.rpop("llmeval.judgements") == b"m"  # and now nobody has it
    assert register.queue_again(60.0) == 0
    register.claim("a", "w", seconds=60.0)
    until(lambda: register.queue_again(0.05) == 1, "another delivery", seconds=5)
    assert redis.lrange("llmeval.judgements", 0, -1) == [b"m"]
    assert register.claim("b", "v", seconds=60.0).state == "claimed"


def test_a_message_that_was_answered_is_never_queued_again(broker, register):
    """What is left of it is nothing."""
    redis = broker.client()
    register.put("m", ["a"], name="copy")
    redis.rpop("llmeval.judgements")
    register.forget_message("copy")
    assert register.queue_again(0.0) == 0
    assert not redis.keys("llmeval.message.*")


def test_a_message_that_is_refused_for_good_leaves_no_copy(broker, register):
    """Its prompts do not stay in Redis; a forged message forgets no copy of another one."""
    redis, key = broker.client(), Secret("a-key-that-only-tests-have")
    judgement = "0" * 32
    body = b64encode(json.dumps({"v": 999, "ids": [judgement]}).encode()).decode()
    signed = signature(body, key)
    register.put("m", [judgement], name=signed)
    worker = object.__new__(Answering)
    worker.key, worker._register = key, register
    worker.answer("another text", signed)
    assert redis.keys("llmeval.message.*")
    worker.answer(body, signed)
    assert not redis.keys("llmeval.message.*")
    account = register.account()
    assert dict(account.refused) == {"unknown_version": 1}
    assert account.is_balanced
