"""A broker that is away costs the app nothing, and what is not judged has its reason."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from doubles import Exporter
from fleet_parts import (
    APP,
    KEY,
    account,
    environment,
    free_port,
    judging,
    run_app,
    until,
    verdicts,
    worker,
)

import llmeval_sdk as llmeval
from llmeval_sdk.pipeline import runtime
from llmeval_sdk.pipeline.judging import MAX_WAITING
from llmeval_sdk.plugins.fleet._judgement_store import MAX_MESSAGES, QUEUE_KEY


AWAY = """
import sys; sys.path.insert(0, sys.argv[1])
import apps, time, llmeval_sdk as llmeval
apps.configure(**eval(sys.argv[2]))
apps.ask(0, 5)
apps.ask(5, 200)
for n in range(60):
    apps.ask(205, 20); time.sleep(0.02)
deadline = time.monotonic() + 60
while time.monotonic() < deadline:
    stats = llmeval.stats()
    refused = sum(sum(reasons.values()) for reasons in stats.not_run.values())
    if stats.pending_judgements + refused == 1405:
        break
    time.sleep(0.05)
apps.say()
llmeval.shutdown(1.0); apps.say()
"""


def _run_away(env, **options):
    done = subprocess.run(
        [sys.executable, "-c", AWAY, str(APP.parent), repr(options)],
        env={**env, "LLMEVAL_HEURISTICS": "off"}, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    before, after = map(json.loads, done.stdout.splitlines())
    return before, after, done.stderr


def test_without_a_broker_judgements_wait_in_memory_and_are_then_counted(tmp_path):
    """The bounded queue keeps the first ones; the rest, and these at the end, have a reason."""
    env = environment(f"redis://127.0.0.1:{free_port()}/0", tmp_path)
    before, after, log = _run_away(env)
    assert before["pending"] == MAX_WAITING
    assert before["not_run"] == {"groundedness": {"queue_unreachable": 1405 - MAX_WAITING}}
    assert after["not_run"] == {"groundedness": {"queue_unreachable": 1405}}
    assert after["pending"] == 0
    assert "cannot be reached" in log
    assert len(log.splitlines()) <= 4


def test_a_hanging_broker_holds_nobody_up(broker, tmp_path):
    """A Redis that takes connections and never answers holds up neither calls nor the end."""
    env = environment(broker.address, tmp_path)
    broker.pause()
    _, after, _ = _run_away(env)
    assert sum(after["not_run"]["groundedness"].values()) == 1405


def test_with_a_spool_judgements_wait_there(broker, judge_server, tmp_path):
    """A process that ends while the broker is away leaves them to the next one, which hands over."""
    spool = {"LLMEVAL_SPOOL": str(tmp_path / "spool")}
    dead = environment(f"redis://127.0.0.1:{free_port()}/0", tmp_path, **spool)
    run_app({**dead, "FLUSH": "1"}, "leave", 0, 30)
    env = environment(broker.address, tmp_path, **spool)
    with worker(judging(env, judge_server, LLMEVAL_SPOOL="")):
        said = run_app(env, "wait", 30, 1)
        until(lambda: account(broker).judged == 31, "31 verdicts")
        run_app({**env, "RETURNED": str(32 - said["fleet"].get("returned", 0))}, "wait", 31, 1)
    assert said["not_run"] == {}
    assert len(verdicts(env["LLMEVAL_STORE"])) == 32
    assert judge_server.calls == 32


def test_what_no_spool_holds_is_not_counted_as_spooled(tmp_path):
    """A spool whose folder cannot be used holds nothing, so each judgement that is lost has a reason."""
    (tmp_path / "file").touch()
    spool = {"LLMEVAL_SPOOL": str(tmp_path / "file" / "spool")}
    env = environment(f"redis://127.0.0.1:{free_port()}/0", tmp_path, **spool)
    before, after, _ = _run_away(env)
    assert before["fleet"] == {}
    assert before["not_run"] == {"groundedness": {"queue_unreachable": 1405 - MAX_WAITING}}
    assert after["not_run"] == {"groundedness": {"queue_unreachable": 1405}}


def test_with_an_own_redaction_nothing_waits_on_disk(tmp_path):
    """Its spool holds no content, so what finds no room in memory is counted at once."""
    env = environment(
        f"redis://127.0.0.1:{free_port()}/0", tmp_path, LLMEVAL_SPOOL=str(tmp_path / "spool")
    )
    app = AWAY.replace("**eval(sys.argv[2])", "redact=lambda text: text")
    done = subprocess.run(
        [sys.executable, "-c", app, str(APP.parent), "{}"],
        env={**env, "LLMEVAL_HEURISTICS": "off"}, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    before, after = map(json.loads, done.stdout.splitlines())
    assert before["not_run"] == {"groundedness": {"queue_unreachable": 1405 - MAX_WAITING}}
    assert after["not_run"] == {"groundedness": {"queue_unreachable": 1405}}


def test_a_full_queue_is_no_broker_that_is_away(broker):
    """Whoever reads the reason starts more workers, and does not look for Redis."""
    broker.client().rpush(QUEUE_KEY, *["message"] * MAX_MESSAGES)
    exporter = Exporter()
    llmeval.configure(
        evaluators=["groundedness"], escalations=[], exporters=[exporter], heuristics="off",
        judge_queue=broker.address, fleet_key=KEY,
    )  # fmt: skip
    with llmeval.workflow("answer", request="What is it made of?") as span:
        span.response = "Slate."
        span.retrieved_context = ["It is made of slate."]
    judging = runtime.pipeline().work().worker.judging
    until(lambda: judging._is_away, "an attempt to put the message")
    llmeval.shutdown(5.0)
    (reason,) = (each for each in exporter.not_run if each.evaluator == "groundedness")
    assert reason.reason == "queue_unreachable"
    assert reason.detail == f"{broker.address}: its queue of judgements is full"


def test_judgements_go_out_when_the_broker_comes_back(broker, judge_server, tmp_path):
    """Nothing that waited is lost, and nothing is asked twice."""
    env = environment(broker.address, tmp_path)
    broker.kill()
    app = subprocess.Popen(
        [sys.executable, str(APP), "wait", "0", "50"], env={**env, "FLUSH": "60"},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    time.sleep(2)  # so long that the app has tried
    broker.start()
    with worker(judging(env, judge_server)):
        said = json.loads(app.communicate(timeout=100)[0])
    assert said["fleet"] == {"handed_over": 50, "returned": 50}
    assert judge_server.calls == 50


def test_a_killed_worker_child_costs_at_most_the_calls_in_flight(broker, judge_server, tmp_path):
    """Celery gives its message back at once; what was settled is not paid for again."""
    judge_server.default, judge_server.delay = "slow", 0.3
    env = environment(broker.address, tmp_path)
    own = judging(env, judge_server, LLMEVAL_JUDGE_TIMEOUT="3", LLMEVAL_JUDGE_CONCURRENCY="4")
    with worker(own, "--pool", "prefork", "--concurrency", "1") as parent:
        run_app(env, "leave", 0, 32)
        until(lambda: account(broker).judged >= 4, "a first verdict")
        (child,) = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
        os.kill(int(child), signal.SIGKILL)
        until(lambda: account(broker).judged == 32, "32 verdicts")
        said = run_app({**env, "RETURNED": "33"}, "wait", 100, 1)
    assert said["not_run"] == {}
    assert len(verdicts(env["LLMEVAL_STORE"])) == 33
    assert 33 <= judge_server.calls <= 33 + 4
    now = account(broker)
    assert (now.judged, now.waiting, now.refused) == (33, 0, {})
    assert now.is_balanced
