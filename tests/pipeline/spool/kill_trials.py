"""Kill processes that trace, at random moments, and look whether anything they were told is lost.

Each trial forks a process that traces in one or several threads and reports on a pipe every call
that has returned; it is killed with SIGKILL. Another process then takes over what is in the spool,
and every third of those is killed as well. At the end every reported call must stand in the store,
once.

    python tests/pipeline/spool/kill_trials.py FOLDER TRIALS [SEED]
"""

import json
import os
import random
import signal
import sqlite3
import sys
import threading
import time
import traceback
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import llmeval_sdk as llmeval
from llmeval_sdk.pipeline import runtime


TAKE_OVER_EVERY = 5
submit = llmeval.submit_evaluation  # loaded before the forks


@llmeval.retrieval
def find(question):
    return [{"content": f"about {question}", "chunk_id": "1", "score": 0.5}]


@llmeval.workflow
def answer(question):
    find(question)
    return "yes"


def configure(folder, worker):
    llmeval.configure(
        spool=f"{folder}/spool", store=f"{folder}/store.db", exporters=["local"], worker=worker
    )


@contextmanager
def leaving():
    """End a forked child here, whatever happens in it."""
    try:
        yield
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(3)


def trace(trial, thread, report, worker):
    """Trace for ever; what stands on the pipe has returned."""
    for number in range(1_000_000):
        name = f"{trial}.{thread}.{number}"
        answer(name)
        os.write(report, f"{name}\n".encode())
        if number % 4 == 0:
            submit(label="mine", value=0.5, metadata={"of": name})
            os.write(report, f"e{name}\n".encode())
        if worker == "off" or number % 3 == 0:
            time.sleep(0.0005)


def killed(folder, trial, chance):
    """Run one process until it is killed; return what it had reported."""
    read, write = os.pipe()
    worker = chance.choice(("thread", "thread", "off"))
    threads = chance.choice((1, 1, 4))
    child = os.fork()
    if child == 0:
        with leaving():
            configure(folder, worker)
            for thread in range(1, threads):
                work = threading.Thread(target=trace, args=(trial, thread, write, worker))
                work.start()
            trace(trial, 0, write, worker)
    os.close(write)
    reported = [os.read(read, 1 << 16)]
    fewest = chance.choice((1, 20))  # at once, and once the process has loaded what it needs
    while b"".join(reported).count(b"\n") < fewest:
        reported.append(os.read(read, 1 << 16))
    time.sleep(chance.uniform(0, 0.04))
    os.kill(child, signal.SIGKILL)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    while piece := os.read(read, 1 << 16):
        reported.append(piece)
    os.close(read)
    return b"".join(reported).decode().splitlines()


def take_over(folder, *, kill_after=None):
    """Drain the spool in a process of its own, which may be killed too; say whether it ended."""
    child = os.fork()
    if child == 0:
        with leaving():
            configure(folder, "agent")
            pipeline = runtime.pipeline()
            pipeline.start()
            deadline = time.monotonic() + 60
            while not pipeline.is_idle and time.monotonic() < deadline:
                time.sleep(0.01)
            stats = llmeval.shutdown(10)
            healthy = stats.complete and not stats.spool.get("torn") and not stats.problems
            if healthy:
                os._exit(0)
            print(stats, file=sys.stderr)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    return os.waitstatus_to_exitcode(status)


def main(folder, trials, seed=0):
    chance = random.Random(seed)
    Path(folder).mkdir(exist_ok=True)
    reported = []
    for trial in range(1, trials + 1):
        reported += killed(folder, trial, chance)
        if trial % TAKE_OVER_EVERY == 0 or trial == trials:
            if chance.random() < 0.33:
                take_over(folder, kill_after=chance.uniform(0, 0.2))
            if take_over(folder) != 0:
                return {"error": "the process that takes over did not end well", "trial": trial}
    store = sqlite3.connect(f"{folder}/store.db")
    spans = Counter(
        json.loads(row[0])
        for row in store.execute("SELECT request FROM spans WHERE kind = 'workflow'")
    )
    retrievals = store.execute("SELECT count(*) FROM spans WHERE kind = 'retrieval'").fetchone()[0]
    mine = Counter(
        "e" + json.loads(row[0])["of"]
        for row in store.execute("SELECT metadata FROM evaluations WHERE name = 'mine'")
    )
    scores = Counter(
        tuple(row)
        for row in store.execute("SELECT span_id, name FROM evaluations WHERE name <> 'mine'")
    )
    found = spans + mine
    return {
        "trials": trials,
        "calls": len(reported),
        "lost": sum(1 for name in reported if not found[name]),
        "twice": sum(1 for times in (*found.values(), *scores.values()) if times > 1),
        "unscored": len(spans)
        - len({span for span, name in scores if name == "context_relevance"} & spans_ids(store)),
        "retrievals_missing": max(0, len(spans) - retrievals),
        "left": len(os.listdir(f"{folder}/spool")),
    }


def spans_ids(store):
    return {row[0] for row in store.execute("SELECT span_id FROM spans WHERE kind = 'workflow'")}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), *map(int, sys.argv[3:]))))
