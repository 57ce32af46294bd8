"""The ledger that the processes of a host share."""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from contextlib import ExitStack, closing

import pytest

from llmeval_sdk.evaluation.admission import Refused
from llmeval_sdk.evaluation.books import Reservation
from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.evaluation.limiter import BUSY_SECONDS, BudgetLimiter
from llmeval_sdk.store.state import HostLedger


LIMITS = "calls_per_minute=400, usd_per_day=1.0"
HAMMER = f"""
import sys, threading
from llmeval_sdk.evaluation.budget import Budget
from llmeval_sdk.evaluation.limiter import BUSY_SECONDS, BudgetLimiter
from llmeval_sdk.evaluation.books import Reservation
from llmeval_sdk.store.state import HostLedger
limiter = BudgetLimiter(Budget({LIMITS}), HostLedger(sys.argv[1], timeout=100),
                        clock=lambda: float(sys.argv[2]))
limiter.used()
print("ready", flush=True)
sys.stdin.readline()
granted = []
def hammer():
    for _ in range(60):
        got = limiter.reserve("polite", usd=0.001)
        if isinstance(got, Reservation):
            granted.append(got.id)
            limiter.settle(got)
threads = [threading.Thread(target=hammer) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(*granted)
"""


@pytest.fixture
def ledger_at():
    """Return a function that opens a ledger, which the end of the test closes."""
    with ExitStack() as stack:
        yield lambda path, **options: stack.enter_context(closing(HostLedger(path, **options)))


def test_four_processes_of_eight_threads_get_exactly_the_limit(tmp_path, ledger_at):
    """All together are granted neither a call too many nor one too few, and every cent is booked.

    For all of them it is the same moment, so that no minute ends meanwhile.
    """
    path, now = tmp_path / "llmeval.ledger", time.time()
    command = [sys.executable, "-c", HAMMER, str(path), str(now)]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    processes = [subprocess.Popen(command, text=True, **pipes) for _ in range(4)]
    assert [process.stdout.readline() for process in processes] == ["ready\n"] * 4
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    outputs, errors = zip(*(process.communicate(timeout=200) for process in processes), strict=True)
    assert errors == ("",) * 4
    granted = " ".join(outputs).split()
    assert len(granted) == len(set(granted)) == 400
    limiter = BudgetLimiter(
        Budget(calls_per_minute=400, usd_per_day=1.0), ledger_at(path), clock=lambda: now
    )
    assert limiter.used().usd == pytest.approx(0.4)


KILLED = """
import os, signal, sys
from llmeval_sdk.store.state import HostLedger
ledger = HostLedger(sys.argv[1])
ledger.update(lambda text: ("before", None))
def die(text):
    os.kill(os.getpid(), signal.SIGKILL)
ledger.update(die)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_a_process_killed_in_the_middle_leaves_whole_books(tmp_path, ledger_at):
    """Neither a lock nor half a change stays behind."""
    path = tmp_path / "llmeval.ledger"
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], timeout=20, check=False)
    assert done.returncode == -signal.SIGKILL
    assert ledger_at(path).update(lambda text: (text + " after", text)) == "before"
    assert ledger_at(path).update(lambda text: (None, text)) == "before after"


def test_a_change_that_raises_changes_nothing(tmp_path, ledger_at):
    """The exception passes and the next change finds the books as they were."""
    ledger = ledger_at(tmp_path / "llmeval.ledger")
    ledger.update(lambda text: ("kept", None))
    with pytest.raises(ZeroDivisionError):
        ledger.update(lambda text: ("lost", 1 / 0))
    assert ledger.update(lambda text: (None, text)) == "kept"


def test_books_outlive_the_process_that_wrote_them(tmp_path, ledger_at):
    """A recycled worker starts where the last one stopped."""
    path = tmp_path / "folder" / "ledger.db"
    first = ledger_at(path)
    limiter = BudgetLimiter(Budget(calls_per_minute=1), first)
    assert isinstance(limiter.reserve("polite"), Reservation)
    first.close()
    again = BudgetLimiter(Budget(calls_per_minute=1), ledger_at(path))
    assert not isinstance(again.reserve("polite"), Reservation)


@pytest.mark.skipif(sys.platform == "win32", reason="no modes")
def test_only_the_owner_can_read_it(tmp_path, ledger_at):
    """The file and its companions are private."""
    ledger = ledger_at(tmp_path / "llmeval.ledger")
    ledger.update(lambda text: ("x", None))
    modes = {stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
    assert modes == {0o600}


@pytest.mark.skipif(sys.platform == "win32", reason="no symbolic links")
def test_a_planted_link_is_not_followed(tmp_path, ledger_at):
    """Nobody makes us write into another file."""
    (tmp_path / "llmeval.ledger").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError):
        ledger_at(tmp_path / "llmeval.ledger").update(lambda text: ("x", None))
    assert not (tmp_path / "victim").exists()


def test_a_busy_ledger_gives_up_in_time(tmp_path, ledger_at):
    """A process that stopped while it held the lock cannot hang ours."""
    path = tmp_path / "llmeval.ledger"
    ledger = ledger_at(path, timeout=0.05)
    ledger.update(lambda text: ("x", None))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    refused = BudgetLimiter(Budget(), ledger).reserve("polite")  # the lock is held meanwhile
    assert refused == Refused("no_ledger", "other processes use the ledger", BUSY_SECONDS)
    other.close()
    ledger.close()


FORKED = """
import os, sys
from llmeval_sdk.store.state import HostLedger
ledger = HostLedger(sys.argv[1], timeout=5)
count = lambda: [ledger.update(lambda text: (text + "x", None)) for _ in range(50)]
count()
children = []
for _ in range(3):
    child = os.fork()
    if child == 0:
        count()
        os._exit(0)
    children.append(child)
count()
print(max(os.waitpid(child, 0)[1] for child in children), ledger.update(lambda text: (None, len(text))))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
def test_a_fork_opens_its_own_connection(tmp_path):
    """Children of a pre-forking server share the books, not the connection."""
    command = [sys.executable, "-c", FORKED, str(tmp_path / "llmeval.ledger")]
    done = subprocess.run(command, timeout=30, check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["0", "250"]


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
def test_on_a_disk_that_cannot_be_written_the_books_stay_in_memory(
    tmp_path, ledger_at, monkeypatch, code
):
    """The limits then hold for this process, and the ledger says that it is not shared."""

    def read_only(path, *_):
        raise OSError(code, "read-only", path)

    ledger = ledger_at(tmp_path / "llmeval.ledger")
    monkeypatch.setattr(os, "open", read_only)
    limiter = BudgetLimiter(Budget(calls_per_minute=2), ledger)
    granted = [isinstance(limiter.reserve("polite"), Reservation) for _ in range(3)]
    assert granted == [True, True, False]
    assert not ledger.shared
    assert list(tmp_path.iterdir()) == []
    ledger.close()
