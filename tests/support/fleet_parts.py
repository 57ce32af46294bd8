"""Real parts of a judge fleet for tests and benchmarks: Redis, workers, apps, a judge's server."""

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from redis_server import RedisServer


APP = Path(__file__).resolve().parents[1] / "plugins" / "fleet" / "apps.py"
KEY = "a-key-that-only-tests-have"


def free_port():
    """Return a port on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def lasting_redis(folder):
    """Return a Redis that keeps what it was told, even when it is killed."""
    return RedisServer(Path(folder) / "redis", "--appendonly", "yes", "--appendfsync", "always")


def until(condition, what, *, seconds=60.0):
    """Wait until a condition holds; its value is returned."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} within {seconds:g} s: {value}")
        time.sleep(0.05)
    return value


def redis_is_missing():
    """Return why a fleet cannot run here, or nothing."""
    if shutil.which("redis-server") is None:
        return "redis-server is not installed: apt-get install redis-server"
    for package in ("redis", "celery"):
        try:
            __import__(package)
        except ImportError:
            return f"{package} is not installed: pip install 'llmeval-inprocess[fleet]'"
    return ""


def environment(redis_url, folder, **more):
    """Return the environment of an app or a worker, with none of this machine's settings."""
    clean = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("LLMEVAL_", "DD_", "OTEL_", "OPENAI_", "CELERY_"))
    }
    return {
        **clean,
        "LLMEVAL_JUDGE_QUEUE": redis_url,
        "LLMEVAL_FLEET_KEY": KEY,
        "LLMEVAL_SHARED": "",  # a Redis that is new keeps the shared budget closed for ten seconds
        "LLMEVAL_STORE": str(Path(folder) / "store.db"),
        "LLMEVAL_SHUTDOWN_TIMEOUT": "10",
        "LLMEVAL_BUDGET_CALLS_PER_MINUTE": "1000000",
        "LLMEVAL_BUDGET_TOKENS_PER_MINUTE": "1000000000",
        "PYTHONFAULTHANDLER": "1",
        **more,
    }


def start_worker(env, *arguments, quiet=False):
    """Start a worker and return its process; what it prints is kept unless it is to be quiet."""
    return subprocess.Popen(
        [sys.executable, "-m", "llmeval_sdk", "fleet", *arguments],
        env=env, stdout=subprocess.DEVNULL if quiet else subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=env.get("HERE"),
        start_new_session=True,
    )  # fmt: skip


def kill_group(process):
    """Kill a process with its children, at once."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)


@contextmanager
def worker(env, *arguments):
    """Run a worker around a block; SIGTERM ends it, and what it printed is in ``said``."""
    process = start_worker(env, *arguments)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                kill_group(process)
        kill_group(process)
        process.said = process.stdout.read()
        process.stdout.close()


def run_app(env, *arguments, check=True):
    """Run the app and return what it said."""
    done = subprocess.run(
        [sys.executable, str(APP), *map(str, arguments)],
        env=env, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert not check or done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def judging(env, server, **more):
    """Return the environment of a worker, from that of an app."""
    return {
        **env, "LLMEVAL_JUDGE_MODEL": "stand-in", "LLMEVAL_JUDGE_BASE_URL": server.base_url,
        "LLMEVAL_JUDGE_API_KEY": "none", "LLMEVAL_STORE": f"{env['LLMEVAL_STORE']}.worker", **more,
    }  # fmt: skip


def account(broker):
    """Return the fleet's account."""
    from llmeval_sdk.plugins.fleet._judgement_store import JudgementStore

    return JudgementStore(broker.client(), expiry=3600).account()


def verdicts(path):
    """Return the stored verdicts of the judge with the spans that they are about."""
    with closing(sqlite3.connect(path)) as store:
        return store.execute(
            "SELECT e.span_id, e.value FROM evaluations e JOIN spans s ON s.span_id = e.span_id "
            "WHERE e.name = 'groundedness' AND s.kind = 'workflow'"
        ).fetchall()
