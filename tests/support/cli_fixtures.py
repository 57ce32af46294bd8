"""The command, in this process or in one of its own, and a store filled by the real writer."""

import json
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from command_line import OF_THE_MACHINE, run_command
from judged_traffic import Hook, Traffic

from llmeval_sdk.model import Batch, Evaluation, EvaluationEvent, NotRun, SpanData, Target
from llmeval_sdk.store.writer import StoreWriter


ROOT = Path(__file__).parents[2]


@pytest.fixture
def llmeval(tmp_path):
    """Run ``llmeval`` in an empty folder with nothing but ``env`` set; returns what came of it."""

    def run(*args, **env):
        return run_command(*args, folder=tmp_path, env=env)

    return run


@pytest.fixture
def process(tmp_path):
    """Run ``llmeval`` likewise, but in a process of its own."""

    def run(*args, **env):
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith(OF_THE_MACHINE)
        }
        return subprocess.run(
            [sys.executable, "-m", "llmeval_sdk", *map(str, args)],
            cwd=tmp_path,
            env={**inherited, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", **env},
            capture_output=True,
            encoding="utf-8",
            timeout=50,
        )

    return run


class Store:
    """A store at a path, filled record by record."""

    def __init__(self, path):
        self.path = path
        self.writer = StoreWriter(path, max_days=0)
        self._write = self.writer.write

    @contextmanager
    def at_once(self):
        """Store what comes in the block at its end: a transaction for each takes most of the time."""
        batches = []
        self._write = batches.append
        yield
        self._write = self.writer.write
        spans, evaluations, not_run = (
            tuple(each for batch in batches for each in getattr(batch, kind))
            for kind in ("spans", "evaluations", "not_run")
        )
        self._write(Batch(spans, evaluations, not_run))

    def span(self, span_id, name="extract_field", *, start_ns=1_767_225_600_000_000_000, **given):
        given = {"parent_id": None, "kind": "workflow", "end_ns": start_ns + 12_000_000, **given}
        trace_id = given.pop("trace_id", "ab" * 16)
        span = SpanData(trace_id, span_id, name=name, start_ns=start_ns, **given)
        self._write(Batch((span,)))
        return span

    def evaluation(self, span, name, value, **given):
        target = Target(span.trace_id, span.span_id, span.name, span.kind)
        tier = "-decision" * (given.get("evaluator_kind") == "decision")
        event = EvaluationEvent(
            f"{span.span_id}-{name}{tier}", target, Evaluation(name, value, **given), span.end_ns
        )
        self.add(event)

    def add(self, event):
        """Store an evaluation as it is, such as a person's label."""
        self._write(Batch(evaluations=(event,)))

    def feedback(self, number, name, value):
        """Store what a user said of the trace with a number."""
        target = Target(f"{number:032x}", f"{2 * number - 1:016x}", "answer", "workflow")
        said = Evaluation(name, value, evaluator_kind="human")
        event = EvaluationEvent(f"{number}-{name}", target, said, time.time_ns())
        self.add(event)

    def not_run(self, span, evaluator, reason, detail=""):
        target = Target(span.trace_id, span.span_id, span.name, span.kind)
        event = NotRun(
            f"{span.span_id}-{evaluator}", target, evaluator, reason, detail, span.end_ns
        )
        self._write(Batch(not_run=(event,)))


@pytest.fixture
def store(tmp_path):
    found = Store(tmp_path / "store" / "llmeval.db")
    with closing(found.writer):
        yield found


@pytest.fixture
def traffic(tmp_path):
    with closing(Traffic(tmp_path / "store" / "llmeval.db", seed=3)) as store:
        yield store


@pytest.fixture
def watch(llmeval, traffic):
    """Look once; returns the process."""

    def look(*args, **env):
        return llmeval("watch", "--once", "--store", traffic.path, *args, **env)

    return look


@pytest.fixture
def hook():
    with closing(Hook()) as server:
        server.close = server.server_close
        yield server
        server.shutdown()


@pytest.fixture
def remembered(traffic):
    """Return a context that lends what ``llmeval watch`` remembers, to be changed."""

    @contextmanager
    def change():
        with closing(sqlite3.connect(traffic.path.with_suffix(".state"))) as file:
            (text,) = file.execute("SELECT text FROM texts WHERE name = 'alerts'").fetchone()
            plain = json.loads(text)
            yield plain
            file.execute("UPDATE texts SET text = ? WHERE name = 'alerts'", (json.dumps(plain),))
            file.commit()

    return change
