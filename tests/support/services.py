"""Run an app under a real server, and see what of it reaches the store and an OTLP receiver."""

import dataclasses
import http.client
import json
import os
import pathlib
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

from otlp_collector import attributes_of


APPS = pathlib.Path(__file__).parents[1] / "servers" / "apps"
END_SECONDS = 60
"""How long a server may take to end on a busy machine; a deadlock would take for ever."""


@dataclasses.dataclass
class Sinks:
    """The store and the receiver that all processes of a service share."""

    folder: pathlib.Path
    collector: object

    @property
    def environment(self):
        clean = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("LLMEVAL_", "DD_", "OTEL_", "OPENAI_"))
        }
        return {
            **clean,
            "PYTHONPATH": str(APPS),
            "PYTHONFAULTHANDLER": "1",
            "LLMEVAL_EXPORTERS": "local,otlp",
            "LLMEVAL_SHUTDOWN_TIMEOUT": "20",  # what is lost at the deadline is not the subject
            "LLMEVAL_STORE": str(self.folder / "store.db"),
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.collector.url,
        }

    def check(self, names):
        """See that every request and its scores stand once in the store, and came once by OTLP."""
        for where, found in {"store": self._stored(), "OTLP": self._received()}.items():
            for what in ("workflow", "mine", "context_relevance"):
                there = Counter(name for kind, name in found if kind == what)
                assert there == Counter(names), (
                    where,
                    what,
                    there - Counter(names),
                    Counter(names) - there,
                )

    def has(self, names):
        """Say whether every request and its scores have reached both."""
        try:
            self.check(names)
        except (AssertionError, sqlite3.OperationalError):
            return False
        return True

    def _stored(self):
        with closing(sqlite3.connect(self.folder / "store.db")) as store:
            spans = list(store.execute("SELECT span_id, kind, request FROM spans"))
            scores = list(store.execute("SELECT name, span_id FROM evaluations"))
        requests = {span: json.loads(request) for span, _, request in spans}
        found = [(kind, json.loads(request)) for _, kind, request in spans]
        return found + [(name, requests.get(span)) for name, span in scores]

    def _received(self):
        spans = [(span.span_id, attributes_of(span)) for span in self.collector.spans]
        scores = [
            (attributes_of(log)["gen_ai.evaluation.name"], log.span_id)
            for log in self.collector.logs
        ]
        requests = {span: about["input.value"] for span, about in spans}
        found = [(about["llmeval.span.kind"], about["input.value"]) for _, about in spans]
        return found + [(name, requests.get(span)) for name, span in scores]


@contextmanager
def running(command, sinks, *, program=(sys.executable, "-m"), **environment):
    """Run a server for the block, and see that it ends by itself when it is told to."""
    log = sinks.folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*program, *command], cwd=sinks.folder, stdout=output, stderr=output,
            env={**sinks.environment, **environment}, close_fds=False, start_new_session=True,
        )  # fmt: skip
        try:
            yield process
            process.send_signal(signal.SIGTERM)
            process.wait(END_SECONDS)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    said = log.read_text()
    assert "Traceback" not in said, said


@contextmanager
def listening():
    """Open a socket that a server takes over: who connects before it is up just waits."""
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
        listener.set_inheritable(True)
        yield listener


def ask(listener, names):
    """Send a request for each name, several at a time; return the processes that answered."""

    def one(name):
        connection = http.client.HTTPConnection(*listener.getsockname(), timeout=30)
        with closing(connection):
            connection.request("GET", f"/{name}")
            return json.loads(connection.getresponse().read())

    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(one, names))
    assert [reply["changed"] for reply in replies] == [[]] * len(replies)
    return {reply["process"] for reply in replies}


def eventually(condition, seconds=30):
    """Wait until a condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
