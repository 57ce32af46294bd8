"""Files of older releases are brought forward, whole or not at all."""

import sqlite3
from contextlib import closing

import pytest

from llmeval_sdk.model import Batch
from llmeval_sdk.store import _schema, encode
from llmeval_sdk.store.reader import StoreReader
from llmeval_sdk.store.writer import StoreWriter


NEXT = """
CREATE TABLE later (x);
CREATE TRIGGER each_span AFTER INSERT ON spans BEGIN
  INSERT INTO later VALUES (1);
END;
ALTER TABLE not_run ADD COLUMN later TEXT;
"""


def with_script(script):
    """The schema of a later release."""
    return _schema.Schema(_schema.STORE.application_id, (*_schema.STORE.scripts, script))


def columns(connection, table):
    return [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]


@pytest.mark.parametrize("table", encode.COLUMNS)
def test_rows_have_the_columns_of_their_table(table):
    """All that is written is declared, and nothing else; statements name the columns they use."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        _schema.STORE.migrate(connection)
        assert sorted(columns(connection, table)) == sorted(["seq", *encode.COLUMNS[table]])


def test_a_store_of_an_older_release_is_brought_forward(path, make, monkeypatch):
    """The next release's writer keeps what is there and adds what it needs."""
    span = make.span()
    with closing(StoreWriter(path)) as writer:
        writer.write(Batch((span,)))
    monkeypatch.setattr(_schema, "STORE", with_script(NEXT))
    with closing(StoreWriter(path)) as writer:
        writer.write(Batch((make.span(),)))
        assert writer.fallback_reason is None
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("PRAGMA user_version").fetchone() == (_schema.STORE.version,)
        assert raw.execute("SELECT count(*) FROM later").fetchone() == (1,)
        assert columns(raw, "not_run")[-1] == "later"
    with closing(StoreReader(path)) as reader:
        assert reader.span(span.span_id) == span


def test_a_reader_brings_an_older_store_forward(path, make, monkeypatch):
    """After an upgrade, a report needs no write of the app first."""
    with closing(StoreWriter(path)) as writer:
        writer.write(Batch((make.span(),)))
    monkeypatch.setattr(_schema, "STORE", with_script(NEXT))
    with closing(StoreReader(path)) as reader:
        assert reader.counts().spans == 1
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("PRAGMA user_version").fetchone() == (_schema.STORE.version,)


def test_a_migration_that_fails_leaves_the_file_as_it_was(path, make, monkeypatch):
    """A script that breaks in the middle changes nothing, not even its first statement."""
    with closing(StoreWriter(path)) as writer:
        writer.write(Batch((make.span("same"), make.span("same"))))
    broken = "CREATE TABLE half (x);\nCREATE UNIQUE INDEX once ON spans (name);\n"
    monkeypatch.setattr(_schema, "STORE", with_script(broken))
    with closing(StoreWriter(path)) as writer:
        writer.write(Batch((make.span(),)))
        assert "UNIQUE constraint failed" in writer.fallback_reason
    with closing(sqlite3.connect(path)) as raw:
        assert raw.execute("PRAGMA user_version").fetchone() == (_schema.STORE.version - 1,)
        assert not columns(raw, "half")


def plan(path, query, *given):
    with closing(sqlite3.connect(path)) as raw:
        return " ".join(row[3] for row in raw.execute(f"EXPLAIN QUERY PLAN {query}", given))


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ("SELECT * FROM spans WHERE trace_id = 'a'", "spans_by_trace"),
        ("SELECT * FROM spans WHERE span_id = 'a'", "spans_by_id"),
        ("SELECT * FROM spans WHERE name = 'a' AND start_ns < 9 ORDER BY start_ns DESC LIMIT 50", "spans_by_name"),
        ("SELECT * FROM spans WHERE parent_id IS NULL AND start_ns < 9 ORDER BY start_ns DESC LIMIT 50", "spans_roots"),
        ("SELECT * FROM evaluations WHERE span_id = 'a'", "evaluations_by_span"),
        ("SELECT * FROM evaluations WHERE name = 'a' AND time_ns < 9 ORDER BY time_ns DESC LIMIT 50", "evaluations_by_time"),
        ("SELECT * FROM evaluations WHERE name = 'a' AND value > 0.1 ORDER BY value LIMIT 50", "evaluations_by_value"),
        ("SELECT * FROM not_run WHERE span_id = 'a'", "not_run_by_span"),
        ("SELECT * FROM not_run WHERE evaluator = 'a' AND time_ns > 9", "not_run_by_time"),
    ],
)  # fmt: skip
def test_pages_of_a_large_store_are_read_by_an_index(writer, path, make, query, index):
    """What viewers page through is neither scanned nor sorted."""
    writer.write(Batch((make.span(),)))
    found = plan(path, query)
    assert index in found
    assert "TEMP B-TREE" not in found
