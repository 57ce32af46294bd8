"""Celery's prefork workers end by ``os._exit``, here after each task."""

import subprocess
import sys

import pytest


pytest.importorskip("celery")

from services import eventually, running


NAMES = [f"q{number}" for number in range(6)]
SEND = "import sys, tasks\nfor name in sys.argv[1:]: tasks.run.delay(name)"


def test_workers_of_one_task_each_deliver(sinks):
    """Every child process traces one task and is gone; none of it is lost or sent twice."""
    broker = {"BROKER": str(sinks.folder / "broker")}
    command = ["celery", "-A", "tasks", "worker", "--pool", "prefork", "-c", "2", "-l", "WARNING"]
    command += ["--max-tasks-per-child", "1"]
    with running(command, sinks, TRACE_AT_IMPORT="1", **broker) as worker:
        subprocess.run(
            [sys.executable, "-c", SEND, *NAMES],
            env={**sinks.environment, **broker}, check=True, timeout=50,
        )  # fmt: skip
        done = sinks.folder / "broker" / "done"
        eventually(lambda: done.exists() and len(list(done.iterdir())) == len(NAMES))
    assert worker.returncode == 0
    assert {each.read_text() for each in done.iterdir()} == {"[]"}
    assert len({each.name.split("-")[1] for each in done.iterdir()}) == len(NAMES)
    sinks.check([f"import-{worker.pid}", *NAMES])
