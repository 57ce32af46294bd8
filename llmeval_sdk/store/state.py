"""The two files beside the store that hold what processes have to remember: ledger and state.

The ledger is written at every judgement. The file of state holds all the rest: open sessions,
calibrations, alarms. They are two files because a commit waits for other writers
of its file: with sessions in it, the 99th percentile of the ledger rose from 1.2 to 18 ms. Both are
SQLite in WAL mode, readable by their owner only, and used by any number of processes.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from llmeval_sdk.errors import DataError
from llmeval_sdk.model import DAY_NS
from llmeval_sdk.process import private
from llmeval_sdk.store._schema import EmptyError, Schema, SchemaError, newer, run_scripts
from llmeval_sdk.store.connection import Database, Inherited, connect
from llmeval_sdk.store.files import Unusable, make_folder, path_of


T = TypeVar("T")

_TEXTS = """
-- Texts that processes change as a whole under the lock of the file; versions only rise.
CREATE TABLE texts (
  name TEXT NOT NULL UNIQUE,
  text TEXT NOT NULL,
  version INTEGER NOT NULL
);
"""
LEDGER = Schema(0x6C6C6D6C, (_TEXTS,))
STATE = Schema(
    0x6C6C6D73,
    (
        f"""{_TEXTS}
-- Verdicts of earlier offline runs, by a hash of all that they were made of.
CREATE TABLE verdicts (
  key BLOB PRIMARY KEY,
  made REAL NOT NULL,  -- seconds since the epoch
  verdict TEXT NOT NULL,
  signature BLOB
) WITHOUT ROWID;
CREATE INDEX verdicts_by_time ON verdicts (made);

-- How many scripts of its own each plugin has run here.
CREATE TABLE plugins (
  name TEXT PRIMARY KEY,
  version INTEGER NOT NULL
) WITHOUT ROWID;
""",
        "DROP TABLE verdicts;  -- now in a file of their own",
    ),
)

_NOT_WRITABLE = (errno.EROFS, errno.EACCES, errno.EPERM)
READ_WAIT_SECONDS = 5.0


def ledger_path(store: str | os.PathLike[str]) -> Path:
    """Return where the ledger of a store's app lies."""
    return path_of(store).with_suffix(".ledger")


def state_path(store: str | os.PathLike[str]) -> Path:
    """Return where the file of state of a store's app lies."""
    return path_of(store).with_suffix(".state")


def oldest_ns(max_days: float) -> int:
    """Return the time from before which things expire; 0 where there is no bound of days."""
    return time.time_ns() - int(max_days * DAY_NS) if max_days else 0


class Belongings(NamedTuple):
    """What a store has of a user, by which other files find theirs."""

    users: tuple[str, ...] = ()
    """The forms of the user's id."""
    traces: frozenset[str] = frozenset()
    """The traces of which any span has the user."""
    spans: frozenset[str] = frozenset()
    """All spans of these traces."""
    sessions: frozenset[str] = frozenset()
    """The sessions of these spans."""
    judge_traces: frozenset[str] = frozenset()
    """The traces of judges that read these spans or sessions, and may quote them."""


class StateTables:
    """Tables in the file of state, and how their rows are forgotten.

    Args:
        owner: The plugin that they belong to.
        scripts: The statements that make them, by version, as in a `Schema`.
        noun: What one row that belongs to a person is called.
        tables: The tables that are emptied where all of it is to be forgotten.
        texts: The texts that are deleted then.
        forget: Deletes a person's rows inside the caller's transaction; returns how many.
        expire: Deletes rows from before a time in nanoseconds since the epoch, likewise.
        path: Where their file lies, if it is not the one beside the store.
    """

    __slots__ = ("expire", "forget", "noun", "owner", "path", "scripts", "tables", "texts")

    def __init__(
        self,
        *,
        owner: str,
        noun: str,
        tables: tuple[str, ...],
        forget: Callable[[sqlite3.Connection, Belongings], int],
        expire: Callable[[sqlite3.Connection, int], int] = lambda _connection, _before_ns: 0,
        scripts: tuple[str, ...] = (),
        texts: tuple[str, ...] = (),
        path: Callable[[], Path] | None = None,
    ) -> None:
        self.owner, self.noun, self.path = owner, noun, path
        self.scripts, self.tables, self.texts = scripts, tables, texts
        self.forget, self.expire = forget, expire

    def empty(self, connection: sqlite3.Connection) -> int:
        """Delete all of it inside the caller's transaction; return how many rows that were."""
        count = 0
        for table in self.tables:
            count += connection.execute(f"DELETE FROM {table}").rowcount  # noqa: S608 - constants
        for text in self.texts:
            count += connection.execute("DELETE FROM texts WHERE name = ?", (text,)).rowcount
        return count


