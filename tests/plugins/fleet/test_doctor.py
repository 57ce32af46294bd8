"""`llmeval doctor --fleet` has a sentence for whatever can be wrong with a fleet."""

import json
import re
import subprocess
import sys
import time
from dataclasses import asdict

from fleet_parts import KEY, environment, free_port, judging, until, worker

from llmeval_sdk.config import Secret
from llmeval_sdk.plugins.fleet._judgement_store import JudgementStore
from llmeval_sdk.plugins.fleet._message import VERSION, fingerprint
from llmeval_sdk.plugins.fleet.serving import WorkerInfo, present_workers
from llmeval_sdk.process.distribution import release


def doctor(env):
    """Run it and return what it says of the fleet, in one line, and its status."""
    done = subprocess.run(
        [sys.executable, "-m", "llmeval_sdk", "doctor", "--fleet", "--offline"],
        env={**env, "COLUMNS": "400"}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert KEY not in done.stdout
    said = done.stdout.partition("Judge fleet")[2]
    return " ".join(said.split()), done.returncode


def present(broker, **what):
    """Say that a worker is there which differs in something."""
    at = time.time() + what.pop("since", 0.0)
    known = {
        "name": "w", "release": release(), "messages": [VERSION], "judges": ["groundedness"],
        "key": fingerprint(Secret(KEY)), "pool": "threads", "slots": 2, "model": "m", "at": at,
    }  # fmt: skip
    broker.client().hset(
        "llmeval.workers", "w", json.dumps(asdict(WorkerInfo(**{**known, **what})))
    )


def test_a_fleet_that_is_well(broker, judge_server, tmp_path):
    """Queue, worker, judges and account are named, and nothing is broken there."""
    env = environment(broker.address, tmp_path, LLMEVAL_EVALUATORS="groundedness")
    with worker(judging(env, judge_server), "--name", "first"):
        until(lambda: broker.client().hlen("llmeval.workers"), "a worker")
        said, _ = doctor(env)
    assert f"{broker.address} Redis 7" in said
    assert "worker first threads, 2 messages at a time, model stand-in" in said
    assert "judge groundedness known to all workers" in said
    assert "asked 0 = judged 0 + refused 0 + waiting 0; 0 messages in the queue" in said
    fleet = said.partition("Extras")[0]
    assert "BROKEN" not in fleet


def test_what_is_wrong_with_the_settings(tmp_path):
    """A wrong address, none, and no key are said; the address's password is not."""
    env = environment("amqp://user:secret-word@host/", tmp_path)
    said, status = doctor(env)
    assert status == 1
    assert "no queue is named" in said
    assert "expected redis://" in said
    assert "secret-word" not in said
    env = environment("redis://h/0", tmp_path)
    env.pop("LLMEVAL_FLEET_KEY")
    assert "a fleet needs a key: set LLMEVAL_FLEET_KEY" in doctor(env)[0]


def test_no_broker(tmp_path):
    """A Redis that is not there is said with its place."""
    port = free_port()
    said, status = doctor(environment(f"redis://:pass-word@127.0.0.1:{port}/0", tmp_path))
    assert status == 1
    assert f"redis://127.0.0.1:{port}/0 cannot be used: ConnectionError" in said
    assert "pass-word" not in said


def test_a_worker_of_a_newer_release_is_seen(broker):
    """What it says beyond what is known here is ignored, and what it said stays there."""
    present(broker)
    said = json.loads(broker.client().hget("llmeval.workers", "w"))
    broker.client().hset("llmeval.workers", "w", json.dumps({**said, "mood": "good"}))
    assert [each.name for each in present_workers(broker.client())] == ["w"]
    assert broker.client().hlen("llmeval.workers") == 1


def test_what_is_wrong_with_workers(broker, tmp_path):
    """No worker, one that is gone, another key, version, clock, judge, and no key for its model."""
    env = environment(broker.address, tmp_path, LLMEVAL_EVALUATORS="groundedness")
    assert "workers none is there: start one with `llmeval fleet`" in doctor(env)[0]
    present(broker, since=-100)
    assert re.search(r"has said nothing for 1\d\d s: it ended, or is cut off", doctor(env)[0])
    present(
        broker, messages=[VERSION + 1], key="other", judges=["safety"], ahead=-200.0,
        problems=["the judge model cannot be asked: set OPENAI_API_KEY"],
    )  # fmt: skip
    said, status = doctor(env)
    assert status == 1
    for words in (
        "renew the workers before the apps",
        "has another LLMEVAL_FLEET_KEY",
        "judge groundedness unknown to w: its judgements are refused there",
        "clock of w 3.3 minutes behind that of Redis",
        "the judge model cannot be asked: set OPENAI_API_KEY",
    ):
        assert words in said


def test_what_was_refused_is_said(broker, tmp_path):
    """Each reason of the account has a sentence."""
    store = JudgementStore(broker.client(), expiry=60)
    store.refuse_message("forged", b"entry")
    store.settle("a", "x", field="refused:unknown_judge")
    store.settle("b", "x", field="refused:over_budget")
    said, status = doctor(environment(broker.address, tmp_path))
    assert status == 1
    assert "messages, forged 1 were not signed with this key" in said
    assert "dead list 1 entries of the queue are kept, cut short: LRANGE llmeval.dead 0 -1" in said
    assert "refused, unknown_judge 1 name a judge that the workers do not have" in said
    assert "refused, over_budget 1" in said
    assert "asked 2 = judged 0 + refused 2 + waiting 0" in said


def test_a_worker_without_a_model_says_so(broker, tmp_path):
    """It starts, says what is wrong, and `doctor` repeats it."""
    env = environment(broker.address, tmp_path, LLMEVAL_EVALUATORS="groundedness")
    own = {**env, "LLMEVAL_JUDGE_MODEL": "nobody/knows-this"}
    with worker(own) as process:
        until(lambda: broker.client().hlen("llmeval.workers"), "a worker")
        said, status = doctor(env)
    assert status == 1
    assert "problem: the judge model cannot be asked" in process.said
    assert "the judge model cannot be asked" in said


def test_a_worker_that_cannot_start_says_why(broker, tmp_path):
    """A wrong --app, no key and no queue end it with a sentence, not a traceback."""
    env = environment(broker.address, tmp_path)
    for extra, words, without in (
        (["--app", "nothing:here"], "--app nothing:here: No module named 'nothing'", ""),
        (["--app", "json:nothing"], "--app json:nothing", ""),
        (["--concurrency", "0"], "--concurrency: at least 1", ""),
        ([], "a fleet needs a key", "LLMEVAL_FLEET_KEY"),
        ([], "no queue is named", "LLMEVAL_JUDGE_QUEUE"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "llmeval_sdk", "fleet", *extra],
            env={key: value for key, value in env.items() if key != without},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 2
        assert words in done.stderr
        assert "Traceback" not in done.stderr
