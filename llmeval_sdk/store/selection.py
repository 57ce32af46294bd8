"""The requests that a reader selects, so that every question to a store is asked about them alone.

A selection is a small database of its own in a private temporary file: the traces of the selected
requests and the groups that they belong to. Connections attach it and get temporary views that bear
the names of the store's tables, which SQLite finds before the tables themselves. So each statement
that is written for a whole store answers for the selected requests, without a word about them.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import threading
import weakref
from collections.abc import Collection, Sequence
from pathlib import Path

from llmeval_sdk.errors import ConfigurationError
from llmeval_sdk.store.encode import dumps
from llmeval_sdk.store.filters import ONE_OF, Condition, Filter, add_functions, read_filter, tag_sql
from llmeval_sdk.store.frames import Frame
from llmeval_sdk.store.identities import UNREADABLE, unreadable
from llmeval_sdk.store.latest import StoredValue
from llmeval_sdk.store.splits import Part


TAG = "tag:"
SLICES = ("request", "model", "prompt", "release", "user", "session", "tag:KEY")
"""What requests can be grouped by: ``request`` is the name of a request's first span, and
``release`` the tag of that name, else ``version``."""
MAX_DIMENSIONS = 2
MAX_SLICES = 1_000
"""How many groups are told apart, the largest ones; `OTHERS` has the requests of the others."""
OTHERS = "(others)"
NONE = "(none)"
"""What stands for a value that a request does not have."""
SEVERAL = "(several)"
"""The model, or the prompt, of a request that has more than one."""
BETWEEN = "\x1f"
"""The character between the two values of a group, ASCII's "unit separator"."""
_TABLES = ("spans", "evaluations", "not_run", "feedback", "fields")