class StateFile:
    """One of the two files. Opened when first used, and again after a fork, which closes it.

    Using it raises ``OSError`` where it cannot be made or trusted, `Unusable` where it is of a
    newer release, of another program or damaged, ``sqlite3.Error`` where SQLite cannot use it, and
    `connection.Inherited` in a child that must not. Any thread may use it.

    Args:
        path: Where it lies; ``None`` keeps everything in memory, for this process alone.
        tables: Tables of plugins that are used.
        schema: `STATE` or `LEDGER`.
        timeout: Seconds to wait while other processes write.
        read_only: Whether it is only read, which works where it cannot be written.
    """

    def __init__(
        self,
        path: Path | None,
        *tables: StateTables,
        schema: Schema = STATE,
        timeout: float = 0.5,
        read_only: bool = False,
    ) -> None:
        self.path = path
        self._tables = tables
        self._schema = schema
        self._timeout = timeout
        self._read_only = read_only
        self._database = Database(self._open, in_memory=path is None)

    @property
    def is_there(self) -> bool:
        """Whether there is something to read, by this process or another one."""
        return self.path is None or self.path.exists()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Lend the connection for a few milliseconds."""
        with self._database.use() as connection:
            yield connection

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """Lend the connection for one transaction, which an exception takes back."""
        with self.reading() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def go_on_in_memory(self) -> None:
        """Do without a file that cannot be used."""
        with suppress(OSError, sqlite3.Error):
            self._database.close()
        self.path = None
        self._database = Database(self._open, in_memory=True)

    def close(self) -> None:
        """Close the file; using it again opens it again."""
        self._database.close()

    def _open(self) -> sqlite3.Connection:
        try:
            if self.path is not None and self._read_only:
                return _opened_to_read(self.path, self._schema)
            return self._connect()
        except EmptyError:
            raise FileNotFoundError(errno.ENOENT, "it holds nothing yet") from None
        except SchemaError as error:
            raise Unusable(str(error)) from None
        except sqlite3.DatabaseError as error:
            if not any(words in str(error) for words in _DAMAGE):
                raise
            why = f"it is damaged ({error}): move it away, and a new one begins"
            raise Unusable(why) from None

    def _connect(self) -> sqlite3.Connection:
        place: Path | str = ":memory:"
        if self.path is not None:
            place = self.path
            make_folder(place.parent)
            private.check_folder(place.parent.lstat(), shared=True)
            private.make_file(place)
            _check(place)
        connection = connect(
            place, timeout=self._timeout, isolation_level=None, check_same_thread=False
        )
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        version = self._schema.version_of(connection)  # before anything is altered
        connection.execute("PRAGMA trusted_schema = OFF")
        if not version:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        _use_log(connection, self._timeout)
        for pragma in ("synchronous = NORMAL", "cache_size = -2000"):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        if version < self._schema.version:
            self._schema.migrate(connection)
        if self._tables:
            _migrate(connection, self._tables)
        self._schema.refuse_programs(connection)


def _check(path: Path, *, reading: bool = False) -> None:
    """Raise ``OSError`` unless a file can be trusted; a pipe would hang whoever opens it."""
    private.check_file(path, reading=reading)
    if not stat.S_ISREG(path.lstat().st_mode):
        raise OSError(errno.EINVAL, "it is no plain file")


def _use_log(connection: sqlite3.Connection, seconds: float) -> None:
    """Switch WAL mode on; SQLite does not wait for this lock by itself."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchall()
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.002)
        else:
            return


def _migrate(connection: sqlite3.Connection, tables: tuple[StateTables, ...]) -> None:
    """Make the tables of plugins that are missing, in one transaction."""
    wanted = {each.owner: each for each in tables if each.scripts}

    def behind() -> list[tuple[StateTables, int]]:
        known: dict[str, int] = dict(connection.execute("SELECT name, version FROM plugins"))
        found = [(each, known.get(owner, 0)) for owner, each in wanted.items()]
        for each, version in found:
            if version > len(each.scripts):
                raise newer(version, len(each.scripts))
        return [(each, version) for each, version in found if version < len(each.scripts)]

    if not behind():
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for each, version in behind():
            run_scripts(connection, each.scripts[version:])
            row = each.owner, len(each.scripts)
            connection.execute("INSERT OR REPLACE INTO plugins VALUES (?, ?)", row)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


