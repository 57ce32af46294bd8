"""RQ runs each job in a process of its own, which ends by ``os._exit`` with the job."""

import subprocess
import sys

import pytest


pytest.importorskip("rq")

from redis_server import SERVER, WHY_SKIPPED, running_redis


NAMES = [f"q{number}" for number in range(12)]
SEND = """
import sys
from redis import Redis
from rq import Queue
queue = Queue(connection=Redis.from_url(sys.argv[1]))
for name in sys.argv[2:]: queue.enqueue("traced.answer", name)
"""


def called(sinks, *command, **environment):
    return subprocess.run(
        [sys.executable, *command], env={**sinks.environment, **environment}, cwd=sinks.folder,
        check=True, timeout=150, capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.skipif(SERVER is None, reason=WHY_SKIPPED)
@pytest.mark.parametrize("set_up", ["by configure()", "by the first job"])
def test_what_jobs_leave_is_delivered_once(sinks, set_up):
    """Each job leaves its records beside the store, for a later job and for the agent."""
    environment = {} if set_up == "by configure()" else {"WITHOUT_CONFIGURE": "1"}
    with running_redis(sinks.folder / "redis") as redis:
        called(sinks, "-c", SEND, redis.address, *NAMES, **environment)
        worker = called(
            sinks, "-m", "rq.cli", "worker", "-u", redis.address, "--burst", **environment
        )
    assert "Traceback" not in worker.stderr
    (folder,) = (sinks.folder / "children").iterdir()
    called(sinks, "-m", "llmeval_sdk", "agent", "--once", "--spool", folder)
    sinks.check(NAMES)
