"""Run a piece of an app in a process of its own and count what its store holds afterwards."""

import collections
import dataclasses
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest


PRELUDE = """
import atexit, os, signal, sys, threading, time
import llmeval_sdk as llmeval

@llmeval.workflow
def answer(question):
    return question

def trace(count, prefix=""):
    for number in range(count):
        answer(f"{prefix}{number}")

class Hanging:
    name = "hanging"
    def export(self, batch): threading.Event().wait()
    def flush(self, timeout): pass
    def close(self, timeout): pass
"""


@dataclasses.dataclass
class Ended:
    """How a process ended, and what it left."""

    code: int
    out: str
    err: str
    store: pathlib.Path

    def requests(self):
        """Return the requests of the spans in the store, as often as they stand there."""
        if not self.store.exists():
            return []
        with closing(sqlite3.connect(self.store)) as database:
            return [
                row[0]
                for row in database.execute("SELECT request FROM spans WHERE name = 'answer'")
            ]

    def lost(self):
        """Return what the store's notes say was lost, by exporter and reason, over all processes."""
        with closing(sqlite3.connect(self.store)) as database:
            rows = database.execute("SELECT value FROM meta WHERE key LIKE 'lost:%'").fetchall()
        lost = collections.defaultdict(collections.Counter)
        for (note,) in rows:
            for name, reasons in json.loads(note).items():
                lost[name].update(reasons)
        return {name: dict(reasons) for name, reasons in lost.items()}

    @property
    def quiet(self):
        """Say whether nothing but our own warnings was printed."""
        return "Traceback" not in self.err and "Exception ignored" not in self.err


@pytest.fixture
def app(tmp_path):
    """Return a function that runs code after the prelude and waits for its end."""

    def run(code, *, timeout=60, **environment):
        clean = {
            k: v
            for k, v in os.environ.items()
            if not k.startswith(("LLMEVAL_", "DD_", "OTEL_", "OPENAI_"))
        }
        store = tmp_path / "store" / "llmeval.db"
        done = subprocess.run(
            [sys.executable, "-X", "faulthandler", "-c", PRELUDE + code],
            env={**clean, "LLMEVAL_STORE": str(store), **environment},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr, store)

    return run
