"""A spool that nobody empties, such as after `llmeval agent` was killed: bounded, counted, told."""

import json
import os
import subprocess
import sys

import pytest

from llmeval_sdk.cli import doctor
from llmeval_sdk.config import Settings
from llmeval_sdk.pipeline.recovery import Spooling
from llmeval_sdk.pipeline.spool import Folder
from llmeval_sdk.store.losses import missing
from llmeval_sdk.store.reader import StoreReader


APP = """
import json, sys
from llmeval_sdk.pipeline import recovery
recovery.MOST_FILES = 1
import llmeval_sdk as llmeval
for number in range(200):
    with llmeval.workflow("answer", request=f"{number}") as span:
        span.annotate(response="x" * 120_000)
stats = llmeval.stats()
print(json.dumps([dict(stats.dropped), stats.losses]), flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LLMEVAL_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setenv("LLMEVAL_STORE", str(tmp_path / "store.db"))
    return tmp_path


@pytest.fixture
def app(folder):
    """An app without a worker, whose spool is full and which goes on; what it has counted."""
    process = subprocess.Popen(
        [sys.executable, "-c", APP],
        env={**os.environ, "LLMEVAL_WORKER": "off"},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    dropped, losses = json.loads(process.stdout.readline())
    yield process, dropped, losses
    if process.poll() is None:
        process.communicate("\n", timeout=60)


def drain():
    """Let ``llmeval agent`` take what waits now, beside the app; return its last object."""
    done = subprocess.run(
        [sys.executable, "-m", "llmeval_sdk", "agent", "--once", "--json"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def findings(folder):
    return list(doctor.spool(Settings(spool=str(folder / "spool"))))


def test_an_app_says_at_its_end_what_found_no_room(app):
    """With the number, the reason and what helps, although no exporter of its own has lost it."""
    process, dropped, losses = app
    assert dropped["spool_full"] > 10
    assert losses == f"{dropped['spool_full']} dropped (spool_full {dropped['spool_full']})"
    said = process.communicate("\n", timeout=60)[1]
    assert losses in said
    assert "Let the agent run all the time" in said


def test_who_asks_the_doctor_is_told_that_no_agent_runs(app, folder):
    """How many records wait, that nobody takes them, how many are lost, and what to start."""
    _, dropped, _ = app
    waits, lost = findings(folder)
    assert not waits.ok
    assert waits.words.startswith(f"{dropped['spooled']} records there, and no process takes them")
    assert f"llmeval agent --spool {folder / 'spool'}" in waits.words
    assert lost.words.startswith(f"{dropped['spool_full']} records found no room (spool_full)")


def test_the_agent_notes_in_the_store_what_the_app_has_lost(app, folder):
    """It comes back to an app that goes on, ends once nothing waits, and notes each loss once."""
    _, dropped, _ = app
    taken, said = drain()
    account = taken["exporters"]["local"]
    assert taken["taken"] == dropped["spooled"]
    assert account["dropped"] == {"spool_full": dropped["spool_full"]}
    assert account["lost_traces"] == dropped["spool_full"]
    assert account["created"] == account["delivered"] + dropped["spool_full"]
    assert f"spool_full {dropped['spool_full']}" in said
    assert drain()[0]["exporters"]["local"]["dropped"] == {}
    with StoreReader(str(folder / "store.db")) as reader:
        lacking = reader.read(missing)
    assert (lacking.records, lacking.traces) == (dropped["spool_full"],) * 2
    assert [finding.ok for finding in findings(folder)] == [True]


def test_losses_outlive_the_process_and_a_reader_that_is_killed(tmp_path):
    """A file with losses that nobody has counted stays, also where all its records were taken."""
    folder = Folder(str(tmp_path / "spool"), file_bytes=1 << 16, max_bytes=1 << 17)
    child = os.fork()
    if child == 0:
        writer = Spooling(folder, (), pack=bytes, unpack=bytes, left=True, living=False)
        writer.keep(b"record")
        writer.note_lost(7, 3)
        os._exit(0)
    os.waitpid(child, 0)
    assert folder.waiting() == (1, 1, 7)
    child = os.fork()
    if child == 0:
        os._exit(len(list(folder.adopt(living=True))))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    reader = Spooling(folder, (), pack=bytes, unpack=bytes, left=False, living=True)
    assert [kept.item for kept in reader.tend()] == [b"record"]
    assert (reader.lost, reader.lost_traces, reader.killed.value) == (7, 3, 0)
    assert folder.waiting().lost == 0
