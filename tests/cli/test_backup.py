"""A backup is whole, private, and can be read at once; what goes wrong leaves nothing behind."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import subprocess
import sys
import time
from contextlib import closing

import pytest

from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.state import HostLedger, SharedText, StateFile, state_path, text_in


NAME = "monday"


@pytest.fixture
def filled(store):
    """A store with both files of state beside it, a store of experiments, a report and a set."""
    for number in range(1, 4):
        span = store.span(f"{number:016x}", trace_id=f"{number:032x}", start_ns=time.time_ns())
        store.evaluation(span, "precision", 0.5)
    store.writer.settle()
    folder = store.path.parent
    with closing(HostLedger(store.path.with_suffix(".ledger"))) as ledger:
        ledger.update(lambda _: ("books", None))
    with closing(SharedText(StateFile(state_path(store.path)), "alerts")) as text:
        text.update(lambda _: ("alarms", None))
    for name in ("reports/tuesday.jsonl", "datasets/answers/v1.jsonl"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("{}\n")
    return store


def names_in(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_all_that_lies_beside_the_store_is_copied(llmeval, filled, tmp_path):
    """The copy is private, each file is whole, and reports read it at once."""
    target = tmp_path / "backups" / NAME
    done = llmeval("backup", target, "--store", filled.path)
    assert done.returncode == 0, done.stderr
    store = filled.path.name
    names = {store, f"{filled.path.stem}.ledger", f"{filled.path.stem}.state"}
    assert names_in(target) == names | {"reports/tuesday.jsonl", "datasets/answers/v1.jsonl"}
    for path in (target, *target.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    assert text_in(target / f"{filled.path.stem}.state", "alerts") == "alarms"
    shown = " ".join(done.stdout.split())
    assert "stop the app" in shown
    report = llmeval("report", "--store", target / store)
    assert report.returncode == 0, report.stderr
    assert "precision" in report.stdout
    assert {path.name for path in target.parent.iterdir()} == {NAME}


def test_databases_alone_can_be_copied(llmeval, filled, tmp_path):
    """Reports and data sets may be kept elsewhere already; JSON lists what was written."""
    done = llmeval("backup", NAME, "--store", filled.path, "--databases-only", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found["files"]) == names_in(tmp_path / NAME)
    assert not any("/" in name for name in found["files"])
    assert found["bytes"] == sum(found["files"].values())


WRITER = """
import sys, time
from llmeval_sdk.model import Batch, SpanData
from llmeval_sdk.store.writer import StoreWriter
writer = StoreWriter(sys.argv[1])
number = 0
while True:
    number += 1
    trace = f"{number:032x}"
    pair = [
        SpanData(trace_id=trace, span_id=f"{2 * number + half:016x}", parent_id=None, name="answer",
                 kind="workflow", start_ns=time.time_ns(), end_ns=time.time_ns(),
                 request="x" * 20_000)
        for half in (0, 1)
    ]
    writer.write(Batch(tuple(pair)))
    print(number, flush=True)
"""


def test_an_app_goes_on_writing_meanwhile(llmeval, tmp_path):
    """The copy holds whole transactions up to one moment, and the writer needs not stop for it."""
    path = tmp_path / "store" / "llmeval.db"
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    ) as writer:
        for _ in range(200):
            writer.stdout.readline()
        done = llmeval("backup", NAME, "--store", path)
        before_the_end = int(writer.stdout.readline())
        writer.kill()
    assert done.returncode == 0, done.stderr
    with closing(sqlite3.connect(tmp_path / NAME / "llmeval.db")) as copy:
        (spans,) = copy.execute("SELECT count(*) FROM spans").fetchone()
        pairs = copy.execute("SELECT count(DISTINCT trace_id) FROM spans").fetchone()[0]
        assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert spans == 2 * pairs >= 400
    assert before_the_end >= 200


def test_a_store_that_does_not_exist_is_an_error(llmeval, tmp_path):
    """With what to do; nothing is made."""
    done = llmeval("backup", NAME, "--store", tmp_path / "nowhere" / "llmeval.db")
    assert done.returncode == 2
    assert "--store" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_state_without_a_store_is_copied(llmeval, tmp_path):
    """An app that exports elsewhere has sessions and budgets all the same."""
    path = tmp_path / "store" / "llmeval.db"
    with closing(HostLedger(path.with_suffix(".ledger"))) as ledger:
        ledger.update(lambda _: ("books", None))
    done = llmeval("backup", NAME, "--store", path)
    assert done.returncode == 0, done.stderr
    assert names_in(tmp_path / NAME) == {"llmeval.ledger"}


@pytest.mark.parametrize("kind", ["folder", "file", "link", "the store's folder", "a backup"])
def test_what_is_there_is_never_replaced(llmeval, filled, tmp_path, kind):
    """A slip of the hand must not delete somebody's folder, nor an earlier backup."""
    target = tmp_path / "precious"
    if kind == "the store's folder":
        target = filled.path.parent
    elif kind == "file":
        target.write_text("precious")
    elif kind == "link":
        (tmp_path / "other").mkdir()
        target.symlink_to(tmp_path / "other")
    elif kind == "a backup":
        assert llmeval("backup", target, "--store", filled.path).returncode == 0
    else:
        target.mkdir()
    before = sorted(tmp_path.rglob("*"))
    done = llmeval("backup", target, "--store", filled.path)
    assert done.returncode == 2
    assert "it is there already" in " ".join(done.stderr.split())
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("inside", ["reports", "datasets/answers"])
def test_a_backup_does_not_go_into_what_it_copies(llmeval, filled, inside):
    """The next one would hold it, and the one after that both."""
    done = llmeval("backup", filled.path.parent / inside / NAME, "--store", filled.path)
    assert done.returncode == 2
    assert not (filled.path.parent / inside / NAME).exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write")
