"""Whatever stands in the queue, a worker goes on: it judges what is signed, and counts the rest."""

import json

import pytest
from fleet_parts import KEY, account, environment, judging, run_app, until, worker

from llmeval_sdk.config import Secret
from llmeval_sdk.fleet._keys import DEAD, QUEUE_KEY
from llmeval_sdk.fleet._message import (
    MAX_ENTRY_BYTES,
    RefusedError,
    checked_envelope,
    envelope,
    signature,
)
from llmeval_sdk.fleet._register import MAX_DEAD, MAX_DEAD_BYTES, Register


OURS = json.loads(envelope("e30=", signature("e30=", Secret(KEY)), "0" * 32))


def _ours_but(**fields):
    return json.dumps({**OURS, **fields}).encode()


UNREADABLE = [
    b"", b"[]", b"5", b"null", b"not JSON", b"\xff\xfe\x00", b"[" * 100_000, b"{}", b'{"body": 5}',
    b"9" * 5_000, *(_ours_but(body=body) for body in ("[]", "", "{}", "5", [], None, "[[], {}, {}]",
    '[["\\"", "x"], {}, {}]', "[[5, 5], {}, {}]", '[["e30=", "x", "y"], {}, {}]')),
]  # fmt: skip
FORGED = [_ours_but(body='[["e30=", "x"], {}, {}]'), _ours_but(body='[["e30=", []], {}, {}]')]


@pytest.mark.parametrize("entry", UNREADABLE + FORGED, ids=repr)
def test_an_entry_that_is_no_message_is_refused(entry):
    """No shape of it raises anything else."""
    with pytest.raises(RefusedError) as refused:
        checked_envelope(entry, Secret(KEY))
    assert refused.value.reason == ("forged" if entry in FORGED else "unreadable")


def test_an_entry_that_is_too_large_is_not_parsed():
    """A message of the largest size with its envelope is within the bound."""
    with pytest.raises(RefusedError, match="too_large"):
        checked_envelope(b" " * (MAX_ENTRY_BYTES + 1), Secret(KEY))


@pytest.mark.parametrize(
    "fields",
    [
        {"headers": None, "properties": []},
        {"content-type": "application/x-python-serialize", "content-encoding": "none"},
        {"headers": {**OURS["headers"], "task": "other", "eta": "x", "compression": "zlib"}},
    ],
)
def test_of_an_envelope_only_what_was_signed_reaches_celery(fields):
    """Its headers and properties are not signed, so they are written anew."""
    made = json.loads(checked_envelope(_ours_but(**fields), Secret(KEY)))
    serial = made["headers"]["id"]
    assert made == json.loads(json.dumps(OURS).replace("0" * 32, serial))


def test_the_dead_list_is_bounded(broker):
    """It keeps the newest entries, cut short, for as long as anything waits."""
    register = Register(broker.client(), expiry=60)
    for number in range(MAX_DEAD + 5):
        register.refuse_message("unreadable", b"%d " % number + b"x" * 1_000_000)
    entries = broker.client().lrange(DEAD, 0, -1)
    assert (len(entries), max(map(len, entries))) == (MAX_DEAD, MAX_DEAD_BYTES)
    assert entries[0].startswith(b"104 ")
    assert 0 < broker.client().pttl(DEAD) <= 60_000
    assert account(broker).messages == {"unreadable": MAX_DEAD + 5}
    assert account(broker).dead == MAX_DEAD


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_a_worker_outlives_whatever_stands_in_its_queue(broker, judge_server, tmp_path, pool):
    """Messages behind such entries are judged; the entries are counted and do not come back."""
    env = environment(broker.address, tmp_path)
    entries = [*UNREADABLE, *FORGED, b" " * (MAX_ENTRY_BYTES + 1)]
    broker.client().lpush(QUEUE_KEY, *entries)
    with worker(judging(env, judge_server), "--pool", pool) as process:
        run_app({**env, "RETURNED": "5"}, "wait", 0, 5)
        assert process.poll() is None
        until(lambda: not broker.client().llen(QUEUE_KEY), "an empty queue")
    now = account(broker)
    assert now.messages == {"unreadable": len(UNREADABLE), "forged": 2, "too_large": 1}
    assert (now.judged, now.dead, now.is_balanced) == (5, len(entries) - 1, True)
    assert "an entry of the queue is refused" in process.said
