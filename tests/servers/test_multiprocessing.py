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