class Selection:
    """The requests that a filter selects, and their groups.

    Args:
        where: the filter.
        by: what the requests are grouped by, of `SLICES`; at most two.
        until: a time, in nanoseconds since the epoch, before which the requests begin.
        only: the group whose requests are selected, or all groups but these.
    """

    def __init__(
        self,
        where: Filter = Filter(),  # noqa: B008 - it never changes
        by: Sequence[str] = (),
        until: int | None = None,
        only: str | Collection[str] | None = None,
    ) -> None:
        self.where = where
        self.until = until
        self.only = only
        self.is_part = bool(where.conditions or until is not None or only is not None)
        """Whether requests may be left out."""
        self.by = tuple(map(_check_slice, by))
        if len(self.by) > MAX_DIMENSIONS:
            raise ConfigurationError(f"{len(self.by)} groupings: at most {MAX_DIMENSIONS} at once")
        self._lock = threading.Lock()
        self._file: Path | None = None
        self._finalizer: weakref.finalize[..., Selection] | None = None

    def attach(self, connection: sqlite3.Connection) -> None:
        """Make a connection to a store answer for the selected requests alone.

        The first call reads the store to find them. Requests that begin later are not among them.
        """
        add_functions(connection)
        with self._lock:
            if self._file is None:
                folder = tempfile.mkdtemp(prefix="llmeval-")
                self._finalizer = weakref.finalize(self, _delete, folder, os.getpid())
                file = Path(folder) / "selection.db"
                try:
                    self._attach(connection, file)
                    self._fill(connection)
                except BaseException:
                    self._finalizer()
                    raise
                self._file = file
            else:
                self._attach(connection, self._file)
        if self.is_part:
            for table in _TABLES:
                connection.execute(self._view(table))

    def close(self) -> None:
        """Delete the file, once no connection needs it; so does the end of the process."""
        with self._lock:
            self._file = None
            if self._finalizer is not None:
                self._finalizer()

    def _attach(self, connection: sqlite3.Connection, file: Path) -> None:
        connection.execute("ATTACH ? AS selection", (str(file),))
        connection.execute(f"PRAGMA selection.cache_size = -{_CACHE_KIB}").fetchall()

    def _view(self, table: str) -> str:
        """Return the statement that puts the selected rows of a table in its place.

        The + keeps SQLite from looking up trace by trace what it can read in order. Of a request
        that is selected by the names of its spans, other spans have no evaluations here.
        """
        of_name = ""
        if table != "spans" and any(part.field == "name" for part in self.where.conditions):
            of_name = "AND span_name IN (SELECT name FROM selection.names)"
        return (
            f"CREATE TEMP VIEW {table} AS SELECT * FROM main.{table}"  # noqa: S608 - constants
            f" WHERE +trace_id IN (SELECT request FROM selection.requests) {of_name}"
        )

    def _fill(self, connection: sqlite3.Connection) -> None:
        for pragma in (f"page_size = {_PAGE_BYTES}", "journal_mode = OFF", "synchronous = OFF"):
            connection.execute(f"PRAGMA selection.{pragma}").fetchall()
        connection.execute("BEGIN")
        connection.execute(
            "CREATE TABLE selection.requests (request TEXT PRIMARY KEY, slice TEXT, second TEXT)"
            " WITHOUT ROWID"
        )
        connection.execute("CREATE TABLE selection.largest (slice TEXT)")
        has_first = False
        if self.is_part:
            has_first = self._fill_requests(connection)
            self._fill_names(connection)
        if self.by:
            self._fill_slices(connection, has_first=has_first)
        connection.execute("COMMIT")

    def _fill_requests(self, connection: sqlite3.Connection) -> bool:
        """Note the selected requests; say whether the values of their first spans are noted too.

        The span that meets a condition is mostly the first one of its request, so that one look at
        it is enough. Where a request has several first spans, which is checked, it is not.
        """
        values = {
            column: f"CASE WHEN parent_id IS NULL THEN {_first_value(by)} END"
            for column, by in zip(_COLUMNS, self.by, strict=False)
            if by not in _OF_CALLS
        }
        order = "trace_id, parent_id IS NOT NULL"
        is_simple = values and self.until is None
        selected = self.where.telling_sql(values.values()) if is_simple else ""
        if not selected:
            values, order = {}, "trace_id"
            selected = f"SELECT trace_id FROM ({self.where.requests_sql(self.until)})"  # noqa: S608
        columns = ", ".join(("request", *values))
        connection.execute(
            f"INSERT OR IGNORE INTO selection.requests ({columns}) {selected} ORDER BY {order}",
            {**self.where.arguments(), "until": self.until},
        )
        if not values:
            return False
        lacking = " OR ".join(f"{column} IS NULL" for column in values)
        has_first = connection.execute(_HAS_FIRST.format(lacking)).fetchone()[0]
        if not has_first:
            connection.execute("UPDATE selection.requests SET slice = NULL, second = NULL")
        return bool(has_first)

    def _fill_names(self, connection: sqlite3.Connection) -> None:
        """Note the names of spans that all conditions on names allow."""
        conditions = [part for part in self.where.conditions if part.field == "name"]
        if not conditions:
            return
        tests: list[str] = []
        arguments: dict[str, StoredValue] = {}
        for place, part in enumerate(conditions):
            tests.append(f"{'NOT ' * part.is_negated}({part.test_sql(place)})")
            arguments |= part.arguments(place)
        connection.execute(
            "CREATE TABLE selection.names AS SELECT DISTINCT name"  # noqa: S608 - constants
            f" FROM main.spans AS r WHERE {' AND '.join(tests)}",
            arguments,
        )

    def _fill_slices(self, connection: sqlite3.Connection, *, has_first: bool) -> None:
        """Note the group of each request: by what its first span has, else any span of it.

        With ``has_first`` the former is noted already.
        """
        columns = _COLUMNS[: len(self.by)]
        kept = ", ".join(f"{name} = ifnull({name}, excluded.{name})" for name in columns)
        is_noted = self.is_part and _OF_CALLS.keys() >= set(self.by)  # without a group
        if not (is_noted or has_first):
            values = list(map(_first_value, self.by))
            any_value = " OR ".join(f"{value} IS NOT NULL" for value in values)
            which = f"(parent_id IS NULL OR {any_value})"
            self._note_slices(connection, columns, values, which, kept)
        for column, by in zip(columns, self.by, strict=True):
            if by in _OF_CALLS:
                kept = f"""{column} = CASE WHEN ifnull({column}, excluded.{column})
  = excluded.{column} THEN excluded.{column} ELSE '{SEVERAL}' END"""
                value, which = _OF_CALLS[by]
                self._note_slices(connection, (column,), (value,), which, kept)
        if len(self.by) > 1:
            connection.execute(
                f"UPDATE selection.requests SET slice = ifnull(slice, '{NONE}')"  # noqa: S608
                f" || char({ord(BETWEEN)}) || ifnull(second, '{NONE}')"
            )
        if connection.execute(_LARGEST, (MAX_SLICES + 1,)).rowcount > MAX_SLICES:
            connection.execute(_POOL, (MAX_SLICES,))
        if self.only is not None:
            is_one = isinstance(self.only, str)
            names = dumps([self.only] if is_one else list(self.only))
            connection.execute(_KEEP.format("NOT IN" if is_one else "IN"), (names,))

    def _note_slices(
        self,
        connection: sqlite3.Connection,
        columns: Sequence[str],
        values: Sequence[str],
        which: str,
        kept: str,
    ) -> None:
        """Write values of some spans to their requests; ``kept`` says which of two counts."""
        among = ""
        if self.is_part:
            among = "AND +trace_id IN (SELECT request FROM selection.requests)"
        connection.execute(
            f"""
INSERT INTO selection.requests (request, {", ".join(columns)})
SELECT trace_id, {", ".join(values)} FROM main.spans INDEXED BY spans_summed
WHERE {which} {among} ORDER BY trace_id, parent_id IS NOT NULL
ON CONFLICT (request) DO UPDATE SET {kept}
"""  # noqa: S608 - constants, and the name of a tag in quotes
        )


