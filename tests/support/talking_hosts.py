"""Hosts on which turns of the same sessions arrive: processes with folders and clocks of their own.

A judge of sessions that asks no model tells a server here what it saw, and waits for its answer.
"""

import json
import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from fleet_parts import until


APP = """
import json, os, sys, time, urllib.request

late, now_ns, now = int(os.environ["CLOCK_IS_LATE_BY"]), time.time_ns, time.time
time.time_ns = lambda: now_ns() - late * 10**9
time.time = lambda: now() - late

import llmeval_sdk as llmeval
from llmeval_sdk.plugins.sessions import shared_turn_store

shared_turn_store.SharedTurnStore.hold_seconds = 3.0

@llmeval.judge(per="session")
async def seen(record, llm):
    said = {"host": os.environ["HOST"], "session": record.attributes["session_id"],
            "texts": [step.content for step in record.steps]}
    return await asyncio.to_thread(tell, said)

def tell(said):
    request = urllib.request.Request(os.environ["SERVER"], json.dumps(said).encode())
    return urllib.request.urlopen(request, timeout=120).read() == b"good"

import asyncio
llmeval.configure(evaluators=[seen], escalations=[])
print("ready", flush=True)
for line in sys.stdin:
    session, text = json.loads(line)
    if session is None:
        break
    with llmeval.workflow("chat", request=text, session_id=session) as span:
        span.response = "The answer to " + text
    llmeval.flush(20)
    print("said", flush=True)
print(json.dumps(dict(llmeval.shutdown(15).sessions)), flush=True)
"""


class Host:
    """One process on a host of its own, or on that of another one."""

    def __init__(self, name, environment):
        self.name = name
        self.store = environment["LLMEVAL_STORE"]
        self.process = subprocess.Popen(
            [sys.executable, "-c", APP], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._hear("ready")

    def talk(self, session, text):
        """Have one turn of a session take place here."""
        self._write(session, text)
        self._hear("said")

    def end(self):
        """Let the app end, and return its account of sessions."""
        self._write(None, None)
        account = json.loads(self.process.stdout.readline())
        self.process.wait(30)
        return account

    def kill(self):
        """End the process as `kill -9` does."""
        self.process.kill()
        self.process.wait(30)

    def verdicts(self):
        """Return the verdicts in the store of this host: session, period, id."""
        query = (
            "SELECT json_extract(metadata, '$.session_id'), json_extract(metadata, '$.period'),"
            " id FROM evaluations WHERE name = 'seen' ORDER BY 1, 2"
        )
        try:
            with closing(sqlite3.connect(self.store, timeout=5)) as database:
                return database.execute(query).fetchall()
        except sqlite3.OperationalError:  # nothing was stored yet
            return []

    def _write(self, *words):
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()

    def _hear(self, word):
        heard = self.process.stdout.readline().strip()
        assert heard == word, f"{heard}\n{self.process.stderr.read()}"


class TalkingHosts:
    """All hosts of a test, and what their judges said that they saw."""

    def __init__(self, folder, redis, *, idle=3.0):
        self.folder, self.redis, self.idle = folder, redis, idle
        self.hosts, self.seen = [], []
        self.free = threading.Event()
        self.free.set()
        hosts = self

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self):
                length = int(self.headers["Content-Length"])
                hosts.seen.append(json.loads(self.rfile.read(length)))
                hosts.free.wait(60)
                try:
                    self.send_response(200)
                    self.end_headers()
                    self.wfile.write(b"good")
                except OSError:  # its process was killed
                    return

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def start(self, name, *, late=0, **variables):
        """Start a process on the host of this name."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("LLMEVAL_", "DD_"))}
        host = Host(name, {
            **clean,
            "HOST": name,
            "SERVER": f"http://127.0.0.1:{self._server.server_port}/",
            "CLOCK_IS_LATE_BY": str(late),
            "LLMEVAL_STORE": str(self.folder / name / "store.db"),
            "XDG_STATE_HOME": str(self.folder / name / "state"),
            "LLMEVAL_SHARED": self.redis.address,
            "LLMEVAL_SESSION_IDLE": str(self.idle),
            "LLMEVAL_SHUTDOWN_TIMEOUT": "10",
            **variables,
        })  # fmt: skip
        self.hosts.append(host)
        return host

    def verdicts(self):
        """Return the verdicts in all stores: session and period."""
        stores = {host.store: host for host in self.hosts}
        rows = [row for host in stores.values() for row in host.verdicts()]
        return sorted((session, period) for session, period, _ in rows)

    def are_judged(self, count, *, seconds=90):
        """Wait until there are so many verdicts, and return them."""
        until(lambda: len(self.verdicts()) >= count, f"{count} verdicts", seconds=seconds)
        return self.verdicts()

    def texts(self, session):
        """Return what the judge saw of a session last."""
        return [one["texts"] for one in self.seen if one["session"] == session][-1]

    def close(self):
        self.free.set()
        for host in self.hosts:
            host.process.kill()
            host.process.communicate()
        self._server.shutdown()
        self._server.server_close()
