"""Run the same service in each kind of host, end it, and count: ``make test-hosts``.

What was sent has to be in the store, or be said to be lost. Windows, a snapshot that is started
twice, and an app that PyInstaller froze are tested elsewhere, see the end of the table.
"""

import argparse
import http.client
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple


HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "support"))
from redis_server import SERVER, running_redis  # noqa: E402 - the tests' own helper


PYTHON, BIN = sys.executable, Path(sys.executable).parent
LONGEST_SECONDS = 90


class Host(NamedTuple):
    """A row of the table."""

    name: str
    command: tuple[str, ...]
    kind: str = "web"
    send: str = ""
    """What puts a request into the queue of a host that takes jobs."""
    framework: str = ""


UWSGI = (
    str(BIN / "uwsgi"), "--http-socket", "fd://{fd}", "--processes", "3", "--master",
    "--die-on-term", "--enable-threads", "--py-call-uwsgi-fork-hooks", "--module",
)  # fmt: skip
GUNICORN = (PYTHON, "-m", "gunicorn", "-b", "fd://{fd}", "-w", "2")
UVICORN = (PYTHON, "-m", "uvicorn", "--fd", "{fd}", "--log-level", "warning")
SCRIPT = (PYTHON, str(HERE / "apps" / "scripts.py"))
HOSTS = (
    Host("script", (*SCRIPT, "script"), "script"),
    Host("script, SIGTERM", (*SCRIPT, "script_sigterm"), "script"),
    Host("multiprocessing.Pool", (*SCRIPT, "pool"), "script"),
    Host("ProcessPoolExecutor, spawn", (*SCRIPT, "executor"), "script"),
    Host("forks in C", (*SCRIPT, "fork_in_c"), "script"),
    Host("APScheduler", (*SCRIPT, "apscheduler"), "script"),
    Host("reruns, as of Streamlit", (*SCRIPT, "reruns"), "script"),
    Host("gunicorn, Flask", (*GUNICORN, "web:app"), framework="flask"),
    Host("gunicorn --preload, Django", (*GUNICORN, "--preload", "web:app"), framework="django"),
    Host("gunicorn gthread, recycled", (*GUNICORN, "-k", "gthread", "--threads", "4",
                                       "--max-requests", "15", "web:app"), framework="flask"),
    Host("uvicorn, FastAPI", (*UVICORN, "web:app"), framework="fastapi"),
    Host("uvicorn --workers 2, FastAPI", (*UVICORN, "--workers", "2", "web:app"), framework="fastapi"),
    Host("hypercorn, FastAPI", (PYTHON, "-m", "hypercorn", "-b", "fd://{fd}", "web:app"), framework="fastapi"),
    Host("uWSGI, Flask, a spool", (*UWSGI, "web:app"), "spooled", framework="flask"),
    Host("Celery, prefork", (PYTHON, "-m", "celery", "-A", "celery_tasks", "worker", "-c", "2",
                            "-l", "ERROR"), "queue", "import celery_tasks; celery_tasks.run.delay"),
    Host("Dramatiq", (PYTHON, "-m", "dramatiq", "queues", "--processes", "2", "--threads", "2"),
         "queue", "import queues; queues.run.send"),
    Host("RQ", (PYTHON, "-m", "rq.cli", "worker", "-u", "{broker}", "--burst"), "burst",
         "import redis, rq; rq.Queue(connection=redis.Redis.from_url(broker)).enqueue"),
)  # fmt: skip


class Account(NamedTuple):
    """What the store holds of one host."""

    stored: int = 0
    whole: int = 0
    judged: int = 0
    said: int = 0

    @classmethod
    def of(cls, store):
        if not store.exists():
            return cls()
        with closing(sqlite3.connect(store)) as database:

            def one(query):
                return database.execute(query).fetchone()[0]

            notes = database.execute("SELECT value FROM meta WHERE key LIKE 'lost:%'").fetchall()
            lost = [json.loads(note).get("local", {}) for (note,) in notes]
            return cls(
                one("SELECT count(*) FROM spans WHERE name = 'answer'"),
                one(
                    "SELECT count(*) FROM spans AS a JOIN spans AS f ON f.parent_id = a.span_id"
                    " AND f.trace_id = a.trace_id WHERE a.name = 'answer' AND f.name = 'find'"
                ),
                one("SELECT count(DISTINCT span_id) FROM evaluations WHERE name = 'polite'"),
                sum(map(sum, (reasons.values() for reasons in lost))),
            )


