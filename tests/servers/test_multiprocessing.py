"""Processes of the standard library, which end by ``os._exit`` and may be forked beside threads."""

import subprocess
import sys

import pytest
from services import APPS, END_SECONDS


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_pools_and_executors_deliver(sinks, method):
    """While two threads of the parent trace: everything once, and the job ends by itself."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(APPS / "jobs.py"), method],
        env=sinks.environment, capture_output=True, text=True, timeout=2 * END_SECONDS, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    sinks.check(done.stdout.split())


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("end", ["silent", "traced", "flushed", "left"])
def test_children_that_a_pool_terminates_lose_nothing(sinks, method, end):
    """The parent delivers what they left, whether or not it traces anything itself."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(APPS / "pool.py"), method, end],
        env=sinks.environment, cwd=sinks.folder, capture_output=True, text=True,
        timeout=2 * END_SECONDS, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    sinks.check(done.stdout.split())


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_parent_that_recorded_nothing_ends_in_time_although_the_far_end_hangs(sinks, method):
    """At exit Python 3.12 and later start no thread, so the request itself keeps the deadline."""
    sinks.collector.hang.set()
    command = [sys.executable, "-W", "ignore", str(APPS / "pool.py"), method, "left"]
    done = subprocess.run(
        command, env={**sinks.environment, "LLMEVAL_SHUTDOWN_TIMEOUT": "1"}, cwd=sinks.folder,
        capture_output=True, text=True, timeout=END_SECONDS, check=False,
    )  # fmt: skip
    sinks.collector.hang.clear()
    assert done.returncode == 0, done.stderr
    assert "not delivered in time" in done.stderr
