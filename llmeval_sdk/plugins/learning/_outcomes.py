"""The outcomes of this host: what risk scores knew of judged records, and what was said of them.

They stand in a SQLite file beside the store, which all processes of the host add to. It holds
numbers, ids and span names, and no text of a record. Only the worker uses it.
"""

from __future__ import annotations

import errno
import sqlite3
from array import array
from collections.abc import Iterable
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import NamedTuple

from llmeval_sdk.plugins.learning._course import MOST_OUTCOMES, PEOPLE, Source
from llmeval_sdk.plugins.learning._fit import Outcome, Slices
from llmeval_sdk.process import private
from llmeval_sdk.store.connection import Database


MOST_KEPT = 5_000
"""Outcomes that the file keeps of all scores together; the oldest make room."""
MARK, VERSION = 0x6C6C6C72, 1
"""Mark the file as ours, so that somebody else's is never changed."""
LEASE_SECONDS = 120.0
"""How long a process may fit before another one may begin too."""
WAIT_SECONDS = 0.5


class Entry(NamedTuple):
    """An outcome on its way into the file."""

    part: str
    """The score and the language of the record."""
    features: str
    """Which features these are; see `learning.Score`."""
    source: Source
    span_id: str
    span_name: str
    bad: float
    chance: float
    logit: float
    vector: tuple[float, ...]


class ForeignError(Exception):
    """The file is not one of outcomes, or is damaged."""


