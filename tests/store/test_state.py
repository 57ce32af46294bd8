"""The files of state: shared by processes, of one version, and in nobody's way when damaged."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
from contextlib import closing

import pytest

from llmeval_sdk.store import state
from llmeval_sdk.store.files import Unusable
from llmeval_sdk.store.state import (
    LEDGER,
    HostLedger,
    SharedText,
    StateFile,
    StateTables,
    text_in,
)


NOTES = "CREATE TABLE notes (text TEXT);"
LATER = "ALTER TABLE notes ADD COLUMN later TEXT;"


def tables(*scripts):
    return StateTables(
        owner="notes",
        scripts=scripts,
        noun="note",
        tables=("notes",),
        forget=lambda _database, _theirs: 0,
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "folder" / "llmeval.state"


def columns(path):
    with closing(sqlite3.connect(path)) as database:
        return [row[1] for row in database.execute("PRAGMA table_info(notes)")]


def test_the_tables_of_a_plugin_are_made_and_brought_forward(path):
    """Each plugin counts its own scripts, whenever it was installed."""
    with closing(SharedText(StateFile(path), "alerts")) as text:
        text.update(lambda _: ("kept", None))
    for scripts, expected in (((NOTES,), ["text"]), ((NOTES, LATER), ["text", "later"])):
        for _ in range(2):
            with closing(StateFile(path, tables(*scripts))) as file, file.reading():
                pass
        assert columns(path) == expected
    assert text_in(path, "alerts") == "kept"


@pytest.mark.parametrize("scripts", [(NOTES, LATER), ()])
def test_a_file_of_a_newer_release_is_left_alone(path, scripts):
    """A newer plugin or core may mean something else by what stands there."""
    with closing(StateFile(path, tables(*scripts))) as file, file.reading():
        pass
    if not scripts:
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA user_version = 99")
    with closing(StateFile(path, tables(NOTES))) as file:
        with pytest.raises(Unusable, match="newer release"), file.reading():
            pass


def test_a_database_of_another_program_is_left_alone(path):
    """Also the ledger is not taken for the file of state."""
    path.parent.mkdir(mode=0o700)
    with closing(HostLedger(path)) as ledger:
        ledger.update(lambda _: ("books", None))
    with closing(StateFile(path)) as file:
        with pytest.raises(Unusable, match="another program"), file.reading():
            pass
    assert text_in(path, "judges", LEDGER) == "books"


@pytest.mark.skipif(sys.platform == "win32", reason="no modes")
def test_everything_is_its_owners_alone(path):
    """The folder and the files in it, whatever the umask says."""
    with closing(SharedText(StateFile(path), "alerts")) as text:
        text.update(lambda _: ("x", None))
        modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.parent.iterdir()}
    assert modes[path.name] == modes[f"{path.name}-wal"] == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def damage(path):
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_bytes(b"SQLite format 3\0" + b"no database at all" * 500)
    path.chmod(0o600)


@pytest.mark.parametrize("schema", [state.STATE, state.LEDGER], ids=["state", "ledger"])
@pytest.mark.parametrize("content", [None, b"my letters " * 3, b"my letters " * 9_000])
def test_a_file_that_is_no_database_stays_and_the_sentence_says_what_to_do(path, schema, content):
    """A damaged one may still be read by hand, and another one is somebody's own."""
    damage(path)
    if content is not None:
        path.write_bytes(content)
    before = path.read_bytes()
    for read_only in (False, True):
        file = StateFile(path, schema=schema, read_only=read_only)
        with closing(SharedText(file, "alerts")) as text:
            with pytest.raises(Unusable, match=r"it is damaged .*: move it away"):
                text.update(lambda _: ("new", None))
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_of_two_replacements_of_one_version_one_counts(path):
    """Who was slower reads again."""
    with closing(SharedText(StateFile(path), "alerts")) as one:
        with closing(SharedText(StateFile(path), "alerts")) as other:
            assert one.read() == other.read() == ("", 0)
            assert one.replace("one", 0)
            assert not other.replace("other", 0)
            text, version = other.read()
            assert (text, other.replace("other", version)) == ("one", True)
            assert one.read()[0] == "other"


def test_reading_makes_no_file(path):
    """Most apps have none."""
    with closing(SharedText(StateFile(path), "alerts")) as text:
        assert (text.read(), text.version(), text_in(path, "alerts")) == (("", 0), 0, "")
    assert not path.parent.exists()


WRITER = """
import sys
from pathlib import Path
from llmeval_sdk.store.state import SharedText, StateFile, StateTables
notes = StateTables(owner="notes", scripts=("CREATE TABLE notes (text TEXT);",), noun="note",
                    tables=("notes",),
                    forget=lambda _database, _theirs: 0)
file = StateFile(Path(sys.argv[1]), notes, timeout=20.0)
text = SharedText(file, "count")
for _ in range(100):
    text.update(lambda known: (str(int(known or 0) + 1), None))
    with file.changing() as database:
        database.execute("INSERT INTO notes VALUES (?)", (sys.argv[2],))
"""


def test_processes_that_begin_at_once_make_one_file(path):
    """Each change of four processes counts."""
    command = [sys.executable, "-c", WRITER, str(path)]
    processes = [subprocess.Popen([*command, str(n)]) for n in range(4)]
    assert [process.wait(60) for process in processes] == [0] * 4
    assert text_in(path, "count") == "400"
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT count(*) FROM notes").fetchone() == (400,)
