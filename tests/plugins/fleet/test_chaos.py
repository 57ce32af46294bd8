"""Workers, apps and Redis are killed at random: nothing is lost, and nothing is judged twice."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing

import pytest
from fleet_parts import APP, account, environment, judging, kill_group, start_worker, until


SECONDS = float(os.environ.get("LLMEVAL_TEST_FLEET_SECONDS", "15"))
HOSTS = 2
PLACES = 8
HOST = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
import apps, llmeval_sdk as llmeval
name, log, stop = sys.argv[2:]
apps.configure()
n = 0
while not os.path.exists(stop):
    if n == 0 or os.path.exists(stop + ".asking"):  # with its first request, a process begins to read
        text = f"{name}-{os.getpid()}-{n}"
        with llmeval.workflow("answer", request=f"What of {text}?") as span:
            span.response = f"Slate {text}."
            span.retrieved_context = [f"Roof {text} is made of slate."]
        fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT); os.write(fd, f"{text}\\n".encode()); os.close(fd)
        n += 1
    time.sleep(0.05)
llmeval.shutdown(10)
"""


def _rows(path):
    """Return by question how many verdicts and how many reasons of the judge the store has."""
    with closing(sqlite3.connect(path, timeout=10)) as store:
        verdicts = store.execute(
            "SELECT s.request FROM evaluations e JOIN spans s ON s.span_id = e.span_id "
            "WHERE e.name = 'groundedness' AND s.kind = 'workflow' AND s.name = 'answer'"
        )
        reasons = store.execute(
            "SELECT s.request FROM not_run n JOIN spans s ON s.span_id = n.span_id "
            "WHERE n.evaluator = 'groundedness'"
        )
        return Counter(_question(text) for (text,) in verdicts), {
            _question(text) for (text,) in reasons
        }


def _question(text):
    return text.partition("What of ")[2].partition("?")[0]


@pytest.mark.timeout(600)
def test_nothing_is_lost_or_judged_twice_whoever_is_killed(broker, judge_server, tmp_path):
    """Each question that an app answered has one verdict or a reason, and the account balances."""
    judge_server.default, judge_server.delay = "slow", 0.2
    chance = random.Random(20)
    stop, asking = tmp_path / "stop", tmp_path / "stop.asking"
    asking.touch()
    hosts, workers, kills = {}, {}, Counter()

    def start_host(n):
        folder = tmp_path / f"host-{n}"
        folder.mkdir(exist_ok=True)
        env = environment(broker.address, folder, LLMEVAL_SPOOL=str(folder / "spool"))
        hosts[n] = subprocess.Popen(
            [sys.executable, "-c", HOST, str(APP.parent), f"h{n}", str(folder / "log"), str(stop)],
            env=env, start_new_session=True, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def start_one(n):
        env = environment(broker.address, tmp_path)
        own = judging(
            env, judge_server, LLMEVAL_JUDGE_TIMEOUT="8", LLMEVAL_JUDGE_CONCURRENCY=str(PLACES)
        )
        pool = "prefork" if n else "threads"
        workers[n] = start_worker(
            own, "--concurrency", "1", "--pool", pool, "--name", f"w{n}", quiet=True
        )

    for n in range(HOSTS):
        start_host(n)
        start_one(n)
    try:
        until(lambda: account(broker).judged > 5, "a first verdict")
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            time.sleep(chance.uniform(0.5, 2.0))  # so long everybody works
            n = chance.randrange(HOSTS)
            match chance.randrange(5):
                case 0 | 1:
                    kill_group(workers[n])
                    kills["worker"] += 1
                    start_one(n)
                case 2 | 3:
                    os.kill(hosts[n].pid, signal.SIGKILL)
                    hosts[n].wait(10)
                    kills["app"] += 1
                    start_host(n)
                case _:
                    broker.kill()
                    kills["redis"] += 1
                    broker.start()
        asking.unlink()
        try:
            until(
                lambda: not _left(tmp_path), "every answer has a verdict or a reason", seconds=240
            )
        except AssertionError:
            print(f"{len(_left(tmp_path))} of {len(_asked(tmp_path))} left; {account(broker)}")
            raise
        until(lambda: account(broker).waiting == 0, "an account without waiting", seconds=120)
        stop.touch()
        for host in hosts.values():
            host.wait(60)
    finally:
        for process in (*hosts.values(), *workers.values()):
            kill_group(process)
    asked = _asked(tmp_path)
    for n in range(HOSTS):
        verdicts, _ = _rows(tmp_path / f"host-{n}" / "store.db")
        assert [question for question, times in verdicts.items() if times > 1] == []
    whole = [seen.body for seen in judge_server.chats if "messages" in seen.body]
    calls = Counter(map(_of_prompt, whole))  # of a request that a kill cut short, nothing came
    again = sum(times - 1 for times in calls.values())
    print(f"{len(asked)} answers, kills {dict(kills)}, {again} calls made again")
    assert again <= (kills["worker"]) * PLACES
    now = account(broker)
    assert now.is_balanced
    assert now.judged + sum(now.refused.values()) == now.asked


def _asked(tmp_path):
    return {
        line
        for n in range(HOSTS)
        for line in (tmp_path / f"host-{n}" / "log").read_text().splitlines()
    }


def _left(tmp_path):
    """Return the questions without a verdict and without a reason."""
    done = set()
    for n in range(HOSTS):
        verdicts, reasons = _rows(tmp_path / f"host-{n}" / "store.db")
        done |= verdicts.keys() | reasons
    return _asked(tmp_path) - done


def _of_prompt(body):
    """Return the question that a judge was called about."""
    return _question("".join(message["content"] for message in body["messages"]))
