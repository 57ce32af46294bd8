"""A fork waits for one piece of work on the store at most, and leaves little to do after it."""

import os
import sqlite3
import threading
import time

import pytest

from llmeval_sdk.model import Batch
from llmeval_sdk.store import connection as connections
from llmeval_sdk.store.connection import Database
from llmeval_sdk.store.writer import LOG_BYTES_BESIDE_FORKS, StoreWriter


pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform cannot fork")


def fork():
    """Fork a child that ends at once, and wait for it."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def test_a_waiting_fork_goes_before_the_next_use(tmp_path):
    """A thread that uses the file again and again holds up a fork for one use only."""
    database = Database(lambda: sqlite3.connect(tmp_path / "f.db", check_same_thread=False))
    began, uses = threading.Event(), []

    def work():
        with database.use():
            began.set()
            deadline = time.monotonic() + 60
            while not database._fork_waits and time.monotonic() < deadline:
                time.sleep(0.001)
        with database.use():
            uses.append(forked.is_set())

    forked = threading.Event()
    thread = threading.Thread(target=work)
    thread.start()
    assert began.wait(10)
    connections._before_fork()
    assert database._held_for_fork
    forked.set()
    connections._after_fork_in_parent()
    thread.join(10)
    assert uses == [True]


def test_opening_and_using_are_two_turns(tmp_path):
    """A fork that waits while the file is opened does not wait for the first transaction too."""
    opening, uses = threading.Event(), []

    def opener():
        deadline = time.monotonic() + (0 if opening.is_set() else 10)
        opening.set()
        while not database._fork_waits and time.monotonic() < deadline:
            time.sleep(0.001)
        return sqlite3.connect(tmp_path / "f.db", check_same_thread=False)

    database = Database(opener)

    def work():
        with database.use():
            uses.append(forked.is_set())

    forked = threading.Event()
    thread = threading.Thread(target=work)
    thread.start()
    assert opening.wait(10)
    connections._before_fork()
    forked.set()
    connections._after_fork_in_parent()
    thread.join(10)
    assert uses == [True]


def test_the_log_stays_short_in_a_process_that_forks(path, make):
    """After a fork the log is read whole when the file is opened, so it must not grow."""
    writer = StoreWriter(path)
    log = path.with_name(path.name + "-wal")
    sizes = []
    for forks in (False, True):
        if forks:
            fork()
        for _ in range(12):
            writer.write(Batch(tuple(make.span(request="x" * 4_000) for _ in range(100))))
            writer._next_settling = 0.0
        sizes.append(log.stat().st_size)
    writer.close()
    assert sizes[0] > 2 * LOG_BYTES_BESIDE_FORKS
    assert sizes[1] <= LOG_BYTES_BESIDE_FORKS + 600_000