def test_a_folder_that_cannot_be_written_is_said(llmeval, filled, tmp_path):
    """The message names the folder."""
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    done = llmeval("backup", locked / NAME, "--store", filled.path)
    assert (done.returncode, "locked" in done.stderr) == (2, True)


@pytest.mark.parametrize("name", ["x" * 300, "file/below", "/proc/nowhere/backup"])
def test_a_destination_that_cannot_be_made_is_said(llmeval, filled, tmp_path, name):
    """Whatever is wrong with the name."""
    (tmp_path / "file").write_text("")
    done = llmeval("backup", name, "--store", filled.path)
    assert done.returncode == 2
    assert "cannot be written" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_a_hostile_name_does_no_harm(llmeval, filled, tmp_path):
    """Characters that mean something to URIs, terminals or shells are characters."""
    name = "?mode=memory#%41\x1b[31m;$(x)"
    done = llmeval("backup", name, "--store", filled.path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / name / filled.path.name).is_file()
    assert "\x1b" not in done.stdout


LIMITED = """
import resource, sys
sys.dont_write_bytecode = True  # else the limit cuts the bytecode that later tests read
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
from llmeval_sdk.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limits")
def test_a_full_disk_is_said_and_leaves_nothing(filled, tmp_path):
    """A limit on the size of files stands in for a disk that fills up in the middle."""
    filled.span("f" * 16, request="x" * 500_000)
    filled.writer.settle()
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, "backup", NAME, "--store", filled.path],
        cwd=tmp_path, capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "cannot be copied" in " ".join(done.stderr.split())
    assert not [path for path in tmp_path.iterdir() if NAME in path.name]


STOPPED = """
import os, signal, sys
from llmeval_sdk.cli import backup, main
def stop(*_):
    if sys.argv[1] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    raise KeyboardInterrupt
backup._copy_database = stop
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
@pytest.mark.parametrize(("how", "left"), [("kill", 1), ("interrupt", 0)])
def test_what_ends_in_the_middle_leaves_nothing_under_the_name(
    llmeval, filled, tmp_path, how, left
):
    """Ctrl-C clears up too; what a kill leaves hinders no later backup."""
    subprocess.run(
        [sys.executable, "-c", STOPPED, how, "backup", NAME, "--store", filled.path],
        cwd=tmp_path, timeout=50, check=False, capture_output=True,
    )  # fmt: skip
    assert not (tmp_path / NAME).exists()
    assert len(list(tmp_path.glob(f".{NAME}.*.partial"))) == left
    assert llmeval("backup", NAME, "--store", filled.path).returncode == 0


def test_a_damaged_file_is_named_and_no_backup_is_made(llmeval, filled, tmp_path):
    """A copy of damage would pass for a backup."""
    state_path(filled.path).write_bytes(b"no database" * 1_000)
    done = llmeval("backup", NAME, "--store", filled.path)
    assert done.returncode == 2
    assert state_path(filled.path).name in done.stderr
    assert not (tmp_path / NAME).exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_links_and_pipes_among_reports_are_left_out(llmeval, filled, tmp_path):
    """A link may lead to anything, and a pipe has no end."""
    reports = filled.path.parent / "reports"
    os.mkfifo(reports / "pipe.jsonl")
    (reports / "link.jsonl").symlink_to("/etc/passwd")
    (reports / "folder").symlink_to("/etc")
    done = llmeval("backup", NAME, "--store", filled.path)
    assert done.returncode == 0, done.stderr
    assert names_in(tmp_path / NAME / "reports") == {"tuesday.jsonl"}


def test_a_backup_takes_the_place_of_what_was_lost(llmeval, filled, tmp_path):
    """As the command says: move the folder away, and copy the backup there."""
    assert llmeval("backup", NAME, "--store", filled.path).returncode == 0
    filled.writer.close()
    folder = filled.path.parent
    folder.rename(tmp_path / "lost")
    (tmp_path / NAME).rename(folder)
    with StoreReader(filled.path) as reader:
        assert reader.counts().spans == 3
    with closing(HostLedger(filled.path.with_suffix(".ledger"))) as ledger:
        assert ledger.update(lambda text: (None, text)) == "books"
