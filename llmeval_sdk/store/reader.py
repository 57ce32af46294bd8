"""The reading side of the store: single records as nouns, many as summaries."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model import EvaluationEvent, NotRun, SpanData
from llmeval_sdk.store import _rows, _schema
from llmeval_sdk.store._rows import COLUMNS, Row
from llmeval_sdk.store._schema import EmptyError
from llmeval_sdk.store.connection import Database
from llmeval_sdk.store.files import Unusable, open_file, open_read_only, path_of


_T = TypeVar("_T")
_STEPS = 20_000
"""How many steps of its virtual machine SQLite takes between two looks at the clock, about 1 ms."""


@dataclass(frozen=True, slots=True)
class StoreSize:
    """How much a store holds."""

    spans: int
    evaluations: int
    not_run: int
    feedback: int


class EmptyStoreError(ConfigurationError):
    """The file is there and holds nothing yet."""


class StoreReader:
    """Reads one store, by a connection of its own that never writes.

    Args:
        location: the file, or the `StoreWriter.location` of a writer in this process.
        seconds: how long one reading may take; beyond it, ``sqlite3.OperationalError`` is raised.
            Without it a reading takes as long as it takes.

    Raises:
        ConfigurationError: there is no such file, or it is not a store of this release.
    """

    def __init__(self, location: str | os.PathLike[str], *, seconds: float | None = None) -> None:
        self._location = location
        self._seconds = seconds
        self._database = Database(self._open)
        self.read(_schema.version_of)

    def span(self, span_id: str, trace_id: str | None = None) -> SpanData | None:
        """Return one span; the latest where several traces have the id."""
        where = "span_id = ? AND ifnull(trace_id = ?, 1) ORDER BY seq DESC LIMIT 1"
        found = self._rows("spans", where, (span_id, trace_id))
        return _rows.span_of(found[0]) if found else None

    def trace(self, trace_id: str) -> tuple[SpanData, ...]:
        """Return the spans of a trace, in the order they began."""
        found = self._rows("spans", "trace_id = ? ORDER BY start_ns, seq", (trace_id,))
        return tuple(map(_rows.span_of, found))

    def evaluations_of(self, span_id: str) -> tuple[EvaluationEvent, ...]:
        """Return what evaluators said of a span, in order of time."""
        found = self._rows("evaluations", "span_id = ? ORDER BY time_ns, seq", (span_id,))
        return tuple(map(_rows.evaluation_of, found))

    def feedback_of(self, span_id: str) -> tuple[EvaluationEvent, ...]:
        """Return what people said of a span, in order of time."""
        found = self._rows("feedback", "span_id = ? ORDER BY time_ns, seq", (span_id,))
        return tuple(map(_rows.evaluation_of, found))

    def feedback(self, name: str | None = None) -> tuple[EvaluationEvent, ...]:
        """Return what people said of all spans, oldest first, under one name or any."""
        found = self._rows("feedback", "ifnull(name = ?, 1) ORDER BY time_ns, seq", (name,))
        return tuple(map(_rows.evaluation_of, found))

    def not_run_of(self, span_id: str) -> tuple[NotRun, ...]:
        """Return the judges that did not run on a span, in order of time."""
        found = self._rows("not_run", "span_id = ? ORDER BY time_ns, seq", (span_id,))
        return tuple(map(_rows.not_run_of, found))

    def recent_scores(self, name: str, limit: int = 5_000) -> list[tuple[str | None, float]]:
        """Return the span names and values of an evaluator's latest scores, oldest first."""
        found = self.read(lambda c: c.execute(_RECENT, (name, limit)).fetchall())
        return [(span_name, value) for span_name, value in reversed(found) if value is not None]

    def counts(self) -> StoreSize:
        """Return how much the store holds."""
        return StoreSize(*self.read(lambda c: c.execute(_COUNTS).fetchone()))

    def read(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Do one reading in one transaction, so that all of it sees the same state.

        For functions that take a connection, such as those of `pages` and `walks`.
        """
        with self._database.use() as connection:
            if self._seconds is not None:
                deadline = time.monotonic() + self._seconds
                connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
            try:
                connection.execute("BEGIN")
                try:
                    return work(connection)
                except sqlite3.OperationalError as error:
                    if "decode to UTF-8" not in str(error) or "json_extract" not in str(error):
                        raise
                    connection.text_factory = _readable  # far slower, so only where it has to be
                    return work(connection)
            finally:
                connection.set_progress_handler(None, 0)
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def another(self) -> StoreReader:
        """Return another reader of the same store, for another thread."""
        return StoreReader(self._location, seconds=self._seconds)

    @property
    def location(self) -> str:
        """Where the store is."""
        return os.fspath(self._location)

    def close(self) -> None:
        """Close the connection."""
        self._database.close()

    def __enter__(self) -> StoreReader:  # noqa: PYI034 - Self came with Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _rows(self, table: str, where: str, given: Row) -> list[Row]:
        query = f"SELECT {','.join(COLUMNS[table])} FROM {table} WHERE {where}"  # noqa: S608
        return self.read(lambda connection: connection.execute(query, given).fetchall())

    def _open(self) -> sqlite3.Connection:
        try:
            connection = open_read_only(self._location)
            if _schema.version_of(connection) < len(_schema.MIGRATIONS):
                connection.close()
                open_file(path_of(self._location)).close()  # an older release's: bring it forward
                connection = open_read_only(self._location)
        except Unusable as error:
            kind = (
                EmptyStoreError if isinstance(error.__cause__, EmptyError) else ConfigurationError
            )
            raise kind(f"{self._location} cannot be read: {error}") from error
        return connection


def recent_scores(
    location: str | os.PathLike[str], evaluator: str
) -> list[tuple[str | None, float]]:
    """Return the latest scores of an evaluator, as `StoreReader.recent_scores` does.

    The list is empty if there is no store, or if another process is just creating it.
    """
    if not path_of(location).exists():
        return []
    try:
        with StoreReader(location) as reader:
            return reader.recent_scores(evaluator)
    except EmptyStoreError:
        return []


_RECENT = """
SELECT span_name, CASE typeof(value) WHEN 'text' THEN NULL ELSE value END FROM evaluations
WHERE name = ? ORDER BY time_ns DESC LIMIT ?
"""

_COUNTS = """
SELECT (SELECT count(*) FROM spans), (SELECT count(*) FROM evaluations),
  (SELECT count(*) FROM not_run), (SELECT count(*) FROM feedback)
"""


def _readable(text: bytes) -> str:
    """Read what is no UTF-8, such as a half of a surrogate pair within the JSON of an old store."""
    return text.decode("utf-8", "replace")