_DAMAGE = ("malformed", "not a database")
"""Words by which SQLite says that a file is damaged."""


class SharedText:
    """A text in one of the files that processes change under one lock.

    Where the folder cannot be written (a read-only disk), or others can write there, the text is
    kept in memory and `shared` is False.
    """

    def __init__(self, file: StateFile, name: str) -> None:
        self._file = file
        self._name = name

    @property
    def shared(self) -> bool:
        """Whether other processes see the text, known after the first use."""
        return self._file.path is not None

    @property
    def path(self) -> Path | None:
        """The file; ``None`` while the text is kept in memory."""
        return self._file.path

    def update(self, change: Callable[[str], tuple[str | None, T]], /) -> T:
        """Replace the text by what ``change`` returns (``None``: keep it); return the rest.

        Blocks for about the file's ``timeout`` at most while other processes write, then raises
        ``sqlite3.OperationalError``.
        """
        try:
            return self._update(change)
        except OSError as error:
            if error.errno not in _NOT_WRITABLE or not self.shared:
                raise
            self._file.go_on_in_memory()
            return self._update(change)

    def _update(self, change: Callable[[str], tuple[str | None, T]]) -> T:
        with self._file.reading() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                row = connection.execute(_TEXT, (self._name,)).fetchone()
                new, result = change(row[0] if row else "")
                if new is not None:
                    connection.execute(_REPLACE, (self._name, new))
                    connection.execute("COMMIT")
                return result
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def version(self) -> int:
        """Return the version of the text, 0 where there is none. No file is made."""
        row = self._row(_VERSION)
        return int(row[0]) if row else 0

    def read(self) -> tuple[str, int]:
        """Return the text, empty where there is none, and its version. No file is made."""
        row = self._row(_BOTH)
        return (str(row[0]), int(row[1])) if row else ("", 0)

    def _row(self, query: str) -> tuple[str | int, ...] | None:
        if not self._file.is_there:
            return None
        try:
            with self._file.reading() as connection:
                row: tuple[str | int, ...] | None = connection.execute(
                    query, (self._name,)
                ).fetchone()
        except FileNotFoundError:  # removed meanwhile, or another process is about to fill it
            return None
        return row

    def replace(self, text: str, version: int) -> bool:
        """Replace the text if it still has the version; return whether it had."""
        with self._file.changing() as connection:
            row = connection.execute(_VERSION, (self._name,)).fetchone()
            if (row[0] if row else 0) != version:
                return False
            connection.execute(_REPLACE, (self._name, text))
        return True

    def close(self) -> None:
        """Close the file; using the text again opens it again."""
        self._file.close()


LOOK_AGAIN_SECONDS = 30.0
_MAX_SAID = 1_000


class WatchedText(Generic[T]):
    """A text of the file of state, as a long-lived process reads it.

    It is read again at most every half a minute, and each problem with it is reported once.

    Args:
        path: The file of state.
        name: The name of the text.
        parse: Reads the text, which is empty where there is none; raises `DataError`.
        noun: What the text holds, such as "the calibrations".
        complain: Is called once with each problem.
    """

    def __init__(
        self,
        path: Path,
        name: str,
        parse: Callable[[str], T],
        *,
        noun: str,
        complain: Callable[[str], object],
    ) -> None:
        self._path = path
        self._text = SharedText(StateFile(path, read_only=True), name)
        self._parse = parse
        self._noun = noun
        self._complain = complain
        self._said: set[str] = set()
        self._looked = float("-inf")
        self._read = ""
        """The text that was read last: a new file may begin with the version of the former one."""
        self._content = parse("")

    def read(self) -> T:
        """Return the parsed text. A text that cannot be read counts as an empty one."""
        now = time.monotonic()
        if now - self._looked >= LOOK_AGAIN_SECONDS:
            self._looked = now
            self._look()
        return self._content

    def _look(self) -> None:
        try:
            text, _ = self._text.read()
            if text != self._read:
                self._read = text
                self._content = self._parse(text)
        except (OSError, sqlite3.Error, Unusable, Inherited) as error:
            self._read, self._content = "", self._parse("")
            self.say(f"{self._noun} in {self._path} are not read: {error}")
        except DataError as error:
            self._content = self._parse("")
            self.say(f"{self._path}: {error}")
        finally:
            with suppress(sqlite3.Error):
                self._text.close()

    def say(self, problem: str) -> None:
        """Report a problem, once."""
        if problem not in self._said and len(self._said) < _MAX_SAID:
            self._said.add(problem)
            self._complain(problem)


