"""Kept verdicts: private, and in no folder that a checkout brings."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
from contextlib import closing

import pytest
from command_line import OF_THE_MACHINE, run_command

import llmeval_sdk as llmeval
from llmeval_sdk.store.state import STATE, SharedText, StateFile


CORRECT = "response/llm_judged/correctness/rating/percentage"


def evaluated(rows):
    return llmeval.evaluate(rows, evaluators=["correctness"], llm="m")


@pytest.fixture
def kept(tmp_path):
    """The file of verdicts, in the folder of this user's state."""
    return tmp_path / "state" / "llmeval" / "verdicts.state"


def test_no_file_beside_the_store_is_asked_for_verdicts(rows, judge, kept, tmp_path):
    """One that came with a checkout could hold verdicts that nobody gave, and pass a gate."""
    first = evaluated(rows)
    assert first.metrics[CORRECT] < 1
    forged = tmp_path / "store" / "llmeval.state"
    forged.parent.mkdir(mode=0o700, exist_ok=True)
    shutil.copy(kept, forged)
    with closing(sqlite3.connect(forged)) as connection, connection:
        for key, text in connection.execute("SELECT key, verdict FROM verdicts").fetchall():
            verdict = json.dumps({**json.loads(text), "value": "yes"})
            connection.execute("UPDATE verdicts SET verdict = ? WHERE key = ?", (verdict, key))
    kept.unlink()
    assert evaluated(rows).metrics == first.metrics
    assert len(judge.requests) == 12


@pytest.mark.parametrize("text", ["", "no json", '{"name": 7}', "[" * 10_000])
def test_what_is_no_verdict_is_judged_anew(rows, judge, kept, text):
    """As if nothing were kept."""
    evaluated(rows)
    with closing(sqlite3.connect(kept)) as connection, connection:
        connection.execute("UPDATE verdicts SET verdict = ?", (text,))
    for _ in range(2):
        evaluated(rows)
    assert len(judge.requests) == 12


@pytest.mark.parametrize("make", ["no folder", "others may write", "a link"])
def test_where_the_file_cannot_be_trusted_the_run_keeps_its_own(
    rows, judge, kept, monkeypatch, tmp_path, caplog, make
):
    """It is told, and nothing is written to such a place."""
    if make == "no folder":
        monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    else:
        kept.parent.mkdir(mode=0o700, parents=True)
        if make == "a link":
            kept.symlink_to(tmp_path / "elsewhere")
        else:
            kept.touch()
            kept.chmod(0o666)
    for asked in (6, 12):
        evaluated(rows)
        assert len(judge.requests) == asked
    assert "no verdict of earlier runs" in caplog.text
    assert not (tmp_path / "elsewhere").exists()


def test_a_state_file_of_before_loses_the_verdicts_that_it_had(rows, judge, tmp_path):
    """They were signed, and beside the store; what else it holds stays."""
    path = tmp_path / "store" / "llmeval.state"
    path.parent.mkdir(mode=0o700)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(STATE.scripts[0])
        connection.execute(f"PRAGMA application_id = {0x6C6C6D73}")
        connection.execute("PRAGMA user_version = 1")
        connection.execute("INSERT INTO verdicts VALUES (x'00', 1.0, '{}', x'00')")
        connection.execute("INSERT INTO texts VALUES ('calibrations', 'kept', 1)")
        connection.commit()
    path.chmod(0o600)
    with closing(SharedText(StateFile(path), "calibrations")) as text:
        assert text.read() == ("kept", 1)
    with closing(sqlite3.connect(path)) as connection:
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    assert "verdicts" not in names


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_what_evaluate_makes_is_private_whatever_the_umask(rows, judge, write, tmp_path):
    """Folder, verdicts and report: others of the machine read and write nothing."""
    (tmp_path / "work").mkdir()
    command = ["evaluate", write(rows), "--evaluators", "correctness", "--model-judge", "m"]
    env = {name: value for name, value in os.environ.items() if name.startswith(OF_THE_MACHINE)}
    env["LLMEVAL_STORE"] = ".llmeval/llmeval.db"
    for umask in (0, 0o277):
        before = os.umask(umask)
        try:
            done = run_command(*command, folder=tmp_path / "work", env=env)
        finally:
            os.umask(before)
        assert done.returncode == 0, done.stderr
        folder = tmp_path / "work" / ".llmeval"
        assert (
            mode(folder)
            == mode(folder / "reports")
            == mode(tmp_path / "state" / "llmeval")
            == 0o700
        )
        assert mode(folder / "reports" / "offline-data.jsonl") & 0o077 == 0
        assert mode(tmp_path / "state" / "llmeval" / "verdicts.state") == 0o600
        assert (folder / ".gitignore").read_text() == "*\n"
        shutil.rmtree(folder)
        shutil.rmtree(tmp_path / "state")
