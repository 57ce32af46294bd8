"""A store whose columns hold what they cannot hold gives a sentence, never a traceback."""

import shutil
import sqlite3
from contextlib import closing

import pytest
from command_line import run_command
from damaged_stores import EACH_COMMAND, EXPORTED, broken_by, damage, make_sound_store, run

from llmeval_sdk.store.damage import damage_of


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return make_sound_store(tmp_path_factory.mktemp("sound"))


@pytest.fixture
def whole(sound, tmp_path):
    """Return the path of a copy, to be changed."""
    return shutil.copy(sound, tmp_path / "whole.db")


@EACH_COMMAND
def test_every_command_works_on_the_whole_store(whole, command):
    """So that what they say of damaged copies is due to the damage."""
    done = run(command, whole)
    assert not done.stderr
    assert done.stdout or command == EXPORTED
    assert done.returncode in (0, 1) or "undecided" in done.stdout


@EACH_COMMAND
def test_a_damaged_column_gives_a_sentence_and_no_traceback(sound, tmp_path, command):
    """A fifth of the columns that it reads, in turn; `make test-faults` damages each of them."""
    assert broken_by(command, sound, tmp_path, every=5) == []


def test_the_sentence_says_whether_the_file_is_whole_and_what_to_do(whole):
    """Whoever reads it knows how to go on."""
    assert damage(whole, "spans", "start_ns", "a word")
    done = run(("traces",), whole)
    assert done.returncode == 2
    said = f"llmeval traces: {whole} holds what cannot be read (TypeError), in a file that is whole"
    assert done.stderr.startswith(said)
    assert "move the file away" in done.stderr


def test_an_error_of_ours_is_not_blamed_on_a_sound_store(whole):
    """Only a store that is damaged is called so."""
    assert damage_of(whole) is None


def test_halves_of_surrogate_pairs_of_an_earlier_release_break_nothing(whole, tmp_path):
    """It wrote them as escapes within JSON; they are shown as what cannot be read."""
    with closing(sqlite3.connect(whole)) as database, database:
        escaped = '{"te\\ud800am": "v\\ud800", "team": "\\ud800"}'
        database.execute(
            "UPDATE spans SET tags=?, attributes=?, request=?", (escaped, escaped, escaped)
        )
    for command in (("report", "--by", "tag:team"), (*EXPORTED[:-1], tmp_path / "spans.parquet")):
        done = run_command(*command, "--store", whole, folder=tmp_path)
        assert done.returncode == 0, done.stderr
