"""Golden files, and copies of the store and the spool folder that the first release wrote.

``UPDATE_FROZEN=1 python -m pytest tests/frozen`` writes the golden files anew. Read the difference
before you commit it: whatever it shows is what a user of the SDK would notice.
"""

import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from llmeval_sdk.cli import main


HERE = Path(__file__).parent
GOLDEN, DATA = HERE / "golden", HERE / "0.1.0" / "data"
"""The store and the spool are those of the first release, which every later one has to read."""
UPDATES = bool(os.environ.get("UPDATE_FROZEN"))


@pytest.fixture
def frozen():
    """Return a function that compares a text, a value as JSON, or rows as lines of it."""

    def check(name, value):
        if name.endswith(".txt"):
            text = value
        elif name.endswith(".jsonl"):
            text = "\n".join(json.dumps(row, ensure_ascii=False) for row in value)
        else:
            text = json.dumps(value, indent=1, ensure_ascii=False)
        path = GOLDEN / name
        if UPDATES:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text.rstrip("\n") + "\n", "utf-8")
        golden = path.read_text("utf-8").rstrip("\n")
        assert text.rstrip("\n").split("\n") == golden.split("\n"), (
            f"{name} differs from what was frozen; if users may see this change: "
            "UPDATE_FROZEN=1 python -m pytest tests/frozen"
        )

    return check


@pytest.fixture
def store(tmp_path):
    """Return the path of a copy of the frozen store."""
    path = tmp_path / "frozen" / "store.db"
    path.parent.mkdir(mode=0o700)
    shutil.copyfile(DATA / "store.db", path)
    return path


@pytest.fixture
def spool(tmp_path):
    """Return a copy of the frozen spool folder, with the modes that git does not keep."""
    folder = tmp_path / "spool"
    shutil.copytree(DATA / "spool", folder)
    folder.chmod(0o700)
    for file in folder.iterdir():
        file.chmod(0o600)
    return folder


@pytest.fixture
def command(capsys, tmp_path):
    """Run a command of ``llmeval``; return what it printed, without the test's own folder."""

    def run(*arguments, exits=0):
        assert main([*map(str, arguments)]) == exits
        return capsys.readouterr().out.replace(str(tmp_path), "TMP")

    return run


@pytest.fixture
def requests(store):
    """Return the span ids of the requests in the store, oldest first."""
    with closing(sqlite3.connect(store)) as connection:
        rows = connection.execute(
            "SELECT span_id FROM spans WHERE parent_id IS NULL AND links IS NULL ORDER BY start_ns"
        )
        return [span_id for (span_id,) in rows]
