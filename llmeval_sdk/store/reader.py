"""Reads one store: its records as nouns, the names in it, and what it holds."""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.model import JUDGING, STAND_IN, EvaluationEvent, NotRun, SpanData, values
from llmeval_sdk.store import _schema, encode
from llmeval_sdk.store._schema import MAY_BE_TURN, EmptyError
from llmeval_sdk.store.connection import Database
from llmeval_sdk.store.encode import Row, loads
from llmeval_sdk.store.files import Unusable, open_file, open_read_only, path_of
from llmeval_sdk.store.texts import columns_of


if TYPE_CHECKING:
    from llmeval_sdk.store.selection import Selection


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
        seconds: how long one reading may take, and how long it may take to find the selected
            requests; beyond it, ``sqlite3.OperationalError`` is raised. Without it a reading takes
            as long as it takes.
        selection: the requests that all readings are about; by default all requests.

    Raises:
        ConfigurationError: there is no such file, or it is not a store of this release.
    """

    def __init__(
        self,
        location: str | os.PathLike[str],
        *,
        seconds: float | None = None,
        selection: Selection | None = None,
    ) -> None:
        self._location = location
        self._seconds = seconds
        self.selection = selection
        self._database = Database(self._open)
        self.read(_schema.STORE.version_of)

    def span(self, span_id: str, trace_id: str | None = None) -> SpanData | None:
        """Return one span; the latest where several traces have the id."""
        where = "span_id = ? AND ifnull(trace_id = ?, 1) ORDER BY seq DESC LIMIT 1"
        found = self._rows("spans", where, (span_id, trace_id))
        return encode.span_of(found[0]) if found else None

    def trace(self, trace_id: str) -> tuple[SpanData, ...]:
        """Return the spans of a trace, in the order they began."""
        found = self._rows("spans", "trace_id = ? ORDER BY start_ns, seq", (trace_id,))
        return tuple(map(encode.span_of, found))

    def evaluations_of(self, span_id: str) -> tuple[EvaluationEvent, ...]:
        """Return what evaluators said of a span, in order of time."""
        found = self._rows("evaluations", "span_id = ? ORDER BY time_ns, seq", (span_id,))
        return tuple(map(encode.evaluation_of, found))

    def feedback_of(self, span_id: str) -> tuple[EvaluationEvent, ...]:
        """Return what people said of a span, in order of time."""
        found = self._rows("feedback", "span_id = ? ORDER BY time_ns, seq", (span_id,))
        return tuple(map(encode.evaluation_of, found))

    def feedback(self, name: str | None = None) -> tuple[EvaluationEvent, ...]:
        """Return what people said of all spans, oldest first, under one name or any."""
        found = self._rows("feedback", "ifnull(name = ?, 1) ORDER BY time_ns, seq", (name,))
        return tuple(map(encode.evaluation_of, found))

    def not_run_of(self, span_id: str) -> tuple[NotRun, ...]:
        """Return the judges that did not run on a span, in order of time."""
        found = self._rows("not_run", "span_id = ? ORDER BY time_ns, seq", (span_id,))
        return tuple(map(encode.not_run_of, found))

    def recent_scores(self, name: str, limit: int = 5_000) -> list[tuple[str | None, float]]:
        """Return the span names and values of an evaluator's latest scores, oldest first."""
        found = self.read(lambda c: c.execute(_RECENT, (name, limit)).fetchall())
        return [(span_name, value) for span_name, value in reversed(found) if value is not None]

    def counts(self) -> StoreSize:
        """Return how much the store holds."""
        return StoreSize(*self.read(lambda c: c.execute(_COUNTS).fetchone()))

    def read(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Do one reading in one transaction, so that all of it sees the same state.

        For functions that take a connection, such as `span_lists.list_page`.
        """
        with self._database.use() as connection:
            try:
                with self._limited(connection):
                    connection.execute("BEGIN")
                    try:
                        return work(connection)
                    except sqlite3.OperationalError as error:
                        of_json = "json_extract" in str(error) or "slice" in str(error)
                        if "decode to UTF-8" not in str(error) or not of_json:
                            raise
                        connection.text_factory = _readable  # far slower, so only where needed
                        return work(connection)
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def _limited(self, connection: sqlite3.Connection) -> Iterator[None]:
        """Interrupt what takes longer than a reading may."""
        if self._seconds is not None:
            deadline = time.monotonic() + self._seconds
            connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
        try:
            yield
        finally:
            connection.set_progress_handler(None, 0)

    def read_at_once(self, works: Sequence[Callable[[sqlite3.Connection], _T]]) -> list[_T]:
        """Do several readings at the same time, each on a connection of its own.

        SQLite leaves Python's lock while it works, so two cores read a large store in half the
        time.
        """
        if len(works) < 2:
            return [self.read(work) for work in works]

        with ThreadPoolExecutor(min(len(works), os.cpu_count() or 2, 4)) as pool:
            return list(pool.map(self.read_apart, works))

    @contextmanager
    def beside(self, work: Callable[[sqlite3.Connection], _T]) -> Iterator[Future[_T]]:
        """Do one reading while the ``with`` block does others, whose end waits for it."""
        with ThreadPoolExecutor(1) as pool:
            yield pool.submit(self.read_apart, work)

    def read_apart(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Do one reading on a connection of its own."""
        with self.another() as other:
            return other.read(work)

    def another(self) -> StoreReader:
        """Return another reader of the same store, for another thread."""
        return StoreReader(self._location, seconds=self._seconds, selection=self.selection)

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
        query = f"SELECT {columns_of(table)} FROM {table} WHERE {where}"  # noqa: S608
        return self.read(lambda connection: connection.execute(query, given).fetchall())

    def _open(self) -> sqlite3.Connection:
        try:
            connection = open_read_only(self._location)
            if _schema.STORE.version_of(connection) < _schema.STORE.version:
                connection.close()
                open_file(path_of(self._location)).close()  # an older release's: bring it forward
                connection = open_read_only(self._location)
        except Unusable as error:
            kind = (
                EmptyStoreError if isinstance(error.__cause__, EmptyError) else ConfigurationError
            )
            raise kind(f"{self._location} cannot be read: {error}") from error
        if self.selection is not None:
            try:
                with self._limited(connection):
                    self.selection.attach(connection)
            except BaseException:
                connection.close()
                raise
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


# The names in a store.

MAX_NAMES = 200


@dataclass(frozen=True, slots=True)
class KnownNames:
    """The names of evaluators, spans and labels in a store, sorted; at most `MAX_NAMES` of each."""

    heuristics: tuple[str, ...] = ()
    judges: tuple[str, ...] = ()
    """All judges, including those that never ran."""
    spans: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    """The names under which people gave feedback."""
    numeric: frozenset[str] = frozenset()
    """The evaluators that give numbers, so that spans can be sorted by them."""

    @property
    def evaluators(self) -> tuple[str, ...]:
        """Return the names of all evaluators, judges first."""
        return (*self.judges, *self.heuristics)


def known_names(connection: sqlite3.Connection) -> KnownNames:
    """Return the names in a store; an index leads from one name to the next without a scan.

    What the evaluators declare of their values is known to `model.values` from then on.
    """
    evaluators = names_in(connection, "evaluations", "name", MAX_NAMES)
    for name in evaluators:
        _learn_direction(connection, name)
    kinds = {name: _kind(connection, name) for name in evaluators}
    refused = names_in(connection, "not_run", "evaluator", MAX_NAMES)
    judges = {name for name, kind in kinds.items() if kind in JUDGING} | set(refused)
    return KnownNames(
        tuple(name for name in kinds if name not in judges),
        tuple(sorted(judges)),
        names_in(connection, "spans", "name", MAX_NAMES),
        names_in(connection, "feedback", "name", MAX_NAMES),
        frozenset(name for name in kinds if connection.execute(_NUMERIC, (name,)).fetchone()),
    )


def _learn_direction(connection: sqlite3.Connection, name: str) -> None:
    """Remember which values of an evaluator are better, where its latest evaluations say so."""
    for (text,) in connection.execute(_LATEST, (name,)):
        metadata = loads(text, {})
        if isinstance(metadata, dict) and values.learn(name, metadata.get(values.BETTER)):
            return


def decided_names(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Return the names of the evaluators whose questions a decision model answered."""
    return tuple(name for (name,) in connection.execute(_DECIDED))


def judged_by_stand_in(connection: sqlite3.Connection, judges: Iterable[str]) -> list[str]:
    """Return those judges whose latest verdicts come from the rules that stand in for a model.

    The latest hundred verdicts of each judge are looked at.
    """
    mark = f'%"model":"{STAND_IN}"%'
    return [name for name in judges if connection.execute(_STOOD_IN, (name, mark)).fetchone()]


def _kind(connection: sqlite3.Connection, name: str) -> str:
    row = connection.execute(_KIND, (name,)).fetchone()
    return str(row[0]) if row else ""


def names_in(
    connection: sqlite3.Connection, table: str, column: str, most: int = -1
) -> tuple[str, ...]:
    """Return the distinct names in a column; its index leads from one to the next without a scan.

    A ``most`` of -1 stands for all of them.
    """
    rows = connection.execute(
        f"""
WITH RECURSIVE names(name) AS (
  SELECT min({column}) FROM {table}
  UNION ALL
  SELECT (SELECT min({column}) FROM {table} WHERE {column} > names.name) FROM names
  WHERE names.name IS NOT NULL
) SELECT name FROM names WHERE name IS NOT NULL LIMIT ?
""",  # noqa: S608 - our own names of columns
        (most,),
    )
    return tuple(name for (name,) in rows)


_KIND = """
SELECT evaluator_kind FROM evaluations WHERE name = ? ORDER BY time_ns DESC LIMIT 1
"""

_STOOD_IN = """
SELECT 1 FROM (
  SELECT metadata, error_type FROM evaluations WHERE name = ? ORDER BY time_ns DESC LIMIT 100
)
WHERE metadata LIKE ? AND error_type IS NULL LIMIT 1
"""

_LATEST = """
SELECT metadata FROM (
  SELECT metadata FROM evaluations WHERE name = ? ORDER BY time_ns DESC LIMIT 5
) WHERE metadata LIKE '%"better":%' AND json_valid(metadata)
"""
"""The latest five: among an app's own verdicts may be one of an older version of it."""

_DECIDED = """
SELECT DISTINCT name FROM evaluations WHERE probability IS NOT NULL ORDER BY name
"""

_NUMERIC = """
SELECT 1 FROM evaluations WHERE name = ? AND value IS NOT NULL AND value < '' LIMIT 1
"""


# The contents of a store, so that empty pages need not be offered.

TAG_DIMENSION = re.compile(r'tag:[^"\\\x00-\x1f]{1,200}')
"""The tags by which versions of an app can be told apart."""
_LATEST_SPANS = 2_000


def dimensions(connection: sqlite3.Connection) -> list[str]:
    """Return the tags, and ``model`` and ``prompt``, that the latest spans of a store have."""
    tags = [name for (name,) in connection.execute(_TAGS, (_LATEST_SPANS,))]
    model, prompt = connection.execute(_MODEL_OR_PROMPT, (_LATEST_SPANS,)).fetchone()
    known_tags = [f"tag:{name}" for name in tags if TAG_DIMENSION.fullmatch(f"tag:{name}")]
    return known_tags + ["model"] * bool(model) + ["prompt"] * bool(prompt)


def contents_of(connection: sqlite3.Connection, kinds: Iterable[str]) -> set[str]:
    """Return which are there of ``sessions``, ``agents``, ``scores``, ``verdicts``, ``versions``.

    ``doubtful`` stands for fields of answers that are worth a look. Versions are there where judges
    answered, since they are compared by that. Each question is answered by an index, or by the
    first row that is found.
    """
    wanted = set(kinds)
    found = {kind for kind in wanted & _ANY.keys() if _is_any(connection, kind)}
    if "versions" in wanted and _is_any(connection, "verdicts") and dimensions(connection):
        found.add("versions")
    return found


def _is_any(connection: sqlite3.Connection, kind: str) -> bool:
    return connection.execute(_ANY[kind]).fetchone() is not None


_ANY = {
    "sessions": f"SELECT 1 FROM spans WHERE {MAY_BE_TURN} LIMIT 1",  # noqa: S608 - a constant
    "scores": "SELECT 1 WHERE EXISTS (SELECT 1 FROM evaluations)"
    " OR EXISTS (SELECT 1 FROM not_run) OR EXISTS (SELECT 1 FROM feedback)",
    "agents": "SELECT 1 FROM (SELECT kind FROM spans ORDER BY seq DESC LIMIT 2000)"
    " WHERE kind IN ('agent', 'tool') LIMIT 1",
    "verdicts": "SELECT 1 FROM evaluations WHERE evaluator_kind = 'judge' LIMIT 1",
    "doubtful": f"SELECT 1 FROM fields WHERE name = '{values.EXTRACTION_RISK}'"  # noqa: S608 - constants
    f" AND chance > {values.DOUBTFUL_ABOVE} LIMIT 1",
}

_TAGS = """
SELECT DISTINCT t.key
FROM (SELECT tags FROM spans WHERE tags IS NOT NULL ORDER BY seq DESC LIMIT ?) s,
  json_each(CASE WHEN json_valid(s.tags) THEN s.tags ELSE '{}' END) t
WHERE t.key IS NOT NULL ORDER BY t.key LIMIT 100
"""

_MODEL_OR_PROMPT = """
SELECT max(kind = 'llm' AND model_name IS NOT NULL), max(prompt IS NOT NULL)
FROM (SELECT kind, model_name, prompt FROM spans ORDER BY seq DESC LIMIT ?)
"""