@contextmanager
def process_of(command, folder, environment, listener):
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True,
            pass_fds=[listener.fileno()] if listener else (),
        )  # fmt: skip
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def run(host, sent, folder, broker):
    """Run the service in a host; return the account, and how many seconds the end took."""
    store = folder / "store" / "llmeval.db"
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("LLMEVAL_")},
        "PYTHONPATH": str(HERE / "apps"), "LLMEVAL_STORE": str(store), "BROKER": broker,
        "FRAMEWORK": host.framework,
    }  # fmt: skip
    if host.kind == "spooled":  # a worker that is taken for busy ends without any exit hook
        environment["LLMEVAL_SPOOL"] = str(folder / "spool")
    names = [f"q{number}" for number in range(sent)]
    with closing(socket.create_server(("127.0.0.1", 0), backlog=100)) as listener:
        listener.set_inheritable(True)
        values = {"fd": listener.fileno(), "broker": broker}
        command = [part.format(**values) for part in host.command]
        if host.kind == "script":
            command.append(str(sent))
        if host.send:
            called = "*(['service.answer'] if 'rq' in sys.modules else []), name"
            code = (
                f"import os, sys\nbroker = os.environ['BROKER']\n{host.send.partition('; ')[0]}\n"
            )
            code += f"for name in sys.argv[1:]: {host.send.partition('; ')[2]}({called})"
            quiet = {**environment, "LLMEVAL_ENABLED": "0"}
            subprocess.run([PYTHON, "-c", code, *names], env=quiet, cwd=folder, check=True)
        with process_of(command, folder, environment, listener) as process:
            if host.kind in ("web", "spooled"):
                with ThreadPoolExecutor(8) as pool:
                    list(pool.map(lambda name: ask(listener.getsockname(), name), names))
            if host.kind == "queue":
                deadline = time.monotonic() + LONGEST_SECONDS
                while not is_empty(broker, folder) and time.monotonic() < deadline:
                    time.sleep(0.1)
            begun = time.monotonic()
            if host.kind in ("web", "spooled", "queue"):
                process.send_signal(signal.SIGTERM)
            process.wait(LONGEST_SECONDS)
            seconds = time.monotonic() - begun
    left = {"burst": store.parent / "children", "spooled": folder}.get(host.kind)
    for spool in left.glob("local" if host.kind == "burst" else "spool") if left else ():
        subprocess.run(
            [PYTHON, "-m", "llmeval_sdk", "agent", "--once", "--spool", spool,
             "--import", "service"],
            env={**environment, "LLMEVAL_EVALUATORS": "polite", "SETS_ITSELF_UP": "1",
                 "LLMEVAL_SAMPLING_RULES": '[{"sample_rate": 1}]'},
            cwd=HERE / "apps", check=True, capture_output=True,
        )  # fmt: skip
    return Account.of(store), seconds


def ask(address, name):
    with closing(http.client.HTTPConnection(*address, timeout=60)) as connection:
        connection.request("GET", f"/{name}")
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        answer.read()


def is_empty(broker, folder):
    """Say whether the workers have begun all jobs: what they still do, they do before they end.

    A job that Celery has fetched and not begun stands in ``unacked``. At the end it goes back to the
    queue, where the next worker finds it: it has not run, so there is nothing to be stored of it.
    """
    from redis import Redis

    with closing(Redis.from_url(broker)) as client:
        return not client.hlen("unacked") and not any(
            client.llen(key) for key in client.scan_iter() if client.type(key) == b"list"
        )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sent", type=int, default=200, help="requests for each host (200)")
    parser.add_argument("--only", default="", help="only hosts whose name has this in it")
    args = parser.parse_args()
    missed = 0
    print(
        f"{'host':<30} {'sent':>5} {'stored':>7} {'whole':>6} {'judged':>7} {'said':>5} {'to end':>8}"
    )
    for host in HOSTS:
        if args.only.lower() not in host.name.lower():
            continue
        if host.send and SERVER is None:
            print(f"{host.name:<30} redis-server is not installed")
            continue
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            with running_redis(folder / "redis") if host.send else no_broker() as redis:
                account, seconds = run(host, args.sent, folder, redis.address if redis else "")
            fine = (
                account.stored == account.whole == args.sent
                or account.said >= args.sent - account.stored > 0
            )
            print(
                f"{host.name:<30} {args.sent:>5} {account.stored:>7} {account.whole:>6}"
                f" {account.judged:>7} {account.said:>5} {seconds:>6.1f} s{'' if fine else '  MISSED'}",
                flush=True,
            )
            if not fine:
                missed += 1
                print((folder / "log").read_text(errors="replace")[-2_000:])
    print(
        "Windows and macOS are simulated by tests/core/test_systems.py, a snapshot that is started\n"
        "twice by tests/faults/test_forks_in_c.py, AWS Lambda by tests/plugins/serverless;\n"
        "`make test-pyinstaller` freezes an app."
    )
    return int(bool(missed))


@contextmanager
def no_broker():
    yield None


if __name__ == "__main__":
    sys.exit(main())
