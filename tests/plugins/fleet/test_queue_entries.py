"""Whatever stands in the queue, a worker goes on: it judges what is signed, and counts the rest."""

import json

import pytest
from fleet_parts import (
    KEY,
    account,
    environment,
    judging,
    run_app,
    start_worker,
    until,
    worker,
)

from llmeval_sdk.config import Secret
from llmeval_sdk.plugins.fleet._judgement_store import (
    ACCOUNT,
    DEAD,
    KEYS,
    MAX_DEAD,
    MAX_DEAD_BYTES,
    QUEUE_KEY,
    TYPES,
    JudgementStore,
    wrong_types,
)
from llmeval_sdk.plugins.fleet._message import (
    MAX_ENTRY_BYTES,
    RefusedError,
    checked_envelope,
    checked_note,
    envelope,
    signature,
)


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
    store = JudgementStore(broker.client(), expiry=60)
    for number in range(MAX_DEAD + 5):
        store.refuse_message("unreadable", b"%d " % number + b"x" * 1_000_000)
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


NOTES = [
    b"", b"5", b"null", b"[]", b"{}", b"not JSON", b"\xff\xfe", b"[" * 100_000, b"[5, 5]",
    b'["", "", "", ""]', b'{"a": 1, "b": 2, "c": 3}', b"[null, null, null]", b'["{}", "", ""]',
    b"[{}, [], {}]", b'[{"body": 5}, "x", "y"]',
]  # fmt: skip
"""What a stranger may put where the transport notes who has a message."""


def _note(entry, exchange="", queue="judgements"):
    return json.dumps([entry, exchange, queue]).encode()


@pytest.mark.parametrize("note", NOTES, ids=repr)
def test_a_note_of_the_transport_that_holds_no_message_is_refused(note):
    """No shape of it raises anything else."""
    with pytest.raises(RefusedError, match="unreadable"):
        checked_note(note, Secret(KEY))


def test_of_a_note_only_what_was_signed_is_queued_again():
    """Neither its envelope nor the queue that it names is believed; too large a one is not parsed."""
    noted = checked_note(_note({**OURS, "headers": None}, "other", ["x"]), Secret(KEY))
    assert json.loads(noted)["body"] == OURS["body"]
    with pytest.raises(RefusedError, match="forged"):
        checked_note(_note(json.loads(FORGED[0])), Secret(KEY))
    with pytest.raises(RefusedError, match="too_large"):
        checked_note(b" " * (2 * MAX_ENTRY_BYTES), Secret(KEY))


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_a_worker_outlives_whatever_stands_among_the_messages_it_holds(
    broker, judge_server, tmp_path, pool
):
    """Unreadable notes go to the dead list, counted; a message that a lost worker held is judged."""
    env = environment(broker.address, tmp_path)
    redis = broker.client()
    run_app({**env, "RETURNED_SECONDS": "0", "LLMEVAL_SHUTDOWN_TIMEOUT": "2"}, "wait", 0, 1)
    (entry,) = redis.lrange(QUEUE_KEY, 0, -1)
    redis.delete(QUEUE_KEY)
    notes = {f"tag {place}": note for place, note in enumerate(NOTES)}
    redis.hset(f"{KEYS}unacked", mapping={**notes, "lost": _note(json.loads(entry))})
    redis.zadd(f"{KEYS}unacked_index", {**dict.fromkeys(notes, 1), "lost": 1, "no note": 1})
    with worker(judging(env, judge_server), "--pool", pool) as process:
        until(lambda: account(broker).judged, "the verdict of the message that was held")
        until(lambda: not redis.exists(f"{KEYS}unacked", f"{KEYS}unacked_index"), "no more notes")
        assert process.poll() is None
    now = account(broker)
    assert now.messages == {"unreadable": len(NOTES)}
    assert (now.judged, now.dead, now.is_balanced) == (1, len(NOTES) - 1, True)
    assert "an entry of the queue is refused" in process.said


@pytest.mark.parametrize("key", TYPES)
def test_a_key_of_another_type_is_named_with_what_to_do(broker, key):
    """Whatever key of the fleet a stranger has overwritten, the sentence says how to get rid of it."""
    assert wrong_types(broker.client()) == []
    broker.client().geoadd("other", (0, 0, "x"))
    broker.client().xadd(key, {"x": "y"})
    (words,) = wrong_types(broker.client())
    assert words == (
        f"{key} is a stream, and a fleet keeps a {TYPES[key]} there: somebody else wrote it. "
        f"Delete it: redis-cli DEL {key}"
    )


@pytest.mark.parametrize("key", [QUEUE_KEY, DEAD, ACCOUNT])
def test_a_worker_does_not_start_on_a_key_of_another_type(broker, judge_server, tmp_path, key):
    """It ends at once with one line, rather than with a traceback of its transport."""
    broker.client().set(key, "x")
    process = start_worker(judging(environment(broker.address, tmp_path), judge_server))
    assert process.wait(60) == 2
    said = process.stdout.read()
    process.stdout.close()
    assert f"{key} is a string, and a fleet keeps a {TYPES[key]} there" in said
    assert "Traceback" not in said


def _told(redis, broken):
    """Return how many unreadable entries stand where the one key does not stop them."""
    if broken == DEAD:
        return int(redis.hget(ACCOUNT, "message:unreadable") or 0)
    return redis.llen(DEAD)


@pytest.mark.parametrize("key", [DEAD, ACCOUNT])
def test_a_key_that_gets_another_type_does_not_end_a_worker(broker, judge_server, tmp_path, key):
    """The log names the key, and when it has been deleted the worker goes on as before."""
    env = environment(broker.address, tmp_path)
    redis = broker.client()
    with worker(judging(env, judge_server)) as process:
        run_app({**env, "RETURNED": "1"}, "wait", 0, 1)
        redis.delete(key)
        redis.set(key, "x")
        for number in (1, 2):  # by the second, the first is done with
            redis.lpush(QUEUE_KEY, b"no message")
            until(lambda number=number: _told(redis, key) == number, "an entry that is told")
        redis.delete(key)
        redis.lpush(QUEUE_KEY, b"no message")
        until(lambda: account(broker).messages and account(broker).dead, "an entry that is counted")
        assert process.poll() is None
    assert f"{key} is a string" in process.said


def test_a_queue_that_gets_another_type_ends_a_worker_with_its_name(broker, judge_server, tmp_path):
    """It does not hang, and its last line says what to do."""
    redis = broker.client()
    with worker(judging(environment(broker.address, tmp_path), judge_server)) as process:
        until(lambda: redis.hlen("llmeval.workers"), "a worker")
        redis.set(QUEUE_KEY, "x")
        until(lambda: process.poll() is not None, "the end of the worker")
        assert process.poll() == 2
    assert f"redis-cli DEL {QUEUE_KEY}" in process.said.splitlines()[-1]


def test_numbers_of_the_account_that_are_none_are_left_out(broker):
    """Another program's field in it does not end `llmeval doctor`."""
    broker.client().hset(ACCOUNT, mapping={"asked": "many", b"judged": "3", b"\xff": "1"})
    assert (account(broker).asked, account(broker).judged) == (0, 3)