_PAGE_BYTES = 16_384
"""A trace is found in up to a tenth less time than among pages of the usual size."""
_CACHE_KIB = 65_536
"""For the pages that are looked up at random: a million traces take as much."""
_MAX_LENGTH = 200
"""Characters of a value by which requests are grouped."""
_COLUMNS = ("slice", "second")
"""The columns of the values of a request by which it is grouped."""
_OF_CALLS = {
    "model": ("model_name", "kind = 'llm' AND model_name IS NOT NULL"),
    "prompt": (
        """trim(ifnull(json_extract(prompt, '$.id'), '') || ' '
  || ifnull(json_extract(prompt, '$.version'), ''))""",
        "prompt IS NOT NULL AND json_valid(prompt)",
    ),
}
"""What groups a request by its steps, in SQL: the value of a step, and which steps have one."""
_OF_FIRST = {
    "model": "NULL", "prompt": "NULL", "request": "CASE WHEN parent_id IS NULL THEN name END",
}  # fmt: skip
"""What a span has to say of its request where groups are by these, but for `_OF_CALLS`."""
_HAS_FIRST = """
SELECT NOT EXISTS (SELECT 1 FROM selection.requests WHERE {})
  AND (SELECT count(*) FROM selection.requests) = (
    SELECT count(*) FROM main.spans INDEXED BY spans_summed
    WHERE parent_id IS NULL AND +trace_id IN (SELECT request FROM selection.requests))
"""
"""Whether each request has the values of a first span, and there are no further first spans."""
_LARGEST = """
INSERT INTO selection.largest
SELECT slice FROM selection.requests WHERE slice IS NOT NULL
GROUP BY slice ORDER BY count(*) DESC, slice LIMIT ?
"""
_POOL = f"""
UPDATE selection.requests SET slice = '{OTHERS}'
WHERE slice NOT IN (SELECT slice FROM selection.largest ORDER BY rowid LIMIT ?)
"""  # noqa: S608 - constants

_KEEP = f"""
DELETE FROM selection.requests
WHERE ifnull(slice, '{NONE}') {{}} (SELECT value FROM json_each(?))
"""  # noqa: S608 - constants


def _first_value(by: str) -> str:
    """Return what a span has to say of the group of its request, in SQL."""
    return f"substr({_OF_FIRST.get(by) or value_sql(by)}, 1, {_MAX_LENGTH})"


