"""Kept verdicts: private, and believed only where our own key signed them."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
from pathlib import Path

import pytest
from command_line import OF_THE_MACHINE, run_command

import llmeval_sdk as llmeval


CORRECT = "response/llm_judged/correctness/rating/percentage"


def evaluated(rows):
    return llmeval.evaluate(rows, evaluators=["correctness"], llm="m")


@pytest.fixture
def kept(tmp_path):
    """The file of verdicts, in the store's folder."""
    return tmp_path / "store" / "llmeval.state"


def forge(path, rating="yes"):
    """Turn every kept verdict into another one, as somebody who can write the file would."""
    with sqlite3.connect(path) as connection:
        for key, text in connection.execute("SELECT key, verdict FROM verdicts").fetchall():
            verdict = json.dumps({**json.loads(text), "value": rating})
            connection.execute("UPDATE verdicts SET verdict = ? WHERE key = ?", (verdict, key))
    connection.close()


def test_a_changed_verdict_is_judged_anew_and_counted(rows, judge, kept):
    """It decides nothing; the report says how many there were."""
    first = evaluated(rows)
    forge(kept)
    again = evaluated(rows)
    assert again.metrics == first.metrics
    assert first.metrics[CORRECT] < 1
    assert len(judge.requests) == 12
    assert "6 kept verdicts without our signature judged anew" in again.to_markdown()
    third = evaluated(rows)
    assert len(judge.requests) == 12, "those judged anew are signed"
    assert "without our signature" not in third.to_markdown()


def test_verdicts_of_another_machine_are_not_believed(rows, judge, kept, monkeypatch, tmp_path):
    """A file that comes with a checkout was signed with a key that is not here."""
    evaluated(rows)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another machine"))
    evaluated(rows)
    assert len(judge.requests) == 12


def test_a_verdict_of_another_question_does_not_fit(rows, judge, kept):
    """A signature is over the judgement too: a good answer's verdict cannot be put to a bad one."""
    evaluated(rows)
    with sqlite3.connect(kept) as connection:
        said = connection.execute("SELECT made, verdict, signature FROM verdicts").fetchall()
        good = next(each for each in said if '"yes"' in each[1])
        connection.execute("UPDATE verdicts SET made = ?, verdict = ?, signature = ?", good)
    connection.close()
    again = evaluated(rows)
    assert again.metrics[CORRECT] == pytest.approx(4 / 6)
    assert len(judge.requests) == 11, "one row had this verdict"


def test_a_key_that_the_ci_keeps_signs_on_every_machine(rows, judge, monkeypatch, tmp_path):
    """Two runners with the same key share verdicts; with another one they do not."""
    for key, machine, asked in ((b"a" * 32, "one", 6), (b"a" * 32, "two", 6), (b"b" * 32, "3", 12)):
        folder = tmp_path / machine / "llmeval"
        folder.mkdir(mode=0o700, parents=True)
        (folder / "verdict.key").write_bytes(key)
        (folder / "verdict.key").chmod(0o600)
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / machine))
        evaluated(rows)
        assert len(judge.requests) == asked


@pytest.mark.parametrize("make", ["short", "loose", "missing folder"])
def test_a_key_that_cannot_be_used_is_told_and_nothing_is_believed(
    rows, judge, monkeypatch, tmp_path, caplog, make
):
    """The run goes on with a key of its own."""
    state = tmp_path / "state" / "llmeval"
    if make == "missing folder":
        monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    else:
        state.mkdir(mode=0o700, parents=True)
        (state / "verdict.key").write_bytes(b"x" * (32 if make == "loose" else 3))
        (state / "verdict.key").chmod(0o644 if make == "loose" else 0o600)
    for asked in (6, 12):
        evaluated(rows)
        assert len(judge.requests) == asked
    assert "no key can be kept" in caplog.text


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_what_evaluate_makes_is_private_whatever_the_umask(rows, judge, write, tmp_path):
    """Folder, verdicts, key and report: others of the machine read and write nothing."""
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
        for file in ("llmeval.state", "reports/offline-data.jsonl"):
            assert mode(folder / file) & 0o077 == 0
        assert mode(tmp_path / "state" / "llmeval" / "verdict.key") == 0o600
        assert (folder / ".gitignore").read_text() == "*\n"
        shutil.rmtree(folder)
        shutil.rmtree(tmp_path / "state")


def test_a_file_made_before_loses_the_rights_of_others(rows, judge, kept):
    """As earlier versions made it."""
    evaluated(rows)
    kept.chmod(0o666)
    evaluated(rows)
    assert mode(kept) == 0o600
    assert len(judge.requests) == 6


def test_of_a_file_that_others_could_write_only_what_is_signed_is_kept(rows, judge, kept):
    """Learned weights and calibrations in it have no signature, and would be believed."""
    evaluated(rows)
    with sqlite3.connect(kept) as connection:
        connection.execute("INSERT INTO texts VALUES ('calibrations', 'forged', 1)")
        connection.execute('CREATE TABLE "a ""name" AS SELECT 1')
    connection.close()
    for rights, rest in ((0o644, 1), (0o666, 0)):
        kept.chmod(rights)
        evaluated(rows)
        with sqlite3.connect(kept) as connection:
            for table in ("texts", '"a ""name"'):
                assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (rest,)
        connection.close()
    assert len(judge.requests) == 6


def test_what_others_could_write_is_not_believed_after_a_failure_either(rows, judge, kept):
    """A file that could not be emptied has its rights again, by which everybody refuses it."""
    evaluated(rows)
    with sqlite3.connect(kept) as connection:
        connection.execute("CREATE VIEW foreign_view AS SELECT 1")
    connection.close()
    kept.chmod(0o620)
    with pytest.raises(llmeval.errors.ConfigurationError, match="cache=False"):
        evaluated(rows)
    assert mode(kept) == 0o620


def test_a_link_in_the_place_of_the_file_is_refused(rows, judge, kept, tmp_path):
    """What it leads to is not ours to write."""
    kept.parent.mkdir(mode=0o700)
    kept.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(llmeval.errors.ConfigurationError, match="symbolic link"):
        evaluated(rows)
    assert not Path(tmp_path / "elsewhere").exists()