class Outcomes:
    """The file of outcomes; `ForeignError` and ``OSError`` say why it cannot be used."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        """``None``: outcomes are kept in memory."""
        self._database = Database(self._connect)

    @property
    def is_there(self) -> bool:
        """Whether there is a file of outcomes, by this process or an earlier one."""
        return self._path is None or self._path.exists()

    def add(self, entries: Iterable[Entry]) -> None:
        """Add outcomes; of what one source says of a record several times, the last counts."""
        rows = [
            (*entry[:2], *entry.source, *entry[3:8], array("f", entry.vector).tobytes())
            for entry in entries
        ]
        with self._database.use() as database:
            database.execute("BEGIN IMMEDIATE")
            try:
                database.executemany(_ADD, rows)
                database.execute(_PRUNE, (MOST_KEPT,))
                database.execute("COMMIT")
            finally:
                if database.in_transaction:
                    database.execute("ROLLBACK")

    def label(self, spans: Iterable[tuple[str, str, float, float]]) -> None:
        """Add what people said of judged records; of two labels of one record the later counts.

        Each of ``spans`` is a judge's name, a span id, how bad the record is (0..1) and the chance
        that it was labelled once it was judged. Labels of other records are left out, since nobody
        knows their features.
        """
        with self._database.use() as database:
            for judge, span_id, bad, chance in spans:
                database.execute(_LABEL, (judge, "", PEOPLE, bad, chance, span_id, judge, PEOPLE))

    def lease(self, owner: str, now: float) -> bool:
        """Take the right to fit, which one process has at a time."""
        with self._database.use() as database:
            return database.execute(_LEASE, (owner, now + LEASE_SECONDS, now, owner)).rowcount == 1

    def release(self, owner: str) -> None:
        """Give the right to fit back."""
        with self._database.use() as database:
            database.execute("UPDATE lease SET until = 0 WHERE owner = ?", (owner,))

    def newest(self) -> int:
        """Return the number of the newest outcome; 0 without any."""
        with self._database.use() as database:
            (seq,) = database.execute("SELECT max(seq) FROM outcomes").fetchone()
        return seq or 0

    def sources(self, part: str, features: str, latest: int) -> dict[tuple[Source, str], int]:
        """Count the latest outcomes of a score by source and span name."""
        with self._database.use() as database:
            rows = database.execute(_SOURCES, (part, features, latest)).fetchall()
        return {(Source(*source), span_name): n for *source, span_name, n in rows}

    def parts(self) -> list[tuple[str, str]]:
        """Return which scores, and of which features, there are outcomes of."""
        with self._database.use() as database:
            return list(database.execute("SELECT DISTINCT part, features FROM outcomes"))

    def of(
        self, part: str, features: str, source: Source, span_name: str | None, *, width: int
    ) -> Slices[list[Outcome]]:
        """Return the latest outcomes of a source, oldest first, for one span name or for all.

        A row that does not hold ``width`` finite numbers is left out.
        """
        arguments = (part, features, *source, span_name, span_name, MOST_OUTCOMES)
        with self._database.use() as database:
            rows = database.execute(_OF, arguments).fetchall()
        outcomes = []
        for seq, logit, blob, bad, chance in reversed(rows):
            vector = array("f")
            with suppress(ValueError, TypeError):
                vector.frombytes(blob)
                numbers = (logit, bad, chance, *vector)
                if len(vector) == width and all(map(isfinite, numbers)) and 0 < chance <= 1:
                    outcomes.append(Outcome(seq, logit, tuple(vector), bad, chance))
            if seq % 64 == 0:
                yield
        return outcomes

    def close(self) -> None:
        """Close the file; using it again opens it again."""
        self._database.close()

    def _connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(
            self._place(), timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            _prepare(database)
        except sqlite3.DatabaseError as error:
            database.close()
            if isinstance(error, sqlite3.OperationalError):
                raise
            raise ForeignError(str(error)) from None
        except ForeignError:
            database.close()
            raise
        return database

    def _place(self) -> Path | str:
        """Make the file, private to its owner; where none can be made, stay in memory."""
        if self._path is None:
            return ":memory:"
        try:
            private.make_folder(self._path.parent)
            private.check_folder(self._path.parent.lstat(), shared=True)
            private.make_file(self._path)
            private.check_file(self._path)
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
                raise
            return ":memory:"
        return self._path


def _prepare(database: sqlite3.Connection) -> None:
    database.execute("PRAGMA synchronous = NORMAL")
    database.execute("BEGIN IMMEDIATE")
    mark = database.execute("PRAGMA application_id").fetchone()[0]
    tables = database.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if (mark, version) != (MARK, VERSION) and (mark or version or tables):
        raise ForeignError("it is a database of another program or version")
    for statement in _TABLES:
        database.execute(statement)
    database.execute(f"PRAGMA application_id = {MARK}")
    database.execute(f"PRAGMA user_version = {VERSION}")
    database.execute("COMMIT")


_TABLES = (
    """
    CREATE TABLE IF NOT EXISTS outcomes (
      seq INTEGER PRIMARY KEY AUTOINCREMENT,
      part TEXT NOT NULL, features TEXT NOT NULL,
      judge TEXT NOT NULL, version TEXT NOT NULL, model TEXT NOT NULL,
      span_id TEXT NOT NULL, span_name TEXT NOT NULL,
      bad REAL NOT NULL, chance REAL NOT NULL, logit REAL NOT NULL, vector BLOB NOT NULL
    )
    """,
    """
    CREATE UNIQUE INDEX IF NOT EXISTS outcomes_once
    ON outcomes (span_id, part, judge, version, model)
    """,
    """
    CREATE TABLE IF NOT EXISTS lease (
      id INTEGER PRIMARY KEY CHECK (id = 1), owner TEXT NOT NULL, until REAL NOT NULL
    )
    """,
    "INSERT OR IGNORE INTO lease VALUES (1, '', 0)",
)

_ADD = """
INSERT INTO outcomes
  (part, features, judge, version, model, span_id, span_name, bad, chance, logit, vector)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET bad = excluded.bad, chance = excluded.chance
"""

_LABEL = """
INSERT INTO outcomes
  (part, features, judge, version, model, span_id, span_name, bad, chance, logit, vector)
SELECT part, features, ?, ?, ?, span_id, span_name, ?, chance * ?, logit, vector
FROM outcomes WHERE span_id = ? AND judge = ? AND model != ? ORDER BY seq DESC LIMIT 1
ON CONFLICT DO UPDATE SET bad = excluded.bad, chance = excluded.chance
"""

_PRUNE = "DELETE FROM outcomes WHERE seq <= (SELECT max(seq) FROM outcomes) - ?"

_LEASE = "UPDATE lease SET owner = ?, until = ? WHERE until < ? OR owner = ?"

_SOURCES = """
SELECT judge, version, model, span_name, count(*) FROM (
  SELECT judge, version, model, span_name FROM outcomes
  WHERE part = ? AND features = ? ORDER BY seq DESC LIMIT ?
) GROUP BY judge, version, model, span_name
"""

_OF = """
SELECT seq, logit, vector, bad, chance FROM outcomes
WHERE part = ? AND features = ? AND judge = ? AND version = ? AND model = ?
  AND (? IS NULL OR span_name = ?)
ORDER BY seq DESC LIMIT ?
"""