def parsed_text(path: Path, name: str, parse: Callable[[str], T], noun: str) -> T:
    """Read a text of the file of state, which is empty where there is no file.

    Raises `DataError` where it cannot be read.
    """
    try:
        return parse(text_in(path, name))
    except Unusable as error:
        raise DataError(f"{noun} in {path} are not read: {error}") from None


def change_text(path: Path, name: str, change: Callable[[str], str], noun: str) -> None:
    """Replace a text of the file of state by what ``change`` makes of it, at once and as a whole.

    Raises `DataError` where it cannot be written.
    """
    text = SharedText(StateFile(path), name)
    try:
        text.update(lambda former: (change(former), None))
        if not text.shared:
            raise DataError(f"{noun} cannot be written to {path}")
    except (OSError, sqlite3.Error, Unusable) as error:
        raise DataError(f"{noun} cannot be written to {path}: {error}") from None
    finally:
        text.close()


class HostLedger(SharedText):
    """Books in the ledger of a host, for `llmeval_sdk.evaluation.limiter`.

    Args:
        path: The ledger.
        name: Whose books; those of judges by default.
        timeout: Seconds to wait while other processes write.
    """

    def __init__(
        self, path: str | os.PathLike[str], name: str = "judges", *, timeout: float = 0.5
    ) -> None:
        super().__init__(StateFile(Path(path), schema=LEDGER, timeout=timeout), name)


_TEXT = "SELECT text FROM texts WHERE name = ?"
_VERSION = "SELECT version FROM texts WHERE name = ?"
_BOTH = "SELECT text, version FROM texts WHERE name = ?"
_REPLACE = """
INSERT INTO texts VALUES (?, ?, 1)
ON CONFLICT (name) DO UPDATE SET text = excluded.text, version = version + 1
"""


def open_state_read_only(path: Path, schema: Schema = STATE) -> sqlite3.Connection | None:
    """Open one of the files without making or changing it; ``None`` where it holds nothing.

    Raises `Unusable` where it cannot be read.
    """
    if not path.exists():
        return None
    try:
        return _opened_to_read(path, schema)
    except EmptyError:
        return None
    except (OSError, sqlite3.Error, SchemaError) as error:
        raise Unusable(getattr(error, "strerror", None) or str(error)) from None


def _opened_to_read(path: Path, schema: Schema) -> sqlite3.Connection:
    _check(path, reading=True)
    for mode in ("mode=ro", "immutable=1"):  # WAL needs a folder that can be written
        connection = connect(
            f"{path.absolute().as_uri()}?{mode}", uri=True, timeout=READ_WAIT_SECONDS,
            isolation_level=None, check_same_thread=False,
        )  # fmt: skip
        try:
            if not schema.version_of(connection):
                raise EmptyError("it holds nothing yet")  # noqa: TRY301
            schema.refuse_programs(connection)
        except sqlite3.OperationalError as error:
            connection.close()
            if mode != "mode=ro" or ("open" not in str(error) and "readonly" not in str(error)):
                raise
        except BaseException:
            connection.close()
            raise
        else:
            return connection
    raise AssertionError


def text_in(path: Path, name: str, schema: Schema = STATE) -> str:
    """Return a text of one of the files, empty where there is none, and change nothing.

    Raises `Unusable` where it cannot be read.
    """
    connection = open_state_read_only(path, schema)
    if connection is None:
        return ""
    try:
        with closing(connection):
            row = connection.execute(_TEXT, (name,)).fetchone()
    except sqlite3.Error as error:
        raise Unusable(str(error)) from None
    return str(row[0]) if row else ""


def tables_of(connection: sqlite3.Connection, tables: StateTables) -> bool:
    """Say whether a file that was opened for reading has the tables of a plugin."""
    row = connection.execute("SELECT 1 FROM plugins WHERE name = ?", (tables.owner,)).fetchone()
    return row is not None
