"""Several processes, threads and forks share one store."""

import os
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from llmeval_sdk.model import Batch
from llmeval_sdk.store import connection as connections
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.writer import StoreWriter


ROOT = Path(__file__).parents[2]

WRITE = """
import sys, time
from llmeval_sdk.model import Batch, SpanData
from llmeval_sdk.store.writer import StoreWriter

path, mark = sys.argv[1:]
writer = StoreWriter(path, busy_timeout=20)
for part in range(20):
    writer.write(Batch(tuple(
        SpanData(f"{mark}-{part}-{n}", f"{mark}-{part}-{n}", None, mark, "task", time.time_ns(), 0)
        for n in range(100)
    )))
writer.close()
sys.exit(writer.fallback_reason)
"""

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform cannot fork")


def count(path, where="1"):
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return raw.execute(f"SELECT count(*) FROM spans WHERE {where}").fetchone()[0]


@contextmanager
def child(work):
    """Run ``work`` in a forked child; on leaving, it must have ended well."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    yield
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            assert status == 0
            return
        time.sleep(0.002)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    pytest.fail("the child hung")


def test_processes_that_start_at_once_share_one_file(path):
    """Four processes make the file and write it at the same time; nothing is lost."""
    command = [sys.executable, "-c", WRITE, str(path)]
    running = [
        subprocess.Popen([*command, f"p{n}"], cwd=ROOT, stderr=subprocess.PIPE, text=True)
        for n in range(4)
    ]
    for process in running:
        _, said = process.communicate(timeout=50)
        assert process.returncode == 0, said
    assert count(path) == 4 * 20 * 100


def test_a_child_writes_after_its_parent_did(writer, path, make):
    """A forked child opens the file for itself, and both sides go on writing."""
    writer.write(Batch((make.span("before"),)))
    mine, its = make.span("parent"), make.span("child")
    with child(lambda: writer.write(Batch((its,)))):
        writer.write(Batch((mine,)))
    assert count(path) == 3


def test_what_a_child_writes_outlives_the_parents_close(writer, path, make):
    """The parent closing the file must not take the child's later commits with it."""
    writer.write(Batch((make.span(),)))
    read_end, write_end = os.pipe()
    ready_end, told_end = os.pipe()

    def work():
        writer.write(Batch((make.span("early"),)))
        os.write(told_end, b"x")
        os.read(read_end, 1)
        writer.write(Batch((make.span("late"),)))

    with child(work):
        os.read(ready_end, 1)
        writer.close()
        os.write(write_end, b"x")
    for end in (read_end, write_end, ready_end, told_end):
        os.close(end)
    assert count(path) == 3


def test_a_fork_does_not_wait_for_the_disk(writer, path, make):
    """Closing for a fork leaves the log as it is: copying and syncing it is not the app's time."""
    writer.write(Batch(tuple(make.span() for _ in range(100))))
    log = path.with_name("llmeval.db-wal")
    size = log.stat().st_size
    with child(lambda: None):
        pass
    assert log.stat().st_size == size > 0
    writer.write(Batch((make.span(),)))
    writer.close()
    assert not log.exists()
    assert count(path) == 101


def test_forks_in_the_middle_of_writing_lose_nothing(writer, path, make):
    """A thread writes without pause while the process forks; every side's spans are there."""
    ending = threading.Event()
    written = []

    def write():
        while not ending.is_set():
            writer.write(Batch(tuple(make.span("parent") for _ in range(100))))
            written.append(100)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for turn in range(15):
            span = make.span(f"child {turn}")

            def work(span=span):
                writer.write(Batch((span,)))
                assert writer.fallback_reason is None, writer.fallback_reason
                writer.close()

            with child(work):
                pass
    finally:
        ending.set()
        thread.join()
    writer.close()
    assert count(path, "name LIKE 'child%'") == 15
    assert count(path, "name = 'parent'") == sum(written)


def test_a_child_of_a_fork_that_could_not_wait_leaves_the_file_alone(
    writer, path, make, monkeypatch
):
    """Forked inside a statement, the child keeps its scores in memory and says why."""
    monkeypatch.setattr(connections, "FORK_WAIT_SECONDS", 0.01)
    writer.write(Batch((make.span(),)))

    def work():
        writer.write(Batch((make.span("child"),)))
        assert "this process was forked while its parent was writing" in writer.fallback_reason
        with closing(StoreReader(writer.location)) as reader:
            assert reader.counts().spans == 1

    inside, leave = threading.Event(), threading.Event()

    def hold():
        with writer._database.use():
            inside.set()
            leave.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(20)
    try:
        with child(work):
            pass
    finally:
        leave.set()
        thread.join()
    writer.write(Batch((make.span(),)))
    assert count(path) == 2


def test_a_child_keeps_a_memory_of_its_own(tmp_path, make):
    """Where the store is in memory, a child starts with an empty one and the parent keeps its own."""
    (tmp_path / "file").write_text("")
    with closing(StoreWriter(tmp_path / "file" / "llmeval.db")) as writer:
        writer.write(Batch((make.span(),)))

        def work():
            writer.write(Batch((make.span(),)))
            with closing(StoreReader(writer.location)) as reader:
                assert reader.counts().spans == 1

        with child(work):
            pass
        writer.write(Batch((make.span(),)))
        with closing(StoreReader(writer.location)) as reader:
            assert reader.counts().spans == 2


def test_a_reader_survives_a_fork(writer, path, make):
    """Parent and child both go on reading, each by its own connection."""
    writer.write(Batch((make.span(),)))
    with closing(StoreReader(path)) as reader:
        assert reader.counts().spans == 1

        def work():
            assert reader.counts().spans == 1

        with child(work):
            assert reader.counts().spans == 1


def test_a_burst_is_a_few_statements(writer, make):
    """Beside a busy thread of the app each statement waits 5 ms for the interpreter's lock.

    One row to a statement, that was 240 rows a second; many to one are some 10,000.
    """
    spans = tuple(make.span() for _ in range(125))
    batch = Batch(spans, tuple(make.evaluation(s, n) for s in spans for n in ("a", "b", "c")))
    writer.write(Batch((make.span(),)))
    statements = []
    with writer._database.use() as connection:
        connection.set_trace_callback(statements.append)
    writer.write(batch)
    with writer._database.use() as connection:
        connection.set_trace_callback(None)
    assert len(batch) == 500
    assert 4 <= len(statements) < 25


def test_a_second_writer_in_the_process_is_no_harm(writer, path, make):
    """Two exporters configured with one file both write it."""
    with closing(StoreWriter(path)) as second:
        for _ in range(20):
            writer.write(Batch((make.span(),)))
            second.write(Batch((make.span(),)))
    writer.write(Batch((make.span(),)))
    assert count(path) == 41