def value_sql(by: str) -> str:
    """Return the value of a span by which its request is grouped, in SQL."""
    if by in _VALUES:
        return _VALUES[by]
    return tag_sql("user_id" if by == "user" else by.removeprefix(TAG))


_VALUES = {
    "request": "name",
    "session": "session_id",
    "release": f"coalesce({tag_sql('release')}, {tag_sql('version')})",
}


def values_of(group: str | None, width: int) -> list[str]:
    """Return the value of each of ``width`` groupings; that of the rest of the groups has one."""
    values = (NONE if group is None else group).split(BETWEEN)
    return values + [""] * (width - len(values))


def selection_of(
    where: Sequence[str],
    by: Sequence[str] = (),
    until: int | None = None,
    only: str | Collection[str] | None = None,
) -> Selection | None:
    """Return the requests that conditions select, in groups; ``None`` where all are selected.

    ``only`` names the one group that is selected, or those that are not.

    Raises `ConfigurationError` for what is no condition or grouping.
    """
    if not where and not by and until is None:
        return None
    return Selection(read_filter(where), by, until, only)


def may_lack(connection: sqlite3.Connection, selection: Selection | None) -> str:
    """Say that a filter may miss requests, and why; empty where it cannot.

    It names ids that the store may hold as hashes, whose key is missing here.
    """
    identifiers = () if selection is None else selection.where.identifiers
    if not identifiers or not unreadable(connection, *identifiers):
        return ""
    return f"some requests may be missing: {UNREADABLE}"


def frame_of(selection: Selection | None, since_ns: int | None = None, part: Part = None) -> Frame:
    """Return the frame of the selected requests, or of one part of a split of them.

    Args:
        selection: the requests that a reader selects.
        since_ns: the time from which on judgements count.
        part: the beginning of a period, or one of the selection's groups.
    """
    since = max(since_ns or 0, part if isinstance(part, int) else 0)
    if selection is None:
        return Frame(since_ns=since)
    where = selection.where.texts
    if part is None and isinstance(selection.only, str):
        part = selection.only
    if isinstance(part, str):
        values = zip(selection.by, values_of(part, len(selection.by)), strict=True)
        where |= {_group_text(by, value) for by, value in values}
    return Frame(where - {""}, since)


def _group_text(by: str, value: str) -> str:
    """Return the condition that all requests of a group meet; empty where no condition says it.

    Of a group by ``request``, spans of other names are a part that ``name=`` does not select.
    """
    is_pooled = value in (OTHERS, NONE, SEVERAL, "") or len(value) == _MAX_LENGTH
    if is_pooled or by in ("request", "release", "prompt"):
        return ""
    field, name = (TAG.rstrip(":"), by.removeprefix(TAG)) if by.startswith(TAG) else (by, "")
    return Condition(field, name, ONE_OF, values=(value,)).text


def read_by(connection: sqlite3.Connection, table: str, index: str, name: str = "") -> str:
    """Return what to write after FROM to read a table, under a ``name``, by one of its indices.

    SQLite takes no INDEXED BY for a view, so that it goes into the statement behind it.
    """
    sql = "SELECT sql FROM temp.sqlite_master WHERE type = 'view' AND name = ?"
    view = connection.execute(sql, (table,)).fetchone()
    if view is None:
        return f"{table} AS {name or table} INDEXED BY {index}"
    selected = view[0].partition(" AS ")[2]
    selected = selected.replace(f"main.{table}", f"main.{table} INDEXED BY {index}", 1)
    return f"({selected}) AS {name or table}"


def _delete(folder: str, pid: int) -> None:
    """Delete a selection's file; a child that was forked leaves it to its parent."""
    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)


def _check_slice(by: str) -> str:
    """Return a grouping that can be used; raises `ConfigurationError` for another word."""
    if by in SLICES[:-1] or (by.startswith(TAG) and by != TAG and by.isprintable()):
        return by
    raise ConfigurationError(f"{by!r} is no grouping: expected one of {', '.join(SLICES)}")
